/* What the rules share: the steady part of a run, the shares of time in it, and places for evidence and remedies. */
#ifndef FB_DIAGNOSE_FINDINGS_H
#define FB_DIAGNOSE_FINDINGS_H

#include "diagnose/verdict.h"

/* The part of a run that counts: after imports and first deliveries, before the end of the loaders. */
struct window {
    int from, to;        /* rows [from, to) */
    struct snapshot sum; /* of them */
    double warmup_s, steady_s, run_s;
};
void window_find(const struct series *s, struct window *w);
void window_last(const struct series *s, double seconds, struct window *w);

/* Where the consumer's time went, as shares of its steady time; they add up to 1. */
struct shares {
    double cpu;         /* running, and not loading */
    double delay;       /* wanted a core */
    double step;        /* sleep, compute threads, device: not waiting for data */
    double own_storage; /* its own reads: files of this machine */
    double own_network; /* sockets and remote files */
    double own_fault;   /* pages */
    double own_loading; /* CPU in samples that read file data, when nobody else loads */
    double own_other;   /* inside next(), as the loop told, and nothing shows for what */
    double queue;       /* for loaders: pipe, lock */
    double write;       /* checkpoints, logs */
    double unexplained;
    double ambiguous;                     /* of cpu: in samples that read data, but nothing shows where loading ends and computing begins */
    double pause;                         /* loaders were restarted */
    double starved;                       /* own_* + queue, less what the accelerator shows as busy */
    double doing[ACTIVITIES], validation; /* by the sampled Python stack, if has_stacks */

    double starved_error; /* of a share that was sampled: one standard deviation; 0: it was counted */

    bool has_consumer, has_loaders, is_blind;       /* blind: system calls could not be read */
    bool is_told;                                   /* the loop itself told how long it waited: exact */
    bool has_stacks;                                /* most looks at its Python stack succeeded */
    double loaders, loader_processes, loader_cores; /* how many; cores used by them */
    double wall_s;                                  /* of the window */
    double work_cpu, work_delay, work_storage, work_network, work_fault, work_serial,
        work_idle;     /* loaders' time, shares of it; serial: see shares.c */
    double gpu_ratio;  /* NAN: none */
    double tree_cores; /* used by the whole tree */
};
void shares_of(const struct window *w, struct shares *h);
/* The share starved of one row. */
double shares_starved(const struct snapshot *row, bool has_loaders);

/* A cause and how much of the consumer's time it takes. */
struct cause {
    enum verdict_kind kind;
    double share;
};

struct findings {
    const struct window *w;
    const struct shares *h;
    const struct run_facts *facts;
    struct verdict *v;
};

void finding_say(struct findings *f, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A remedy; gains are cut at the bound. */
void finding_advise(struct findings *f, double gain, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The step time that stays when loading is `factor` times as fast: max(compute, loading / factor), as a gain. */
double finding_gain(const struct findings *f, double factor);
/* The same when the loop goes on loading by itself, only faster: nothing runs beside the step. With loaders as above. */
double finding_gain_in_place(const struct findings *f, double factor);
/* The same when waits for storage and network fall away and only the loaders' CPU time stays. */
double finding_gain_without_waits(const struct findings *f);

/* The rules, one file per group. cause_*: which kind a share of waiting belongs to. explain_*: evidence and remedies. */
enum verdict_kind cause_of_storage(const struct window *w, const struct shares *h);
void explain_storage(struct findings *f);
enum verdict_kind cause_of_network(const struct window *w, const struct shares *h);
void explain_network(struct findings *f);
enum verdict_kind cause_of_cpu(const struct window *w, const struct shares *h);
void explain_cpu(struct findings *f);
bool memory_is_tight(const struct snapshot *s);
void explain_memory(struct findings *f);
void explain_serial(struct findings *f);
void explain_pause(struct findings *f);
/* What the accelerator's own figures say; VERDICT_UNKNOWN: nothing. */
enum verdict_kind cause_of_device(const struct window *w, const struct shares *h);
void explain_device(struct findings *f);

#endif
