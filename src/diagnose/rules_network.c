/* Sockets and remote file systems: round trips, or a full link. Without a known link speed only round trips can be claimed. */
#include "diagnose/findings.h"

static const double full = 0.7;

static double rate_of(const struct window *w)
{
    double in = w->sum.net_in_bytes, loopback = w->sum.loopback_bytes;
    double sum = (isnan(in) ? 0 : in) + (isnan(loopback) ? 0 : loopback);
    return w->sum.wall_s > 0 ? sum / w->sum.wall_s : NAN;
}

enum verdict_kind cause_of_network(const struct window *w, const struct shares *h)
{
    (void)h;
    double in = w->sum.wall_s > 0 ? w->sum.net_in_bytes / w->sum.wall_s : NAN;
    return in > full * w->sum.net_cap_bytes ? VERDICT_NETWORK_BANDWIDTH : VERDICT_NETWORK_LATENCY;
}

void explain_network(struct findings *f)
{
    const struct shares *h = f->h;
    bool by_loaders = h->queue > h->own_network;
    finding_say(f, "%s wait%s for the network %.0f %% of the time; %.1f MB/s arrive", by_loaders ? "loaders" : "the training loop itself",
                by_loaders ? "" : "s", 100 * (by_loaders ? h->work_network : h->own_network), rate_of(f->w) / 1e6);
    if (!isnan(f->w->sum.net_cap_bytes))
        finding_say(f, "the link carries %.0f MB/s at most", f->w->sum.net_cap_bytes / 1e6);
    enum file_kind kind = (enum file_kind)f->w->sum.file_kind;
    if (kind == FILE_S3 || kind == FILE_NFS || kind == FILE_FUSE || kind == FILE_9P)
        finding_say(f, "the files are on %s", snapshot_file_kind_name(kind));
    if (f->v->kind == VERDICT_NETWORK_BANDWIDTH) {
        finding_advise(f, finding_gain(f, 2),
                       "halve the bytes per sample, or cache what was fetched on a local disk (now fetched every time)");
        return;
    }
    double n = h->loaders >= 0.5 ? round(h->loaders) : 0;
    if (f->facts->uses_fullbore > 0)
        n = -1; /* its depth is there already */
    if (n > 0)
        finding_advise(f, finding_gain(f, 4), "num_workers=%.0f (now %.0f): round trips overlap", 4 * n, n);
    else if (n == 0)
        finding_advise(f, finding_gain(f, 8), "DataLoader(num_workers=8) (now 0: the training loop asks by itself, one request at a time)");
    bool is_mounted = kind == FILE_S3 || kind == FILE_NFS || kind == FILE_FUSE || kind == FILE_9P || kind == FILE_OTHER_REMOTE;
    finding_advise(f, is_mounted ? finding_gain_without_waits(f) : NAN, /* what a socket brings may not exist as files */
                   "copy the data to a local disk before training (now fetched over the network)");
}
