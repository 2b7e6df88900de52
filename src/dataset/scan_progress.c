#include "dataset/scan_progress.h"

#include "base/clock.h"

enum { PERIOD_NS = 50000000, CALLS_PER_CLOCK = 16 };

void scan_progress_start(struct scan_progress *p, const struct dataset_request *r, const char *what)
{
    *p = (struct scan_progress){.request = r, .what = what, .tell_ns = clock_now_ns() + PERIOD_NS};
}

int scan_progress_report(struct scan_progress *p, uint64_t done, uint64_t total, struct fb_error *e)
{
    if (++p->calls % CALLS_PER_CLOCK != 0)
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
