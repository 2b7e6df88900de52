/* The verdict: shares of lost time, the largest cause, its evidence and its remedies. */
#include "diagnose/verdict.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "diagnose/findings.h"

static const double band_low = 0.05, band_high = 0.20, least_steady_s = 1.5;

const char *verdict_name(enum verdict_kind kind)
{
    static const char *const names[VERDICT_KINDS] = {"compute-bound",
                                                     "data-bound: disk-latency",
                                                     "data-bound: disk-bandwidth",
                                                     "data-bound: cpu",
                                                     "data-bound: cpu-quota",
                                                     "data-bound: network-latency",
                                                     "data-bound: network-bandwidth",
                                                     "data-bound: memory-thrash",
                                                     "data-bound: serial-section",
                                                     "transfer-bound",
                                                     "host-bound",
                                                     "pause",
                                                     "start-up",
                                                     "mixed",
                                                     "unknown"};
    return names[kind];
}

const char *verdict_short(enum verdict_kind kind)
{
    static const char *const names[VERDICT_KINDS] = {
        "not starved",       "disk latency",  "disk bandwidth", "CPU",      "CPU quota", "network latency",
        "network bandwidth", "memory thrash", "serial section", "transfer", "host",      "pause",
        "start-up",          "mixed",         "unknown"};
    return names[kind];
}

const char *verdict_band(double ratio)
{
    return ratio < band_low ? "none" : ratio < band_high ? "moderate" : "high";
}

/* ---- places for the rules ---- */

void finding_say(struct findings *f, const char *format, ...)
{
    if (f->v->evidences == EVIDENCE_MOST)
        return;
    va_list args;
    va_start(args, format);
    text_vwords(f->v->evidence[f->v->evidences++], EVIDENCE_CHARS, format, args);
    va_end(args);
}

void finding_advise(struct findings *f, double gain, const char *format, ...)
{
    if (f->v->remedies == REMEDIES_MOST || gain < 1.02)
        return;
    struct remedy *r = &f->v->remedy[f->v->remedies++];
    va_list args;
    va_start(args, format);
    text_vwords(r->change, sizeof(r->change), format, args);
    va_end(args);
    r->predicted_gain = fmin(gain, f->v->gain_bound);
    if (isnan(gain))
        r->predicted_gain = NAN;
}

/* Loading beside the step: the slower of the two sets the pace. Loading by the consumer itself comes first to its end, then runs beside. */
double finding_gain(const struct findings *f, double factor)
{
    const struct shares *h = f->h;
    double lost = h->starved, compute = fmax(0.02, 1 - lost), loading = h->has_loaders ? 1 : lost;
    return 1 / fmax(compute, loading / factor);
}

double finding_gain_in_place(const struct findings *f, double factor)
{
    const struct shares *h = f->h;
    if (h->has_loaders && h->queue > h->own_loading)
        return finding_gain(f, factor);
    return 1 / fmax(0.02, 1 - h->starved + h->starved / factor);
}

double finding_gain_without_waits(const struct findings *f)
{
    const struct shares *h = f->h;
    double waits = h->work_storage + h->work_network + h->work_fault, cpu = h->work_cpu + h->work_delay;
    return finding_gain(f, h->has_loaders && cpu > 0 ? (waits + cpu) / cpu : 50);
}

/* ---- the causes ---- */

/* The queue's time belongs to what the loaders do when they do something. */
static int list_causes(const struct window *w, const struct shares *h, struct cause c[8])
{
    int n = 0;
    double busy = h->work_cpu + h->work_delay + h->work_storage + h->work_network + h->work_fault;
    double q = busy > 0 ? h->queue / busy : 0;
    double serial = h->work_serial > 0.3 ? h->queue : 0;
    q = serial > 0 ? 0 : q;
    enum verdict_kind fault = memory_is_tight(&w->sum) ? VERDICT_MEMORY_THRASH : cause_of_storage(w, h);
    c[n++] = (struct cause){cause_of_storage(w, h), h->own_storage + q * h->work_storage};
    c[n++] = (struct cause){fault, h->own_fault + q * h->work_fault};
    c[n++] = (struct cause){cause_of_network(w, h), h->own_network + q * h->work_network};
    c[n++] = (struct cause){cause_of_cpu(w, h), h->own_loading + q * (h->work_cpu + h->work_delay)};
    c[n++] = (struct cause){VERDICT_SERIAL, serial};
    c[n++] = (struct cause){VERDICT_UNKNOWN, h->own_other + (busy <= 0.02 ? h->queue : 0)};
    if (c[1].kind == c[0].kind) {
        c[0].share += c[1].share;
        c[1].share = 0;
    } else if (c[1].share > 0.3 * c[0].share) { /* pages dropped under pressure are read again by read() too */
        c[1].share += c[0].share;
        c[0].share = 0;
    }
    return n;
}

