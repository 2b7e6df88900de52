/* What the accelerator's figures say when data is not the reason. Without figures nothing is claimed. */
#include "diagnose/findings.h"

static const double busy_enough = 0.85, link_full = 0.6;

enum verdict_kind cause_of_device(const struct window *w, const struct shares *h)
{
    if (isnan(h->gpu_ratio))
        return VERDICT_UNKNOWN;
    if (h->gpu_ratio >= busy_enough)
        return VERDICT_COMPUTE;
    if (w->sum.pcie_in_bytes > link_full * w->sum.pcie_cap_bytes)
        return VERDICT_TRANSFER;
    return h->cpu + h->delay + h->own_loading > 0.6 ? VERDICT_HOST : VERDICT_UNKNOWN;
}

void explain_device(struct findings *f)
{
    const struct snapshot *s = &f->w->sum;
    double bound = f->h->gpu_ratio > 0.02 ? 1 / f->h->gpu_ratio : 50;
    if (f->v->kind == VERDICT_TRANSFER) {
        finding_say(f, "%.1f of %.1f GB/s go over PCIe to the device, which is busy %.0f %% of the time", s->pcie_in_bytes / 1e9,
                    s->pcie_cap_bytes / 1e9, 100 * f->h->gpu_ratio);
        finding_advise(f, fmin(bound, 2), "send uint8 and normalise on the device (now %.1f GB/s): a quarter of the bytes of float32",
                       s->pcie_in_bytes / 1e9);
        finding_advise(f, NAN, "pin_memory=True and non_blocking=True: the copy runs beside the step");
    } else if (f->v->kind == VERDICT_HOST) {
        finding_say(f, "the main thread is on the CPU %.0f %% of the time and does not wait for data; the accelerator is busy %.0f %%",
                    100 * (f->h->cpu + f->h->delay), 100 * f->h->gpu_ratio);
        finding_advise(f, fmin(bound, 2), "a batch twice as large: half as many launches per sample (accelerator now %.0f %% busy)",
                       100 * f->h->gpu_ratio);
        finding_advise(f, NAN, "torch.compile or CUDA graphs; no .item(), print or synchronize() in every step");
    } else if (f->v->kind == VERDICT_COMPUTE && !isnan(f->h->gpu_ratio)) {
        finding_say(f, "the accelerator is busy %.0f %% of the time", 100 * f->h->gpu_ratio);
    }
}
