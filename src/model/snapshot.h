/* One snapshot: what a watched program and its machine did during one interval. Feeds the live line, the verdict, the recording, the
 * report.
 *
 * Sums are over the interval and over the threads of a role; a figure that could not be read is NAN (doubles) and is never shown as 0.
 * Every member is 8 bytes wide, so a snapshot is a row of numbers: recordings write it as it is, and SNAPSHOT_VERSION counts its layouts.
 * Members are only ever appended, so a row of an older version is a shorter one.
 */
#ifndef FB_MODEL_SNAPSHOT_H
#define FB_MODEL_SNAPSHOT_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

enum { SNAPSHOT_VERSION = 3 };

/* What a thread does for the training loop. */
enum role {
    ROLE_CONSUMER, /* the main thread of a trainer: takes batches, starts steps */
    ROLE_LOADER,   /* reads, decodes, collates: worker processes, loader threads, fullbore's own */
    ROLE_PIN,      /* hands batches on: PyTorch's pin-memory thread */
    ROLE_COMPUTE,  /* helps the consumer compute: OpenMP and the like */
    ROLE_OTHER,    /* launchers, shells, what does not matter */
    ROLE_COUNT
};

/* What a thread that is off the CPU waits for, as its system call tells. */
enum wait_kind {
    WAIT_FILE,        /* a file on this machine: read, open, stat */
    WAIT_REMOTE_FILE, /* a file on NFS, 9p, FUSE ... */
    WAIT_NETWORK,     /* an internet socket */
    WAIT_FAULT,       /* a page that is not in memory */
    WAIT_PIPE,        /* another process of this machine: pipe, local socket, eventfd */
    WAIT_LOCK,        /* another thread: futex */
    WAIT_COMPUTE,     /* consumer only: a lock while its compute threads ran */
    WAIT_SLEEP,       /* the clock */
    WAIT_URING,       /* io_uring completions; an idle ring looks the same */
    WAIT_DEVICE,      /* a driver: ioctl */
    WAIT_WRITE,       /* writing: write, fsync */
    WAIT_CHILD,       /* the end of a child process */
    WAIT_UNKNOWN,
    WAIT_KINDS
};

/* What the main thread of a Python program is busy with, as the names of the functions on its stack tell. */
enum activity {
    ACTIVITY_OTHER,   /* nothing on the stack decides */
    ACTIVITY_LOADING, /* inside the data loader, or reading and preparing samples */
    ACTIVITY_STEP,    /* forward, backward, optimizer, collectives */
    ACTIVITY_SAVING,  /* writing a checkpoint */
    ACTIVITIES
};

struct activity_figures {
    double cpu_ns, delay_ns;
    double off_ns[WAIT_KINDS];
};

struct role_figures {
    double threads; /* alive at the end of the interval */
    double processes;
    double wall_ns; /* lifetime inside the interval: = cpu + delay + off */
    double cpu_ns;
    double delay_ns; /* wanted a core and got none */
    double off_ns[WAIT_KINDS];
    double read_cpu_ns; /* of cpu_ns: in samples in which the thread had read file data */
    double lock_ns;     /* of off_ns[WAIT_LOCK]: by threads that do a share of the role's work */
    double active_ns;   /* time in which at least one thread of the role ran or waited for storage or network */
};

enum file_kind {
    FILE_NONE,
    FILE_ROTATING,
    FILE_SSD,
    FILE_NVME,
    FILE_VIRTUAL,
    FILE_MEMORY,
    FILE_NFS,
    FILE_9P,
    FILE_S3,
    FILE_FUSE,
    FILE_OTHER_REMOTE,
    FILE_OTHER_LOCAL,
    FILE_KINDS
};

struct snapshot {
    double at_s;   /* end of the interval, since watching began (monotonic) */
    double wall_s; /* its length */
    struct role_figures role[ROLE_COUNT];

    double ticks;       /* looks at the threads in this interval */
    double calls_known; /* share of looks at waiting threads whose system call could be read; NAN: none waited */
    double startup_ns;  /* consumer time until the first loaders delivered */
    double pause_ns;    /* consumer time while loaders ended and came anew */
    double loader_births, loader_deaths;
    double code_bytes; /* mapped libraries of the trainers: grows while a program imports */