static int by_share(const void *a, const void *b)
{
    double x = ((const struct cause *)a)->share, y = ((const struct cause *)b)->share;
    return (x < y) - (x > y);
}

static enum verdict_kind largest_cause(const struct window *w, const struct shares *h)
{
    struct cause c[8];
    int n = list_causes(w, h, c);
    qsort(c, (size_t)n, sizeof(*c), by_share);
    double all = 0;
    for (int i = 0; i < n; i++)
        all += c[i].share;
    return c[0].share < 0.5 * all && c[1].share > 0.3 * all ? VERDICT_MIXED : c[0].kind;
}

static enum verdict_kind choose(const struct window *w, const struct shares *h)
{
    if (w->steady_s < least_steady_s)
        return VERDICT_STARTUP;
    if (!h->has_consumer || h->is_blind)
        return VERDICT_UNKNOWN;
    enum verdict_kind device = cause_of_device(w, h);
    if (device == VERDICT_COMPUTE || device == VERDICT_TRANSFER)
        return device;
    if (h->pause + h->write >= band_low && h->pause + h->write > h->starved)
        return VERDICT_PAUSE;
    if (device == VERDICT_HOST && h->starved < band_high)
        return VERDICT_HOST;
    if (h->starved - h->starved_error >= band_low)
        return largest_cause(w, h);
    return h->unexplained > 0.3 || h->ambiguous > 0.3 ? VERDICT_UNKNOWN : VERDICT_COMPUTE;
}

/* ---- numbers over time ---- */

static double quantile(const double *sorted, int n, double share)
{
    if (n == 0)
        return NAN;
    double at = share * (n - 1);
    int i = (int)at;
    return i + 1 < n ? sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]) : sorted[i];
}

static void take_quantiles(const struct series *s, const struct window *w, const struct shares *h, struct verdict *v)
{
    v->gpu_p5 = v->gpu_p50 = v->gpu_p95 = v->starved_p5 = v->starved_p50 = v->starved_p95 = NAN;
    int n = w->to - w->from, g = 0, full = 0, idle = 0;
    double *gpu = n > 0 ? malloc(2 * (size_t)n * sizeof(double)) : NULL, *starved = gpu ? gpu + n : NULL;
    if (!gpu)
        return;
    for (int i = 0; i < n; i++) {
        const struct snapshot *row = &s->row[w->from + i];
        starved[i] = shares_starved(row, h->has_loaders);
        full += row->gpu_high_ratio >= 0.9;
        idle += row->gpu_low_ratio <= 0.1;
        if (!isnan(row->gpu_ratio))
            gpu[g++] = row->gpu_ratio;
    }
    v->has_swings = g >= 5 && full >= 0.3 * g && idle >= 0.3 * g;
    qsort(gpu, (size_t)g, sizeof(double), compare_double);
    qsort(starved, (size_t)n, sizeof(double), compare_double);
    v->gpu_p5 = quantile(gpu, g, 0.05), v->gpu_p50 = quantile(gpu, g, 0.5), v->gpu_p95 = quantile(gpu, g, 0.95);
    v->starved_p5 = quantile(starved, n, 0.05), v->starved_p50 = quantile(starved, n, 0.5), v->starved_p95 = quantile(starved, n, 0.95);
    free(gpu);
}

/* ---- words ---- */

/* Where it loads is known, for what it waits is not. In the main thread it helps in any case to do it beside the step: as many at once as
 * hide the wait. */
