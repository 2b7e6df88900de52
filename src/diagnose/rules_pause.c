/* Time in which nothing trains: workers that end and are started anew between epochs, the loop writing a checkpoint. */
#include "diagnose/findings.h"

static void explain_restarts(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    double rounds = f->h->loader_processes > 0 ? fmax(1, s->loader_births / f->h->loader_processes) : 1;
    finding_say(f, "%.0f worker processes were started anew in %.1f s; the training loop waited %.1f s for that", s->loader_births,
                s->wall_s, s->pause_ns / 1e9);
    finding_say(f, "about %.1f s per epoch", s->pause_ns / 1e9 / rounds);
    finding_advise(f, 1 / fmax(0.05, 1 - f->h->pause), "DataLoader(persistent_workers=True) (now False): workers live on between epochs");
}

static void explain_writing(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    finding_say(f, "the training loop itself writes files %.0f %% of the time (%.1f MB/s): checkpoints or logs", 100 * f->h->write,
                s->wall_s > 0 ? s->write_bytes / s->wall_s / 1e6 : NAN);
    finding_advise(f, 1 / fmax(0.05, 1 - f->h->write),
                   "write checkpoints in a thread, to faster storage or less often (now %.0f %% of the time)", 100 * f->h->write);
}

void explain_pause(struct findings *f)
{
    if (f->h->pause > 0.02)
        explain_restarts(f);
    if (f->h->write > 0.02)
        explain_writing(f);
}
