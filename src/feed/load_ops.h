/* The shape of a kind of load: what a sample is, and how it gets into its places. One static const table per kind, listed in load_list.c;
 * the engine knows no more of a data set than this.
 *
 *   single   a sample fills one place: an image (image_load.c), a recording, an array or a bag (bag.c)
 *   group    one load fills many places: rows of arrays (rows.c)
 *
 * Everything a kind keeps is constant after `open`, or has a lock of its own.
 */
#ifndef FB_FEED_LOAD_OPS_H
#define FB_FEED_LOAD_OPS_H

#include "feed/feed.h"
#include "order/subset/subset.h"

struct json_writer;
struct metrics;

struct load_ops {
    const char *name;

    /* ---- opening, in this order; the data set is open, and the crew has been joined ---- */

    /* MUST. Makes f->state; may choose another kind for what it finds. */
    int (*make)(struct feed *f, const fb_options *o, struct fb_error *e);
    /* MAY. Chooses f->subset and f->origin when samples are not those of the catalog. */
    int (*choose)(struct feed *f, const struct subset_request *r, enum order_kind order, struct fb_error *e);
    /* MUST. Opens f->labels, and whatever else the names in fields= may mean. */
    int (*open_labels)(struct feed *f, const fb_options *o, struct fb_error *e);
    /* MAY. For shuffle="window": samples that are read together, and how many are mixed with each other. By the data alone, so that a state
     * means the same on every machine. Without it: those of files. */
    void (*window)(const struct feed *f, uint64_t *block, uint64_t *samples);
    /* MUST. Transforms, and what is kept in memory. */
    int (*open)(struct feed *f, const fb_options *o, struct fb_error *e);

    /* ---- batches ---- */

    /* MUST. Adds the fields that come before label `label` of the batch; labels.count: those behind the last. */
    int (*add_fields)(const struct feed *f, int label, struct slot_shape *s, struct fb_error *e);
    /* MUST. The loads of a slot whose places know their positions; `given` says which samples instead of the order. The planner's thread.
     * */
    struct load *(*plan)(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given);
    /* MUST. A worker's: runs the load and finishes it, or hands it on. */
    void (*run)(struct worker *w, struct feed *f, struct load *l);
    /* MAY. What the kind has to do when the last place of a slot is filled, and none has failed: the first of what load.c then does. Called
     * once, by the worker that filled it. No lock is held. */
    void (*finish)(struct feed *f, struct slot *s);
    /* MAY. Rows that a sample of the catalog puts into fields of variable length. */
    uint64_t (*length)(const struct feed *f, uint64_t sample);
    /* MAY. What was drawn for a place, as members of a JSON object; add_fields says in s->draw_numbers how much is kept of it. */
    void (*show_draws)(const struct feed *f, const double *record, struct json_writer *w);
    /* MAY. What a sample is called, if it has no key in the catalog; returns the length wanted. */
    int (*key)(const struct feed *f, uint64_t sample, char *out, size_t out_size);

    /* ---- of single loads: see single.c ---- */

    /* MAY. Decides how much of the file at hand is read. The planner's thread, each time before the load is sent; `memory` is its own. */
    void (*prepare)(struct feed *f, struct load *l, struct scratch *memory);
    /* MUST. What io reads of it. */
    struct io_request (*request)(const struct feed *f, struct load *l, uint8_t *buffer, size_t capacity, struct fb_error *e);
    /* MUST. All bytes of the file at hand -> the place. FILL_NEEDS_MORE: the part that was read is not enough. */
    int (*fill)(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e);
    /* MAY. Aims l->where at the sample's next file. FILL_NEXT_FILE: there is one; 0: there is none. */
    int (*next_file)(struct feed *f, struct load *l, struct fb_error *e);
    /* MAY. Does the worker find the bytes of that sample by itself, with fill_itself? LOAD_IS_GONE: io has the load, which will come back.
     */
    bool (*reads_itself)(const struct feed *f, const struct catalog_sample *s);
    int (*fill_itself)(struct worker *w, struct feed *f, struct load *l, struct fb_error *e);

    /* ---- the rest ---- */

    /* MUST if its workers list reads. Frees l->waited. */
    void (*drop_waited)(struct feed *f, struct load *l);
    /* MAY. In blocks of how many bytes a cache keeps a file that workers read by themselves; 0, and without it: as a whole. If even an
     * empty file is kept in blocks, no sample is a unit of the cache. */
    uint64_t (*cache_block)(const struct feed *f, const struct catalog_sample *s);
    /* MAY. Somebody needs memory: an idle feed gives back all it has, a live one half of it. Any thread. */
    void (*give_back)(struct feed *f, bool is_live);
    /* MAY. Figures of its own, by meter/metrics.h. Any thread. */
    void (*metrics)(struct feed *f, struct metrics *m);
    /* MAY. Nobody uses the feed any more; opening may have failed half-way. */
    void (*close)(struct feed *f);
};

/* What a step of a load returns besides 0 and errors. */
enum { LOAD_IS_GONE = 1, FILL_NEEDS_MORE = 2, FILL_NEXT_FILE = 3 };

extern const struct load_ops load_image, load_file, load_rows;

/* load_list.c: finds the kind by the data set and what is asked for; sets f->kind. */
int load_choose_kind(struct feed *f, const fb_options *o, struct fb_error *e);

#endif
