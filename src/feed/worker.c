#include "feed/worker.h"

#include <stdlib.h>

static void free_scratch(struct worker *w)
{
    scratch_free(&w->bytes);
    scratch_free(&w->pixels);
    scratch_free(&w->work);
    scratch_free(&w->known);
    scratch_free(&w->pieces);
    scratch_free(&w->labels);
    scratch_free(&w->mapped[0]);
    scratch_free(&w->mapped[1]);
}

void worker_init(struct worker *w, struct budget *budget)
{
    *w = (struct worker){0};
    w->bytes.budget = w->pixels.budget = w->work.budget = w->known.budget = budget;
    w->labels.budget = w->mapped[0].budget = w->mapped[1].budget = w->pieces.budget = budget;
    decompress_init(&w->decompress, budget);
    codec_state_init(&w->codec, budget);
}

void worker_free(struct worker *w)
{
    free_scratch(w);
    decompress_free(&w->decompress);
    codec_state_free(&w->codec);
}

void worker_ease(struct worker *w)
{
    free_scratch(w);
    scratch_free(&w->codec.scratch);
    scratch_free(&w->decompress.work[0]);
    scratch_free(&w->decompress.work[1]);
}

struct worker *worker_new(uint32_t index, struct budget *budget)
{
    struct worker *w = malloc(sizeof(*w));
    if (!w)
        return NULL;
    worker_init(w, budget);
    w->index = index;
    return w;
}

void worker_delete(struct worker *w)
{
    worker_free(w);
    free(w);
}
