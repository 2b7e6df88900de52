/* Finds the size of the images by reading the first good sample, when no transform fixes it. */
#include <stdlib.h>
#include <string.h>

#include "base/round_up.h"
#include "base/text/text.h"
#include "codec/image/codec.h"
#include "feed/single/images.h"
#include "io/io_wait.h"

enum { TRIES = 16 };

/* The sample's labels, which a transform may ask for; one block to be freed. */
static uint8_t *values_of(struct feed *f, uint64_t selected, void **values, struct fb_error *e)
{
    uint8_t *memory = malloc(labels_lay_out(&f->labels, NULL, values) + 1);
    if (!memory)
        error_set(e, FB_E_NOMEM, "read", "no memory for the labels of the first sample");
    else
        labels_lay_out(&f->labels, memory, values);
    if (!memory || labels_copy(&f->labels, selected, f->subset.sample ? f->subset.sample[selected] : selected, values, e) == 0)
        return memory;
    free(memory);
    return NULL;
}

static int plan_size(struct feed *f, uint64_t selected, const uint8_t *bytes, size_t n, uint32_t *height, uint32_t *width,
                     struct fb_error *e)
{
    struct image_header h;
    const struct codec_ops *codec;
    FB_TRY(image_load_header(images_of(f), bytes, n, &h, &codec, e));
    void *values[FB_MAX_FIELDS] = {0};
    uint8_t *memory = values_of(f, selected, values, e);
    int rc = memory ? step_chain_size_of(&images_of(f)->chain, &h, values, height, width, e) : e->code;
    free(memory);
    return rc;
}

static int size_of(struct feed *f, uint64_t selected, const struct catalog_sample *s, uint32_t *height, uint32_t *width, struct fb_error *e)
{
    const struct io_wait_stop stop = {.interrupted = f->interrupted, .ctx = f->ctx};
    struct io_wait *w = io_wait_new(f->io, 1, s->length);
    if (!w)
        return error_set(e, FB_E_NOMEM, "read", "no memory for the first sample (%zu bytes)", (size_t)s->length + IO_TAIL);
    io_wait_submit(
        w, 0,
        &(struct io_request){
            .dir_fd = f->dataset.root_fd, .path = s->object, .offset = s->offset, .length = s->length, .expected_size = s->length},
        false);
    int rc = io_wait_all(w, &stop);
    const struct io_request *r = io_wait_result(w, 0);
    if (rc < 0)
        error_set(e, rc, "read", "interrupted while the first sample was read");
    else if ((rc = io_wait_status(w, 0, e)) >= 0)
        rc = plan_size(f, selected, r->buffer, r->got, height, width, e);
    io_wait_end(w);
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
               "no transform fixes the size of the images, and %llu of %llu samples tried to find it were bad, the last one because %s",
               (unsigned long long)tries, (unsigned long long)tries, last);
    error_remedy(e, "add a transform that fixes it, such as CenterCrop(224)%s",
                 f->skips_bad ? "" : "; with on_error=\"skip\" more samples are tried");
}

int image_size_probe(struct feed *f, uint32_t *height, uint32_t *width, struct fb_error *e)
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
