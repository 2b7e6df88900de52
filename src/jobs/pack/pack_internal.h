/* One packing run under way, as the files that start it (pack.c), write records (pack_write.c) and resume (pack_resume.c) see it. */
#ifndef FB_JOBS_PACK_PACK_INTERNAL_H
#define FB_JOBS_PACK_PACK_INTERNAL_H

#include "base/budget.h"
#include "dataset/dataset.h"
#include "jobs/pack.h"
#include "jobs/output/pack_files.h"
#include "jobs/output/pack_names.h"
#include "jobs/pack/pack_reader.h"
#include "jobs/pack/pack_shard.h"

struct packing {
    const struct pack_request *q;
    struct pack_result *out;
    struct dataset dataset;
    struct pack_names names;
    struct pack_source source;
    struct pack_files files;
    struct pack_shard shard;
    struct learnt *learnt;
    struct budget budget;
    uint64_t next; /* sample to be packed */
    uint64_t bytes_total;
    uint64_t started_ns;
    struct text skipped;
    bool is_useless; /* what was written can never become the pack of what is there now */
};

/* pack_write.c */
/* Makes room for a record: the shard it goes to is open afterwards. */
int packing_turn(struct packing *p, uint64_t record_bytes, struct fb_error *e);
/* The record that `entry` tells of is in the file. */
int packing_add(struct packing *p, const struct pack_entry *entry, const char *name, struct fb_error *e);
int packing_write(struct packing *p, struct pack_item *item, struct fb_error *e);
/* Ends the open shard. */
int packing_finish_shard(struct packing *p, bool is_last, struct fb_error *e);

/* pack_resume.c */
/* Goes on where an interrupted run stopped, if there is one; else starts anew. */
int packing_begin(struct packing *p, struct fb_error *e);

#endif
