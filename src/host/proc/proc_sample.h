/* Looks at every thread of a tree many times a second and adds up what each role did. */
#ifndef FB_HOST_PROC_PROC_SAMPLE_H
#define FB_HOST_PROC_PROC_SAMPLE_H

#include "host/proc/proc_activity.h"
#include "host/proc/proc_fd.h"
#include "host/proc/proc_tree.h"
#include "host/python/py_process.h"

/* Loaders end and come anew between epochs: the time in between belongs to neither step nor wait. */
enum restart { RESTART_FIRST, RESTART_NONE, RESTART_ENDING, RESTART_STARTING };

struct sampler {
    struct proc_tree tree;
    struct fd_table fds;
    struct py_processes *stacks;               /* NULL: Python stacks are not read */
    struct activity_looks doing, doing_before; /* in this interval; in earlier ones, ageing */
    struct snapshot sum;                       /* of the interval so far */
    uint64_t tick_ns;                          /* time of the last look */
    uint64_t interval_ns;                      /* when the interval began */
    uint64_t looks, looks_known;
    double unsplit_ns[ROLE_COUNT]; /* off the CPU in ticks that ended on it */
    enum restart restart;
    bool has_waited; /* the consumer waited for the new loaders */
    uint64_t births_seen, deaths_seen, births_taken, deaths_taken;
    uint64_t restart_ns;           /* when the phase began */
    double file_looks[FILE_KINDS]; /* where the data lies, by looks */
    dev_t data_device;
    uint64_t loader_top_ns; /* CPU time of the busiest loader thread */
    bool has_delay;         /* run-queue delay is told by this kernel */
    int denied;             /* errno of the first system call that could not be read; 0: none */
};

int sampler_open(struct sampler *s, const char *proc, const char *sys, pid_t root, struct fb_error *e);
/* A look at all threads. Cheap: one read per thread that did not run. */
void sampler_tick(struct sampler *s, uint64_t now_ns);
/* Looks for new processes and threads. */
void sampler_discover(struct sampler *s, uint64_t now_ns);
/* The figures of the processes and the sums since the last call; only the members about the tree are filled. */
void sampler_take(struct sampler *s, uint64_t now_ns, struct snapshot *out);
/* From now on the main threads of Python programs are asked what they do. */
void sampler_read_stacks(struct sampler *s);
void sampler_close(struct sampler *s);

#endif
