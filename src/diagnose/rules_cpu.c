/* Loaders that are busy: too few of them, too few cores, a quota, or one at a time. */
#include "diagnose/findings.h"

static const double pillow_factor = 4; /* CPU of DataLoader + Pillow over ours, first epoch: docs/bench.md */

/* Throttled a tenth of the time, with the quota used up. */
enum verdict_kind cause_of_cpu(const struct window *w, const struct shares *h)
{
    const struct snapshot *s = &w->sum;
    bool is_throttled = s->throttled_s > 0.1 * s->wall_s && s->quota_cores > 0 && h->tree_cores > 0.7 * s->quota_cores;
    return is_throttled ? VERDICT_CPU_QUOTA : VERDICT_CPU;
}

static double cores_of(const struct findings *f)
{
    double cores = f->w->sum.cores;
    return f->w->sum.quota_cores > 0 ? fmin(cores, f->w->sum.quota_cores) : cores;
}

static double others_cores(const struct findings *f)
{
    double others = f->facts->machine_cores * f->w->sum.cpu_ratio - f->h->tree_cores;
    return others > 0 ? others : 0;
}

/* What `threads` that always want to run get of `cores` when other programs want what they use now: all they want while there is enough,
 * else their fair share. */
static double shared_cores(const struct findings *f, double threads, double cores)
{
    double others = others_cores(f), machine = fmax(1, f->facts->machine_cores);
    double share = threads + others <= machine ? threads : machine * threads / (threads + others);
    return fmin(share, cores);
}

/* Cores that this program may use and does not. What others take now is said beside it: they may leave, the quota will not. */
static double free_cores(const struct findings *f)
{
    return fmax(0, cores_of(f) - f->h->tree_cores);
}

/* How many times as fast this program could run with all the cores it may use: whatever goes faster, all of its CPU time scales with it. */
static double most_by_cores(const struct findings *f)
{
    return f->h->tree_cores > 0 ? fmax(1, cores_of(f) / f->h->tree_cores) : INFINITY;
}

static void say_others(struct findings *f)
{
    if (others_cores(f) > 0.3)
        finding_say(f, "other programs use %.1f of %.0f cores; the predictions leave them their share", others_cores(f),
                    f->facts->machine_cores);
}

static void explain_quota(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    finding_say(f, "the control group allows %.2f cores and stopped the program for %.1f s in %.1f s", s->quota_cores, s->throttled_s,
                s->wall_s);
    finding_say(f, "the program used %.2f cores; this machine has %.0f", f->h->tree_cores, f->facts->machine_cores);
    say_others(f);
    double wanted = fmin(f->facts->machine_cores, fmax(1, f->h->loaders) + 1);
    double left = fmax(0.02, 1 - f->h->starved - f->h->delay); /* the loop itself was stopped, too */
    finding_advise(f, 1 / fmax(left, s->quota_cores / shared_cores(f, wanted, wanted)),
                   "a CPU limit of %.0f cores (now %.2f), e.g. docker --cpus, resources.limits.cpu", wanted, s->quota_cores);
}

static void advise_workers(struct findings *f)
{
    const struct shares *h = f->h;
    double n = fmax(1, round(h->loaders)), room = free_cores(f), per_loader = fmax(0.1, h->work_cpu + h->work_delay);
    double more = floor(room / per_loader + 0.25), now = fmax(0.05, h->loader_cores);
    double factor = fmin((n + more) / n * per_loader / fmax(0.05, h->work_cpu), shared_cores(f, n + more, cores_of(f)) / now);
    double gain = finding_gain(f, fmin(factor, most_by_cores(f)));
    if (f->facts->uses_fullbore > 0 && !(f->facts->is_engine > 0) && more >= 1) /* from outside its io threads look like workers */
        finding_advise(f, gain, "more worker threads (threads=): %.1f more cores may be used", room);
    if (f->facts->is_engine > 0 && more >= 1)
        finding_advise(f, gain, "threads=%.0f (now %.0f): %.1f more cores may be used", n + more, n, room);
    if (f->facts->uses_fullbore > 0 || (h->loader_processes == 0 && h->loaders >= 1.5))
        return; /* threads: a lock may hold them */
    if (more >= 1)
        finding_advise(f, gain, "num_workers=%.0f (now %.0f): %.1f more cores may be used", n + more, n, room);
    if (h->work_delay > 0.25 && n > ceil(cores_of(f)))
        finding_advise(f, finding_gain(f, 1 / (1 - 0.1 * h->work_delay)),
                       "num_workers=%.0f (now %.0f): they wait for a core %.0f %% of the time", ceil(cores_of(f)), n, 100 * h->work_delay);
}

