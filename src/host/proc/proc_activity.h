/* From looks at the consumer's Python stack to its time by activity. */
#ifndef FB_HOST_PROC_PROC_ACTIVITY_H
#define FB_HOST_PROC_PROC_ACTIVITY_H

#include "host/proc/proc_tree.h"
#include "model/snapshot.h"

/* What the consumers were seen doing, in wall time of the ticks that the looks stand for. */
enum { LOOK_KINDS = ACTIVITIES + 1 }; /* the last: no function runs, so its time belongs to no activity */
struct activity_looks {
    double running[LOOK_KINDS], blocked[WAIT_KINDS][LOOK_KINDS];
    double known, all, validating;
};

/* A tick of a consumer; `kind` is what it waits for, if it is blocked. */
void activity_add(struct activity_looks *l, const struct proc_thread *consumer, enum wait_kind kind, double wall_ns);
/* The end of an interval: fills stack_known, doing and validation_ns from the consumer's exact times, and lets `now` become `before`. */
void activity_split(struct activity_looks *now, struct activity_looks *before, struct snapshot *s);

#endif
