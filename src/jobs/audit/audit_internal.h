/* What the two halves of the proof share: laying out (audit_prove.c) and judging (audit_judge.c). */
#ifndef FB_JOBS_AUDIT_AUDIT_INTERNAL_H
#define FB_JOBS_AUDIT_AUDIT_INTERNAL_H

#include "jobs/audit.h"
#include "order/order.h"

typedef unsigned long long ull;

struct proof {
    struct audit_set *set; /* NULL: only the table is wanted */
    const struct audit_stream *stream;
    uint64_t stream_number;
    struct audit_epoch *epoch;
    struct order order;
    struct audit_table t;
    uint8_t *is_taken; /* bits, by sample: came without being a stand-in */
    uint16_t *source;  /* by sample, over all epochs; 0: not known */
    struct audit_batch batch;
    struct skip *later; /* what stretches after the present one leave out */
    uint64_t later_count;
    int (*interrupted)(void *);
    void *ctx;
    struct fb_error *e;
};

#define PROBLEM(p, position, ...)                                                                                  \
    do {                                                                                                           \
        (p)->epoch->problems++;                                                                                    \
        if ((p)->set)                                                                                              \
            audit_note_problem((p)->set, (p)->stream_number, (p)->epoch->epoch, (int64_t)(position), __VA_ARGS__); \
    } while (0)

static inline bool audit_is_taken_back(const struct audit_part *part, uint64_t epoch, uint64_t position)
{
    return part->limit_epoch < epoch || (part->limit_epoch == epoch && part->limit_position <= position);
}

/* The epoch is laid out in p->t: what is missing, and what is to be said of it? */
void audit_judge(struct proof *p);

#endif
