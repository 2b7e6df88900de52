/* Files: many small waits (latency) or more bytes than the device gives (bandwidth).
 *
 * A limit that the control group sets decides, when one is set and reached. Else the size of a request does: with requests under 64 KiB a
 * device spends its time per request, over it per byte. %util is no evidence: an SSD that serves one request at a time is 100 % utilised
 * and far from saturated. Block-I/O delay accounting is not read at all: it is off by default, and its 0 says nothing.
 */
#include "diagnose/findings.h"

static const double small_request = 64 * 1024, reached = 0.8;

static double per_second(const struct window *w, double sum)
{
    return w->sum.wall_s > 0 ? sum / w->sum.wall_s : NAN;
}

static double mean_request(const struct window *w)
{
    return w->sum.disk_reads > 0 ? w->sum.disk_read_bytes / w->sum.disk_reads : NAN;
}

enum verdict_kind cause_of_storage(const struct window *w, const struct shares *h)
{
    (void)h;
    double bytes = per_second(w, fmax(w->sum.read_bytes, 0)), reads = per_second(w, w->sum.disk_reads), size = mean_request(w);
    if (bytes > reached * w->sum.disk_cap_bytes)
        return VERDICT_DISK_BANDWIDTH;
    if (reads > reached * w->sum.disk_cap_reads)
        return VERDICT_DISK_LATENCY;
    return size >= small_request * 1.5 && bytes > 20e6 ? VERDICT_DISK_BANDWIDTH : VERDICT_DISK_LATENCY;
}

static void say_device(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    double bytes = per_second(f->w, s->read_bytes), chars = per_second(f->w, s->read_chars);
    const char *kind = snapshot_file_kind_name((enum file_kind)s->file_kind), *at = f->facts->data_mount[0] ? ", mounted at " : "";
    if (isnan(bytes) || isnan(chars))
        finding_say(f, "how much the program reads could not be seen (%s%s%s)", kind, at, f->facts->data_mount);
    else
        finding_say(f, "the program reads %.1f MB/s, %.1f MB/s of it from storage (%s%s%s)", chars / 1e6, bytes / 1e6, kind, at,
                    f->facts->data_mount);
    if (s->disk_reads > 0)
        finding_say(f, "the device serves %.0f reads/s of %.0f KB in %.2f ms each, %.1f in flight on average",
                    per_second(f->w, s->disk_reads), mean_request(f->w) / 1e3, s->disk_read_s / s->disk_reads * 1e3,
                    per_second(f->w, s->disk_queue_s));
    if (!isnan(s->disk_cap_reads))
        finding_say(f, "its control group allows %.0f reads/s", s->disk_cap_reads);
    if (!isnan(s->disk_cap_bytes))
        finding_say(f, "its control group allows %.1f MB/s", s->disk_cap_bytes / 1e6);
}

static bool is_at_cap(const struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    return per_second(f->w, s->read_bytes) > reached * s->disk_cap_bytes || per_second(f->w, s->disk_reads) > reached * s->disk_cap_reads;
}

/* Waits overlap: twice the requests in flight are twice the rate, until a limit of the device or the group. */
static void advise_depth(struct findings *f)
{
    double n = f->h->loaders >= 0.5 ? round(f->h->loaders) : 0;
    double wanted = n > 0 ? 4 * n : 8;
    if (f->facts->uses_fullbore > 0)
        return; /* its depth is there already */
    if (n > 0)
        finding_advise(f, finding_gain(f, 4), "num_workers=%.0f (now %.0f): waits for storage overlap", wanted, n);
    else
        finding_advise(f, finding_gain(f, wanted),
                       "DataLoader(num_workers=8, prefetch_factor=4) (now 0: the training loop reads by itself)");
    finding_advise(f, finding_gain(f, 8), "fullbore.Loader: 64 reads in flight from one process (now %.1f)",
                   n > 0 ? n * (f->h->work_storage + f->h->work_fault) : f->h->own_storage + f->h->own_fault);
}

void explain_storage(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    bool by_loaders = f->h->queue > f->h->own_storage + f->h->own_fault;
    if (by_loaders)
        finding_say(f, "loaders spend %.0f %% of their time waiting for files, %.0f %% on the CPU",
                    100 * (f->h->work_storage + f->h->work_fault), 100 * f->h->work_cpu);
    else
        finding_say(f, "the training loop itself waits for files %.0f %% of the time", 100 * (f->h->own_storage + f->h->own_fault));
    say_device(f);
    double free_memory = s->memory_total_bytes - s->memory_used_bytes;
    if (!is_at_cap(f) && f->v->kind == VERDICT_DISK_LATENCY)
        advise_depth(f);
    if (f->v->kind == VERDICT_DISK_LATENCY && mean_request(f->w) < small_request)
        finding_advise(f, finding_gain(f, 1024 * 1024 / fmax(4096, mean_request(f->w))),
                       "pack the small files into one tar and read it in large blocks (now %.0f KB per read)", mean_request(f->w) / 1e3);
    if (s->file_kind != FILE_MEMORY && !isnan(free_memory))
        finding_advise(f, finding_gain_without_waits(f), "copy the data to /dev/shm if it is under %.0f GB (now on %s)", free_memory / 2e9,
                       snapshot_file_kind_name((enum file_kind)s->file_kind));
    if (f->v->kind == VERDICT_DISK_BANDWIDTH)
        finding_advise(f, finding_gain(f, 2), "halve the bytes per sample: smaller images, or compressed instead of raw");
}
