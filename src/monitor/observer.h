/* Observing a process tree and its machine, interval by interval: `fullbore watch` does it from outside, a monitor from inside.
 *
 * It measures its own CPU time and samples less often when there are many threads, so that it stays under 0.6 % of one core. Time is
 * monotonic; a jump of the wall clock changes nothing. One thread.
 */
#ifndef FB_MONITOR_OBSERVER_H
#define FB_MONITOR_OBSERVER_H

#include "host/gpu.h"
#include "host/machine_sample.h"
#include "host/proc/proc_sample.h"
#include "model/snapshot.h"

struct observer {
    struct sampler sampler;
    struct machine_sampler machine;
    struct gpu gpu;
    struct series series;
    struct run_facts facts;
    struct snapshot row; /* the last one, as it went into the series */
    pid_t pid;
    bool is_machine_only; /* no threads are looked at */
    uint64_t started_ns, tick_at, discover_at, snapshot_at, tick_ns, interval_ns;
    double gpu_sum, gpu_low, gpu_high;
    int gpu_looks;
    struct gpu_figures gpu_now;
    /* Fills the loop_* members of a row with what came since the last one; NULL: nobody tells. */
    void (*tell)(void *ctx, struct snapshot *row);
    void *ctx;
};

/* is_child: started by us just now. interval_s: of a row; 0: 0.5. */
int observer_open(struct observer *o, pid_t pid, bool is_child, double interval_s, struct fb_error *e);
/* Only the machine, not the threads: for those who know their threads better themselves. */
void observer_open_machine(struct observer *o, double interval_s);
/* When o->tick_at has come. True: a row was added. */
bool observer_step(struct observer *o);
/* Ends an interval early. */
void observer_take(struct observer *o, uint64_t now_ns);
void observer_close(struct observer *o);

#endif
