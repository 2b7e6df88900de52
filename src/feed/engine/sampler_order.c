/* Epochs whose order a sampler of the caller gives: a list that grows while the epoch runs, and that the planner follows. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "feed/feed.h"

void given_restart(struct feed *f)
{
    f->given_count = 0;
    f->is_given_all = false;
}

uint64_t given_in_batch(const struct feed *f, const struct run *r, uint64_t batch)
{
    uint64_t size = f->layout.global_batch, first = r->start + batch * size;
    uint64_t left = f->given_count > first ? f->given_count - first : 0;
    return left < size ? left : size;
}

bool given_has_batch(const struct feed *f, const struct run *r, uint64_t batch)
{
    uint64_t count = given_in_batch(f, r, batch);
    return count == f->layout.global_batch || (f->is_given_all && count > 0 && !f->drop_last);
}

static int check(const struct feed *f, const uint64_t *samples, uint64_t count, struct fb_error *e)
{
    if (!f->takes_order || f->pid != getpid())
        return error_set(e, FB_E_STATE, "order", "this loader has an order of its own");
    for (uint64_t i = 0; i < count; i++)
        if (samples[i] >= f->subset.count)
            return error_advise(e,
                                error_set(e, FB_E_USAGE, "order", "the sampler gave the index %llu, but there are %llu samples",
                                          (unsigned long long)samples[i], (unsigned long long)f->subset.count),
                                "indices count from 0 among the selected samples, in the order of loader.dataset");
    return 0;
}

/* f->lock is held. */
static int append(struct feed *f, const uint64_t *samples, uint64_t count, struct fb_error *e)
{
    if (!f->is_live || f->is_given_all)
        return error_set(e, FB_E_STATE, "order", "no epoch is running that could take more samples");
    if (f->given_count + count > f->given_capacity) {
        uint64_t capacity = 2 * (f->given_count + count) + 1024;
        uint64_t *more = capacity < SIZE_MAX / sizeof(*more) ? realloc(f->given, capacity * sizeof(*more)) : NULL;
        if (!more)
            return error_set(e, FB_E_NOMEM, "order", "no memory for an order of %llu samples", (unsigned long long)capacity);
        f->given = more;
        f->given_capacity = capacity;
    }
    if (count)
        memcpy(f->given + f->given_count, samples, count * sizeof(*samples));
    f->given_count += count;
    return 0;
}

/* f->lock is held: now the number of batches is known. */
static void finish(struct feed *f)
{
    f->is_given_all = true;
    f->live.batches = f->given_count > f->live.start ? ranks_batch_count(&f->layout, f->live.start) : 0;
    f->planned.batches = f->live.batches;
}

int given_push(struct feed *f, const uint64_t *samples, uint64_t count, bool is_last, struct fb_error *e)
{
    FB_TRY(check(f, samples, count, e));
    pthread_mutex_lock(&f->lock);
    int rc = append(f, samples, count, e);
    if (rc == 0) {
        f->layout.count = f->given_count;
        if (is_last)
            finish(f);
        pthread_cond_signal(&f->planner_wakes);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}
