/* The child of `fullbore watch` and the signals around it. */
#ifndef FB_JOBS_WATCH_WATCH_CHILD_H
#define FB_JOBS_WATCH_WATCH_CHILD_H

#include <stdbool.h>
#include <signal.h>
#include <sys/types.h>

#include "base/error.h"

struct watch_child {
    pid_t pid;
    bool is_child; /* ours to wait for; else somebody else's */
    int pid_fd;    /* readable at its end; -1: poll by kill(0) */
    int signal_fd;
    sigset_t mask_before;
    bool has_ended;
    int exit_code;
};

/* Blocks the signals that are handled, starts `command` (which gets the old mask) or finds `pid`. */
int watch_child_open(struct watch_child *c, char **command, pid_t pid, struct fb_error *e);
/* Sleeps until the deadline or an event. Signals for the child are passed on. *wants_verdict: SIGUSR1 came; *wants_end: with a pid, the
 * user wants to stop watching; *is_resized: the terminal. */
void watch_child_wait(struct watch_child *c, uint64_t deadline_ns, bool *wants_verdict, bool *wants_end, bool *is_resized);
void watch_child_close(struct watch_child *c);

#endif
