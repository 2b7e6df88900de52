/* The verdict in a sentence, for somebody who has never seen one. */
#include <stdio.h>

#include "jobs/report/report_page.h"

static const char *const because[VERDICT_KINDS] = {
    [VERDICT_DISK_LATENCY] = "the loaders wait for many small reads, one after the other.",
    [VERDICT_DISK_BANDWIDTH] = "storage gives no more bytes per second.",
    [VERDICT_CPU] = "preparing a batch takes more CPU time than the loaders get.",
    [VERDICT_CPU_QUOTA] = "the program is stopped again and again when its share of the CPU is used up.",
    [VERDICT_NETWORK_LATENCY] = "the loaders wait for answers over the network.",
    [VERDICT_NETWORK_BANDWIDTH] = "the network gives no more bytes per second.",
    [VERDICT_MEMORY_THRASH] = "memory is too small: pages are dropped and have to be read again.",
    [VERDICT_SERIAL] = "the loaders wait for each other: only one of them can work at a time.",
};

static const char *const otherwise[VERDICT_KINDS] = {
    [VERDICT_COMPUTE] = "The model sets the pace: batches are ready when it asks for them.",
    [VERDICT_TRANSFER] = "The copy to the accelerator sets the pace.",
    [VERDICT_HOST] = "The accelerator waits for the program that drives it, not for data: launches, small batches, synchronisation.",
    [VERDICT_PAUSE] = "Batches come in time, but training stands still between stretches: workers start anew, checkpoints, validation.",
    [VERDICT_STARTUP] = "It ended before it had got going; there is too little to judge.",
    [VERDICT_MIXED] = "Time is lost to several causes, and none of them has half of it.",
    [VERDICT_UNKNOWN] = "It cannot be told from outside what the time went to; the evidence says why.",
};

void page_sentence(struct text *t, const struct verdict *v)
{
    if (otherwise[v->kind])
        text_printf(t, "<p class=\"say\">%s</p>", otherwise[v->kind]);
    else if (because[v->kind])
        text_printf(t, "<p class=\"say\">Training stands still for %.0f %% of the time: %s</p>", 100 * v->starved_ratio, because[v->kind]);
}
