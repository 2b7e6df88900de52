/* A process tree as a plain user sees it: who is in it, which role each thread has.
 *
 * A thread's files are kept open: reading is then a third of the price, and a file of a dead task answers ESRCH, so a reused number is
 * never taken for the old one.
 */
#ifndef FB_HOST_PROC_PROC_TREE_H
#define FB_HOST_PROC_PROC_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "model/snapshot.h"

struct proc_thread {
    pid_t tid;
    int schedstat_fd, call_fd, io_fd; /* -1: opened for each look (too many files), or not readable */
    char comm[16];
    bool is_known; /* counters below are from an earlier look */
    bool is_gone;
    bool is_seen; /* while listing */
    uint64_t cpu_ns, delay_ns, slices, read_chars;
    uint64_t cpu_sum_ns, read_sum;                /* since it was found */
    double waited[WAIT_KINDS];                    /* looks by kind, ageing */
    bool is_blocked;                              /* at the last look */
    bool read_now;                                /* read file data since the look before */
    enum wait_kind wait;                          /* then */
    bool stack_known, stack_empty, is_validating; /* the consumer's Python stack at the last look */
    enum activity activity;
    enum role role;
    uint64_t off_tick_ns, cpu_tick_ns, delay_tick_ns; /* of the last tick */
    uint64_t born_ns;
    int name_looks;
};

enum process_kind { PROCESS_OTHER, PROCESS_TRAINER, PROCESS_WORKER };

struct process {
    pid_t pid, parent;
    uint64_t start_ticks; /* with the number it names a process for good */
    enum process_kind kind;
    bool is_gone, is_seen, is_listed, io_denied;
    uint64_t exe;                  /* identity of the program file; 0: not readable */
    uint64_t command;              /* checksum of the command line; its text is not kept */
    bool says_worker, says_helper; /* the command line names a multiprocessing child, a resource tracker */
    bool was_worker;
    nlink_t task_links;
    struct proc_thread *thread;
    int threads, capacity;
    uint64_t read_chars, read_calls, read_bytes, write_bytes, major_faults, minor_faults, system_ticks; /* at the last look */
    bool has_io;
    uint64_t cpu_sum_ns, born_ns;
};

enum { TREE_PROCESSES_MOST = 4096, TREE_THREADS_MOST = 16384 };

struct proc_tree {
    const char *proc; /* "/proc" */
    pid_t root;
    uint64_t root_start_ticks; /* a process that gets its number later is a stranger */
    bool adopts;               /* orphans become our children (the watcher is a subreaper) */
    struct process *process;
    int processes, capacity;
    pid_t *foreign; /* numbers that are not ours, sorted */
    int foreigns;
    int threads;             /* alive */
    uint64_t births, deaths; /* of workers */
    bool is_cut;             /* more than fits */
};

int proc_tree_open(struct proc_tree *t, const char *proc, pid_t root, struct fb_error *e);
/* Looks for new and gone processes and threads, and gives roles. */
void proc_tree_update(struct proc_tree *t, uint64_t now_ns);
/* Roles from what is known; pure. */
void proc_tree_assign_roles(struct proc_tree *t);
/* Drops what is gone; after its last figures were taken. */
void proc_tree_forget_gone(struct proc_tree *t);
void proc_tree_close(struct proc_tree *t);

/* The fields of /proc/PID/stat; the name in brackets may hold anything, so the last bracket counts. */
struct proc_stat {
    char comm[16], state;
    pid_t parent;
    uint64_t minor_faults, major_faults, system_ticks, start_ticks;
};
bool proc_parse_stat(const char *text, struct proc_stat *s);

#endif
