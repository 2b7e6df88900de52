#include "feed/first_size.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "codec/image/codec.h"

enum { TRIES = 16 };

/* One read that is waited for, with all that it writes to. When nobody waits for it any more, it frees itself in the end; a read that never
 * ends keeps it. */
struct waiting_read {
    pthread_mutex_t lock;
    pthread_cond_t came;
    bool is_done, is_left;
    struct io_request request;
    struct fb_error error;
    uint8_t *buffer;
};

static void free_read(struct waiting_read *w)
{
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->came);
    free(w->buffer);
    free(w);
}

static void wake(struct io_request *r)
{
    struct waiting_read *w = r->owner;
    pthread_mutex_lock(&w->lock);
    w->is_done = true;
    bool is_left = w->is_left;
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
    if (is_left)
        free_read(w);
}

/* The lock is let go meanwhile: the question may take locks of its own, and wake must never wait. */
static bool is_interrupted(struct feed *f, struct waiting_read *w)
{
    if (!f->interrupted)
        return false;
    pthread_mutex_unlock(&w->lock);
    bool is = f->interrupted(f->ctx) != 0;
    pthread_mutex_lock(&w->lock);
    return is && !w->is_done;
}

static int wait_for(struct feed *f, struct waiting_read *w, struct fb_error *e)
{
    int rc = 0;
    pthread_mutex_lock(&w->lock);
    while (!w->is_done && rc == 0) {
        thread_cond_wait_until(&w->came, &w->lock, clock_now_ns() + 100000000u);
        if (!w->is_done && is_interrupted(f, w))
            rc = error_set(e, FB_E_INTERRUPTED, "read", "interrupted while the first sample was read");
    }
    w->is_left = !w->is_done;
    pthread_mutex_unlock(&w->lock);
    return rc;
}

/* The sample's labels, which a transform may ask for; one block to be freed. */
static uint8_t *values_of(struct feed *f, uint64_t selected, void **values, struct fb_error *e)
{
    size_t total = 1;
    for (int i = 0; i < f->labels.count; i++)
        total += (f->labels.field[i].bytes + 7) & ~(size_t)7;
    uint8_t *memory = malloc(total), *to = memory;
    if (!memory)
        error_set(e, FB_E_NOMEM, "read", "no memory for the labels of the first sample");
    for (int i = 0; memory && i < f->labels.count; i++) {
        values[i] = to;
        if (labels_get(&f->labels, i, selected, f->subset.sample ? f->subset.sample[selected] : selected, to, e) < 0) {
            free(memory);
            return NULL;
        }
        to += (f->labels.field[i].bytes + 7) & ~(size_t)7;
    }
    return memory;
}

static int plan_size(struct feed *f, uint64_t selected, const uint8_t *bytes, size_t n, uint32_t *height, uint32_t *width,
                     struct fb_error *e)
{
    struct image_header h;
    const struct codec_ops *codec;
    FB_TRY(feed_header(f, bytes, n, &h, &codec, e));
    void *values[FB_MAX_FIELDS] = {0};
    uint8_t *memory = values_of(f, selected, values, e);
    int rc = memory ? chain_size_of(&f->chain, &h, values, height, width, e) : e->code;
    free(memory);
    return rc;
}

static int size_of(struct feed *f, uint64_t selected, const struct catalog_sample *s, uint32_t *height, uint32_t *width, struct fb_error *e)
{
    size_t capacity = s->length + IO_TAIL;
    struct waiting_read *w = calloc(1, sizeof(*w));
    uint8_t *buffer = malloc(capacity);
    if (!w || !buffer || capacity < s->length) {
        free(w);
        free(buffer);
        return error_set(e, FB_E_NOMEM, "read", "no memory for the first sample (%zu bytes)", capacity);
    }
    pthread_mutex_init(&w->lock, NULL);
    thread_cond_init(&w->came);
    error_clear(&w->error);
    w->buffer = buffer;
    w->request = (struct io_request){
        .dir_fd = f->dataset.root_fd,
        .path = s->object,
        .offset = s->offset,
        .length = s->length,
        .expected_size = s->length,
        .buffer = buffer,
        .capacity = capacity,
        .done = wake,
        .owner = w,
        .error = &w->error,
    };
    f->io->ops->submit(f->io, &w->request, false);
    int rc = wait_for(f, w, e);
    if (rc < 0)
        return rc; /* the read still owns its memory */
    if (w->request.status >= 0)
        rc = plan_size(f, selected, buffer, w->request.got, height, width, e);
    else if ((rc = w->request.status) < 0 && e && !e->code)
        *e = w->error;
    free_read(w);
    return rc;
}

/* The first samples in their order, then some from everywhere: bad ones often lie together. */
static uint64_t candidate(const struct feed *f, uint64_t i)
{
    uint64_t count = f->subset.count;
    if (i < TRIES || count <= FEED_MOST_BAD_TRIES)
        return i;
    return TRIES + (uint64_t)((double)(i - TRIES) * (double)(count - TRIES) / (FEED_MOST_BAD_TRIES - TRIES));
}

/* With on_error=skip bad samples are no reason to give up before a place of a batch would; storage that does not answer is one. */
static bool may_try(const struct feed *f, uint64_t i, int rc)
{
    return i < f->subset.count && (i < TRIES || (f->skips_bad && rc == FB_E_DATA && i < FEED_MOST_BAD_TRIES));
}

/* The last one's error becomes that of all of them. */
static void blame_all(const struct feed *f, uint64_t tries, struct fb_error *e)
{
    char last[sizeof(e->cause)];
    memcpy(last, e->cause, sizeof(last));
    e->remedy[0] = 0;
    text_words(e->cause, sizeof(e->cause),
               "no transform fixes the size of the images, and %llu of %llu samples looked at for it were bad, the last one because %s",
               (unsigned long long)tries, (unsigned long long)tries, last);
    error_remedy(e, "add a transform that fixes it, such as CenterCrop(224)%s",
                 f->skips_bad ? "" : "; on_error=\"skip\" looks at more samples");
}

int first_size(struct feed *f, uint32_t *height, uint32_t *width, struct fb_error *e)
{
    int rc = FB_E_DATA;
    uint64_t i = 0;
    for (; may_try(f, i, rc); i++) {
        struct catalog_sample s;
        uint64_t selected = candidate(f, i), sample = f->subset.sample ? f->subset.sample[selected] : selected;
        error_clear(e);
        FB_TRY(catalog_sample(f->dataset.catalog, sample, &s, e));
        rc = size_of(f, selected, &s, height, width, e);
        if (rc >= 0 || rc == FB_E_INTERRUPTED)
            return rc;
        error_at(e, s.key, -1);
    }
    if (e && i > 1)
        blame_all(f, i, e);
    return rc;
}
