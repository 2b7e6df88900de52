#include "feed/worker.h"

#include <stdlib.h>

struct worker *worker_new(uint32_t index, struct budget *budget)
{
    struct worker *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->index = index;
    for (int i = 0; i < WORKER_SCRATCHES; i++)
        w->scratch[i].budget = budget;
    decompress_init(&w->decompress, budget);
    codec_state_init(&w->codec, budget);
    return w;
}

void worker_free_idle_memory(struct worker *w)
{
    for (int i = 0; i < WORKER_SCRATCHES; i++)
        scratch_free(&w->scratch[i]);
    scratch_free(&w->codec.scratch);
    scratch_free(&w->decompress.work[0]);
    scratch_free(&w->decompress.work[1]);
}

void worker_delete(struct worker *w)
{
    worker_free_idle_memory(w);
    decompress_free(&w->decompress);
    codec_state_free(&w->codec);
    free(w);
}
