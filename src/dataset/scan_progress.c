#include "dataset/scan_progress.h"

#include "base/clock.h"

enum { PERIOD_NS = 50000000, BEATS_PER_LOOK = 16 };

void pulse_start(struct pulse *p, const struct dataset_request *r, const char *what)
{
    *p = (struct pulse){.request = r, .what = what, .tell_ns = clock_now_ns() + PERIOD_NS};
}

int pulse_beat(struct pulse *p, uint64_t done, uint64_t total, struct fb_error *e)
{
    if (++p->beats % BEATS_PER_LOOK != 0)
        return 0;
    uint64_t now = clock_now_ns();
    if (now < p->ask_ns)
        return 0;
    p->ask_ns = now + PERIOD_NS;
    const struct dataset_request *r = p->request;
    if (r->progress && now >= p->tell_ns)
        r->progress(r->ctx, &(struct fb_progress){p->what, done, total});
    if (r->interrupted && r->interrupted(r->ctx))
        return error_set(e, FB_E_INTERRUPTED, "dataset", "interrupted while %s", p->what);
    return 0;
}
