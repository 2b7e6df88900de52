/* From marks to the loop_* members of a snapshot: adds up what the loops of a watched program told. */
#ifndef FB_MONITOR_LOOP_MARKS_H
#define FB_MONITOR_LOOP_MARKS_H

#include "meter/marks.h"
#include "model/snapshot.h"

enum { LOOPS_MOST = 256 }; /* later loops of a program that opens more are not followed */

struct loop_marks {
    struct {
        uint32_t pid;
        uint16_t loop;
        uint64_t last_ns; /* the last batch of the running epoch; 0: none yet */
    } loop[LOOPS_MOST];
    int loops;
    double wall_ns, wait_ns, wait_cpu_ns, batches, epochs, steps, step_ns; /* since the last row */
};
void loop_marks_add(struct loop_marks *l, const struct mark *m, int count);
/* Into the row; before anything was told the members stay unknown. */
void loop_marks_take(struct loop_marks *l, struct snapshot *row);

/* What the marks of a whole run say about the loop with the most batches; NAN: not known. */
enum { LOOP_EPOCHS = 64 };
struct loop_summary {
    uint64_t batches;
    int epochs;
    double step_p50_s, step_p99_s, step_variation; /* from batch to batch inside an epoch; variation: deviation / mean */
    double gap_mean_s, gap_most_s;                 /* from the last batch of an epoch to the first of the next */
    double wait_ratio;                             /* waiting for batches, of the time iterating: meter/loop.h */
    double step_mean_s;                            /* of the same intervals */
    double rate[LOOP_EPOCHS];                      /* batches per second of the first epochs: these intervals over their time */
};
/* False: there are no marks, or no memory. */
bool loop_summarise(const struct mark *m, uint64_t count, struct loop_summary *out);

#endif