    double read_chars, read_calls, read_bytes, write_bytes; /* of the tree: by system calls, their count, from and to storage */
    double consumer_read_chars, loader_read_chars;          /* by thread; NAN: not readable */
    double major_faults, minor_faults;
    double consumer_system_ns, loader_system_ns; /* CPU time inside the kernel, of trainers and of worker processes */
    double rss_bytes;

    double cpu_ratio, cores;                                                              /* of the machine; cores this program may use */
    double quota_cores, throttled_s;                                                      /* cgroup; NAN: no quota or not readable */
    double memory_used_bytes, memory_total_bytes, memory_limit_bytes, memory_group_bytes; /* machine; cgroup's limit and use, NAN: none */
    double refaults;                                     /* pages that came back soon after they were dropped */
    double psi_cpu, psi_io, psi_memory, psi_memory_full; /* share of the interval in which some (all) tasks waited */

    double disk_reads, disk_read_bytes, disk_read_s, disk_queue_s, disk_busy_s; /* devices under the files in use, else all */
    double disk_write_bytes;
    double disk_cap_bytes, disk_cap_reads;             /* per second, by cgroup; NAN: none */
    double file_kind;                                  /* enum file_kind of the data's files */
    double net_in_bytes, net_out_bytes, net_cap_bytes; /* without loopback; cap per second, NAN: unknown */
    double loopback_bytes;

    double gpu_count, gpu_ratio, gpu_low_ratio, gpu_high_ratio; /* NAN: no figure (why: gpu_reason of the run) */
    double gpu_memory_bytes, gpu_memory_total_bytes, gpu_power_w;
    double pcie_in_bytes, pcie_cap_bytes; /* per second, host to device */

    /* since version 2: what the training loop itself told (meter/marks.h); NAN: it told nothing */
    double loop_wall_ns, loop_wait_ns, loop_wait_cpu_ns; /* iterating; of it inside next(); of that on the CPU */
    double loop_batches, loop_epochs;                    /* taken; begun */

    /* since version 3 */
    double loop_steps, loop_step_ns; /* from batch to batch of an epoch: how many such intervals, and their time */
    /* the consumer's time by what its Python stack said at each look (host/python/); NAN: no stacks were looked at */
    double stack_known;                        /* share of its time in which the stack could be read */
    struct activity_figures doing[ACTIVITIES]; /* adds up to the consumer's figures, less when no function ran */
    double validation_ns;                      /* of all of it: inside a function that validates or tests */
};
enum { SNAPSHOT_BYTES_V1 = offsetof(struct snapshot, loop_wall_ns), SNAPSHOT_BYTES_V2 = offsetof(struct snapshot, loop_steps) };

/* What is true for a whole run. */
struct run_facts {
    char program[128]; /* argv[0], without its folder */
    char script[128];  /* the script's name, if there is one; never the other arguments */
    char gpu_name[96], gpu_reason[160];
    char data_mount[128], data_device[64]; /* where the data lies */
    char lost[256];                        /* what could not be seen and why; empty: all */
    double machine_cores;
    double started_unix;
    double exit_code;     /* NAN: still running or not known */
    double uses_fullbore; /* 1: fullbore's own threads were seen */
    double uses_pillow;   /* 1: Pillow's library is mapped */
    double is_engine;     /* 1: the figures are a loader's own, not looked at from outside */
};

const char *snapshot_file_kind_name(enum file_kind k);
/* Nobody looked at stacks: stack_known and what follows is not known. */
void snapshot_forget_stacks(struct snapshot *s);

/* A series of snapshots that never takes more than a few MB: beyond SERIES_MOST neighbours are merged, so the interval doubles. */
enum { SERIES_MOST = 4096 };
struct series {
    struct snapshot *row;
    int count;
    int merged;  /* how many rows went into each but the last */
    int in_last; /* how many rows are in the last one so far */
};
int series_add(struct series *s, const struct snapshot *row); /* 0, or FB_E_NOMEM */
void series_free(struct series *s);
/* b follows a: sums add up, gauges are weighed by time. */
void snapshot_merge(struct snapshot *a, const struct snapshot *b);

#endif
