/* From snapshots to a verdict: what the accelerator (or the training loop) waits for, how much could be gained, what to change.
 *
 * Pure functions: the same series gives the same verdict, live, at the end, or from a recording years later. docs/diagnosis.md has the
 * method.
 */
#ifndef FB_DIAGNOSE_VERDICT_H
#define FB_DIAGNOSE_VERDICT_H

#include <stdbool.h>

#include "base/text/json_writer.h"
#include "model/snapshot.h"

enum verdict_kind {
    VERDICT_COMPUTE,
    VERDICT_DISK_LATENCY,
    VERDICT_DISK_BANDWIDTH,
    VERDICT_CPU,
    VERDICT_CPU_QUOTA,
    VERDICT_NETWORK_LATENCY,
    VERDICT_NETWORK_BANDWIDTH,
    VERDICT_MEMORY_THRASH,
    VERDICT_SERIAL,
    VERDICT_TRANSFER,
    VERDICT_HOST,
    VERDICT_PAUSE,
    VERDICT_STARTUP,
    VERDICT_MIXED,
    VERDICT_UNKNOWN,
    VERDICT_KINDS
};

enum { EVIDENCE_MOST = 12, EVIDENCE_CHARS = 240, REMEDIES_MOST = 8 };

struct remedy {
    char change[EVIDENCE_CHARS]; /* a command or a change of code, with the present value */
    double predicted_gain;       /* times as fast; NAN: cannot be predicted from outside */
};

struct verdict {
    enum verdict_kind kind;
    double starved_ratio;            /* share of the consumer's steady time lost to waiting for data; NAN: unknown */
    double lost_ratio;               /* the same plus pauses and the accelerator's other idle time: what a perfect fix could win */
    double gain_bound;               /* 1 / (1 - lost) */
    double gpu_p5, gpu_p50, gpu_p95; /* NAN: no figure */
    double starved_p5, starved_p50, starved_p95; /* over the intervals */
    bool has_swings;                             /* the accelerator goes between full and idle */
    double stack_known; /* share of the steady time in which the main thread's Python stack could be read; NAN: not looked at */
    double loading_ratio, step_ratio, saving_ratio, validation_ratio; /* of it, as the stack says; NAN: not known */
    double warmup_s, steady_s, run_s;
    char evidence[EVIDENCE_MOST][EVIDENCE_CHARS];
    int evidences;
    struct remedy remedy[REMEDIES_MOST]; /* best first */
    int remedies;
};

void diagnose(const struct series *s, const struct run_facts *facts, struct verdict *v);
/* One snapshot that is steady as a whole: a loader's own figures. */
void diagnose_whole(const struct snapshot *sum, const struct run_facts *facts, struct verdict *v);
/* The last `seconds` only, for the live line; no evidence, no remedies. */
void diagnose_recent(const struct series *s, const struct run_facts *facts, double seconds, struct verdict *v);

/* "data-bound: disk-latency" */
const char *verdict_name(enum verdict_kind kind);
/* "disk latency": what stands after "starved 31%:" */
const char *verdict_short(enum verdict_kind kind);
/* "none" (< 5 %), "moderate" (5-20 %), "high": how much is lost */
const char *verdict_band(double ratio);

/* For people: a few plain sentences. */
void verdict_print(const struct verdict *v, const struct run_facts *facts, struct text *out);
/* For machines: {"verdict": ..., "starved_ratio": ..., "gain_bound": ..., "evidence": [...], "remedies": [...], "series": {...}}. */
void verdict_json(const struct verdict *v, const struct run_facts *facts, const struct series *s, struct json_writer *w);

#endif
