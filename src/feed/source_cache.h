/* The loader's caches: what a feed tells cache/ about its source and its future. */
#ifndef FB_FEED_SOURCE_CACHE_H
#define FB_FEED_SOURCE_CACHE_H

#include "base/text/json_writer.h"
#include "feed/feed.h"

struct source_cache;

/* Puts the caches that the options ask for in front of f->io; nothing asked for: nothing happens. */
int source_cache_open(struct feed *f, const fb_options *o, uint32_t depth, struct fb_error *e);
/* The planner has asked for everything before `position`. */
void source_cache_move(struct feed *f, const struct run *run, uint64_t position);
/* Its figures; without one there are none. */
struct metrics;
void source_cache_metrics(struct feed *f, struct metrics *m);
/* ,"cache":{...} for the statistics; null without one. */
void source_cache_stats(struct feed *f, const struct metrics *m, struct json_writer *w);
void source_cache_close(struct feed *f); /* after io */
/* What a cache keeps of a file that is open: `s` as the open file is, the `selected`th sample. */
void source_cache_describe(const struct feed *f, const struct catalog_sample *s, uint64_t selected, struct io_object *out);

#endif
