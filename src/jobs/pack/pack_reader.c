#include "jobs/pack/pack_reader.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"
#include "jobs/pack/pack_item.h"

enum { ITEMS_PER_THREAD = 4, ASK_NS = 100000000 };

struct pack_reader {
    struct pack_source source;
    uint64_t end;
    int threads;
    uint32_t capacity;
    struct pack_item *item; /* sample i is made in item[i % capacity] */
    pthread_t *thread;
    pthread_mutex_t lock;
    pthread_cond_t made, taken;
    /* under lock */
    uint64_t next;  /* sample to be made */
    uint64_t out;   /* sample to be taken */
    bool has_taken; /* item of sample out - 1 is with the caller */
    bool is_closing;
};

static void *make_items(void *arg)
{
    struct pack_reader *r = arg;
    pthread_mutex_lock(&r->lock);
    for (;;) {
        while (!r->is_closing && r->next < r->end && r->next - r->out + r->has_taken >= r->capacity)
            pthread_cond_wait(&r->taken, &r->lock);
        if (r->is_closing || r->next == r->end)
            break;
        struct pack_item *item = &r->item[r->next % r->capacity];
        item->sample = r->next++;
        pthread_mutex_unlock(&r->lock);
        pack_item_make(&r->source, item);
        pthread_mutex_lock(&r->lock);
        item->is_ready = true;
        pthread_cond_signal(&r->made);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

struct pack_item *pack_reader_take(struct pack_reader *r, int (*interrupted)(void *ctx), void *ctx, struct fb_error *e)
{
    struct pack_item *item = NULL;
    int is_stopped = interrupted && interrupted(ctx);
    pthread_mutex_lock(&r->lock);
    r->has_taken = false;
    pthread_cond_signal(&r->taken);
    while (!is_stopped && r->out < r->end && !r->item[r->out % r->capacity].is_ready) {
        thread_cond_wait_until(&r->made, &r->lock, clock_now_ns() + ASK_NS);
        is_stopped = interrupted && interrupted(ctx);
    }
    if (!is_stopped && r->out < r->end) {
        item = &r->item[r->out++ % r->capacity];
        item->is_ready = false;
        r->has_taken = true;
    }
    pthread_mutex_unlock(&r->lock);
    if (is_stopped)
        error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
    return item;
}

static int start_threads(struct pack_reader *r, int wanted, struct fb_error *e)
{
    for (; r->threads < wanted; r->threads++)
        FB_TRY(thread_start(&r->thread[r->threads], "fb-pack", make_items, r, e));
    return 0;
}

int pack_reader_open(struct pack_reader **out, const struct pack_source *source, uint64_t first, int threads, struct fb_error *e)
{
    struct pack_reader *r = *out = calloc(1, sizeof(*r));
    if (!r)
        return error_set(e, FB_E_NOMEM, "pack", "no memory to read ahead");
    r->source = *source;
    r->end = catalog_count(source->dataset->catalog);
    r->next = r->out = first;
    r->capacity = (uint32_t)threads * ITEMS_PER_THREAD;
    r->item = calloc(r->capacity, sizeof(*r->item));
    r->thread = calloc((size_t)threads, sizeof(*r->thread));
    pthread_mutex_init(&r->lock, NULL);
    thread_cond_init(&r->made);
    thread_cond_init(&r->taken);
    for (uint32_t i = 0; r->item && i < r->capacity; i++)
        pack_item_init(&r->item[i]);
    int rc = r->item && r->thread ? start_threads(r, threads, e) : error_set(e, FB_E_NOMEM, "pack", "no memory to read ahead");
    if (rc < 0) {
        pack_reader_close(r);
        *out = NULL;
    }
    return rc;
}

void pack_reader_close(struct pack_reader *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->is_closing = true;
    pthread_cond_broadcast(&r->taken);
    pthread_mutex_unlock(&r->lock);
    for (int i = 0; i < r->threads; i++)
        pthread_join(r->thread[i], NULL);
    for (uint32_t i = 0; r->item && i < r->capacity; i++)
        pack_item_free(&r->item[i]);
    pthread_cond_destroy(&r->made);
    pthread_cond_destroy(&r->taken);
    pthread_mutex_destroy(&r->lock);
    free(r->item);
    free(r->thread);
    free(r);
}
