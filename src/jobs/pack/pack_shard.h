/* One shard of a pack while it is written: its file, and what its index will say. */
#ifndef FB_JOBS_PACK_PACK_SHARD_H
#define FB_JOBS_PACK_PACK_SHARD_H

#include "base/text/text.h"
#include "dataset/dataset.h"
#include "dataset/pack/pack_format.h"
#include "jobs/output/pack_files.h"
#include "model/catalog/catalog.h"
#include "model/learnt/learnt.h"

struct pack_shard {
    int fd;
    uint32_t number;
    uint64_t position; /* end of the last record */
    uint64_t samples;
    struct catalog_writer *catalog;
    struct text records;           /* struct pack_record each */
    struct text names, name_texts; /* struct pack_name each, and what they name */
    struct text origins;           /* uint64_t each: the sample's number in the source, for what was learnt about it */
    uint64_t synced_to;            /* writing back has been asked for up to here */
};

int pack_shard_open(struct pack_shard *s, int fd, uint32_t number, const struct catalog *source, struct fb_error *e);
/* A record is in the file at s->position. `name` is the member's if it is not called like its key, else NULL. */
int pack_shard_add(struct pack_shard *s, const struct catalog *source, const struct pack_entry *entry, const char *name,
                   struct fb_error *e);
/* Writes the index and the end of the archive, and brings all of it to the disk. `learnt` may be NULL. */
int pack_shard_finish(struct pack_shard *s, const struct catalog *source, struct learnt *learnt, bool is_last, struct fb_error *e);
void pack_shard_close(struct pack_shard *s);

#endif