static void explain_hidden_wait(struct findings *f)
{
    const struct shares *h = f->h;
    finding_say(f, "the loop waits inside %s %.0f %% of the time for something that cannot be seen: a sleep, or another program",
                h->is_told ? "next()" : "its data loading", 100 * h->own_other);
    double n = fmin(8, ceil(h->starved / fmax(0.05, 1 - h->starved)));
    if (h->has_stacks && !h->has_loaders)
        finding_advise(f, fmin(finding_gain(f, n), 1 / fmax(0.02, h->own_loading / fmax(1, f->w->sum.cores))),
                       "load beside the step: DataLoader(num_workers=%.0f), or fullbore.Loader (now in the main thread)", n);
}

static void explain(struct findings *f)
{
    const struct shares *h = f->h;
    switch (f->v->kind) {
    case VERDICT_DISK_LATENCY:
    case VERDICT_DISK_BANDWIDTH: explain_storage(f); break;
    case VERDICT_NETWORK_LATENCY:
    case VERDICT_NETWORK_BANDWIDTH: explain_network(f); break;
    case VERDICT_CPU:
    case VERDICT_CPU_QUOTA: explain_cpu(f); break;
    case VERDICT_MEMORY_THRASH: explain_memory(f); break;
    case VERDICT_SERIAL: explain_serial(f); break;
    case VERDICT_PAUSE: explain_pause(f); break;
    case VERDICT_COMPUTE:
    case VERDICT_HOST:
    case VERDICT_TRANSFER: explain_device(f); break;
    case VERDICT_STARTUP:
        finding_say(f, "only %.1f s of %.1f s came after imports and first deliveries; too little to judge", f->w->steady_s, f->w->run_s);
        break;
    case VERDICT_MIXED:
        explain_cpu(f);
        explain_storage(f);
        break;
    default:
        if (h->is_blind)
            finding_say(f, "the system calls of the program could not be read%s%s", f->facts->lost[0] ? ": " : "", f->facts->lost);
        else if (!h->has_consumer)
            finding_say(f, "no training loop was found in the process tree");
        else if (h->own_other > 0.02)
            explain_hidden_wait(f);
        else if (h->ambiguous > h->unexplained)
            finding_say(
                f, "the main thread reads data and computes by itself; from outside the two cannot be told apart (%.0f %% of its time)",
                100 * h->ambiguous);
        else
            finding_say(f, "%.0f %% of the main thread's time went into waits whose reason cannot be seen from outside",
                        100 * h->unexplained);
    }
}

/* Recordings of older versions do not know how many steps lie between their batches. */
static void say_told(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    double step_ns = s->loop_steps > 0 ? s->loop_step_ns / s->loop_steps : s->loop_wall_ns / s->loop_batches;
    finding_say(f, "reported by the training loop: %.0f batches, %.2f ms from one to the next, of which %.2f ms inside next()",
                s->loop_batches, step_ns / 1e6, s->loop_wait_ns / s->loop_batches / 1e6);
}

static void say_consumer(struct findings *f)
{
    const struct shares *h = f->h;
    if (!h->has_consumer)
        return;
    if (h->is_told)
        say_told(f);
    if (h->has_stacks)
        finding_say(f, "the main thread's Python stack, sampled: %.0f %% loading, %.0f %% in the step, %.0f %% saving, %.0f %% elsewhere%s",
                    100 * h->doing[ACTIVITY_LOADING], 100 * h->doing[ACTIVITY_STEP], 100 * h->doing[ACTIVITY_SAVING],
                    100 * h->doing[ACTIVITY_OTHER], h->validation > 0.02 ? "; some of it in validation" : "");
    if (f->facts->is_engine > 0)
        finding_say(f, "the loop waits %.0f %% of the time for the loader; the rest is its own step", 100 * h->starved);
    else
        finding_say(f,
                    "main thread: %.0f %% on the CPU, %.0f %% waiting for data, %.0f %% in its own step (device, sleep, compute threads)%s",
                    100 * (h->cpu + h->own_loading), 100 * (h->starved - h->own_loading > 0 ? h->starved - h->own_loading : 0),
                    100 * fmax(0, h->step), h->delay > 0.05 ? ", the rest waiting for a core" : "");
    if (!isnan(f->v->gpu_p50))
        finding_say(f, "accelerator use p5/p50/p95: %.0f/%.0f/%.0f %%%s", 100 * f->v->gpu_p5, 100 * f->v->gpu_p50, 100 * f->v->gpu_p95,
                    f->v->has_swings ? "; it swings between full and idle" : "");
    if (f->v->gpu_p50 < 0.3)
        finding_say(f, "warning: the accelerator is used less than 30 %%");
}