void explain_cpu(struct findings *f)
{
    const struct shares *h = f->h;
    if (f->v->kind == VERDICT_CPU_QUOTA) {
        explain_quota(f);
        return;
    }
    if (h->own_loading > h->queue && f->facts->uses_fullbore > 0) {
        finding_say(f, "next() itself works for %.0f %% of the time after a batch is ready: batch_map= above all", 100 * h->own_loading);
        finding_advise(f, 1 / fmax(h->own_loading, 1 - h->own_loading), /* beside the step the slower of the two sets the pace */
                       "the work of batch_map= among the transforms (fb.Map): it then runs beside the step (now on the loop's own thread)");
    } else if (h->own_loading > h->queue) {
        finding_say(f, "the training loop %s: %.0f %% of its time is CPU %s",
                    h->has_loaders ? "loads, too, beside its loaders" : "reads and decodes by itself", 100 * h->own_loading,
                    h->is_told      ? "inside next()"
                    : h->has_stacks ? "inside its data loading"
                                    : "while it was seen to read file data");
        double n = fmax(1, floor(free_cores(f) + 0.5));
        if (!h->has_loaders)
            finding_advise(f, finding_gain(f, fmax(1, shared_cores(f, n, n))),
                           "DataLoader(num_workers=%.0f, persistent_workers=True) (now 0): loading beside the step", n);
    } else {
        finding_say(f, "%.0f loader%s %.2f cores: %.0f %% of the time on the CPU, %.0f %% waiting for a core, %.0f %% for files",
                    h->loaders, h->loaders < 1.5 ? " uses" : "s use", h->loader_cores, 100 * h->work_cpu, 100 * h->work_delay,
                    100 * h->work_storage);
        finding_say(f, "it does not use %.1f of the %.3g cores it may use", free_cores(f), cores_of(f));
        advise_workers(f);
    }
    say_others(f);
    if (f->facts->uses_fullbore > 0 && h->own_loading > h->queue)
        return;
    if (f->facts->uses_fullbore > 0) {
        finding_advise(f, finding_gain(f, 2),
                       "halve the CPU per sample: smaller images or uint8 batches (fullbore already decodes; now %.2f cores)",
                       h->loader_cores);
        return;
    }
    if (f->facts->uses_pillow > 0)
        finding_advise(f, finding_gain_in_place(f, pillow_factor),
                       "decode with fullbore.Loader: %.0f times less CPU than Pillow for the same pixels (now Pillow)", pillow_factor);
    finding_advise(f, finding_gain_in_place(f, 2),
                   "halve the CPU per sample: smaller images, decoded once and kept as .npy, transforms on the accelerator");
}

void explain_serial(struct findings *f)
{
    const struct shares *h = f->h;
    double parallel = fmin(fmax(2, h->loaders), fmax(1, free_cores(f) + h->loader_cores));
    double factor = shared_cores(f, parallel, cores_of(f)) / fmax(0.05, fmin(1, h->loader_cores));
    double gain = finding_gain(f, fmin(fmin(factor, parallel), most_by_cores(f)));
    finding_say(f, "%.0f loader threads do no more than one could: the others wait for a lock %.0f %% of the time", h->loaders,
                100 * h->work_serial);
    finding_say(f, "together they use %.2f cores (Python's interpreter lock, HDF5's library lock, or one queue)", h->loader_cores);
    say_others(f);
    if (f->facts->uses_fullbore > 0) {
        finding_advise(f, gain,
                       "transforms of fullbore's own instead of Map functions: those take turns at Python's lock (now %.0f %% of the time)",
                       100 * h->work_serial);
        return;
    }
    finding_advise(f, gain, "worker processes instead of threads: DataLoader(num_workers=%.0f) (now %.0f threads)", parallel, h->loaders);
    finding_advise(f, gain, "fullbore.Loader: native threads without that lock (now %.0f threads share it)", h->loaders);
}
