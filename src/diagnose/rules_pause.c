/* Time between epochs: workers that end and are started anew, long stretches in which nothing trains. */
#include "diagnose/findings.h"

void explain_pause(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    double rounds = f->h->loader_processes > 0 ? fmax(1, s->loader_births / f->h->loader_processes) : 1;
    finding_say(f, "%.0f worker processes were started anew in %.1f s; the training loop waited %.1f s for that", s->loader_births, s->wall_s,
                s->pause_ns / 1e9);
    finding_say(f, "about %.1f s per epoch", s->pause_ns / 1e9 / rounds);
    finding_advise(f, 1 / fmax(0.05, 1 - f->h->pause), "DataLoader(persistent_workers=True) (now False): workers live on between epochs");
}