static int by_gain(const void *a, const void *b)
{
    double x = ((const struct remedy *)a)->predicted_gain, y = ((const struct remedy *)b)->predicted_gain;
    x = isnan(x) ? 0 : x;
    y = isnan(y) ? 0 : y;
    return (x < y) - (x > y);
}

/* Stable, so that of equal gains the rule's first (the cheapest) stays first. */
static void rank_remedies(struct verdict *v)
{
    for (int i = 1; i < v->remedies; i++)
        for (int k = i; k > 0 && by_gain(&v->remedy[k - 1], &v->remedy[k]) > 0; k--) {
            struct remedy t = v->remedy[k];
            v->remedy[k] = v->remedy[k - 1];
            v->remedy[k - 1] = t;
        }
}

static void take_stacks(const struct window *w, const struct shares *h, struct verdict *v)
{
    v->stack_known = w->sum.stack_known;
    v->loading_ratio = h->has_stacks ? h->doing[ACTIVITY_LOADING] : NAN;
    v->step_ratio = h->has_stacks ? h->doing[ACTIVITY_STEP] : NAN;
    v->saving_ratio = h->has_stacks ? h->doing[ACTIVITY_SAVING] : NAN;
    v->validation_ratio = h->has_stacks ? h->validation : NAN;
}

static void judge(const struct series *s, const struct window *w, const struct run_facts *facts, struct verdict *v, bool with_words)
{
    struct shares h;
    memset(v, 0, sizeof(*v));
    shares_of(w, &h);
    v->warmup_s = w->warmup_s, v->steady_s = w->steady_s, v->run_s = w->run_s;
    v->kind = choose(w, &h);
    take_stacks(w, &h, v);
    take_quantiles(s, w, &h, v);
    bool is_seen = h.is_told || (h.has_stacks && h.starved >= band_low); /* how much is known, if not for what */
    bool is_known = v->kind != VERDICT_STARTUP && (v->kind != VERDICT_UNKNOWN || is_seen);
    double idle = isnan(h.gpu_ratio) ? 0 : 1 - h.gpu_ratio;
    double stopped = v->kind == VERDICT_CPU_QUOTA ? h.delay : 0; /* the quota's doing, not other programs' */
    v->starved_ratio = is_known ? h.starved : NAN;
    double lost = h.starved + stopped + h.pause + h.write;
    if (v->kind == VERDICT_HOST || v->kind == VERDICT_TRANSFER)
        lost = fmax(lost, idle);
    v->lost_ratio = is_known ? fmin(0.98, lost) : NAN;
    v->gain_bound = is_known ? 1 / (1 - v->lost_ratio) : NAN;
    if (!with_words)
        return;
    struct findings f = {w, &h, facts, v};
    say_consumer(&f);
    explain(&f);
    if (is_known && v->lost_ratio < band_low)
        v->remedies = 0;
    rank_remedies(v);
}

void diagnose(const struct series *s, const struct run_facts *facts, struct verdict *v)
{
    struct window w;
    window_find(s, &w);
    judge(s, &w, facts, v, true);
}

void diagnose_whole(const struct snapshot *sum, const struct run_facts *facts, struct verdict *v)
{
    struct snapshot row = *sum;
    struct series s = {.row = &row, .count = 1};
    struct window w = {0, 1, row, 0, row.wall_s, row.wall_s};
    judge(&s, &w, facts, v, true);
}

void diagnose_recent(const struct series *s, const struct run_facts *facts, double seconds, struct verdict *v)
{
    struct window w;
    window_last(s, seconds, &w);
    judge(s, &w, facts, v, false);
}
