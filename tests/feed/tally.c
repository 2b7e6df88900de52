#include "tally.h"

#include <stdlib.h>
#include <string.h>

#include "../sanitizers.h"
#include "base/checksum.h"
#include "base/rng.h"

struct photo_folder photos;

void show(const struct fb_error *e)
{
    char line[3000];
    fb_format_error(e, line, sizeof(line));
    print_message("%s\n", line);
}

fb_loader *open_or_fail(const fb_options *o)
{
    struct fb_error e = {0};
    fb_loader *l;
    if (fb_open(o, &l, &e) < 0) {
        show(&e);
        fail();
    }
    return l;
}

void count_batch(const fb_batch *b, struct tally *t)
{
    t->batches++;
    for (int i = 0; i < fb_batch_size(b); i++) {
        t->seen[fb_batch_sample(b, i)]++;
        t->repeats += fb_batch_is_repeat(b, i);
        t->digest = rng_mix(t->digest, checksum_of(fb_batch_key(b, i), strlen(fb_batch_key(b, i))));
    }
    for (int f = 0; f < fb_batch_array_count(b); f++) {
        const struct fb_array *a = fb_batch_array(b, f);
        t->digest = rng_mix(t->digest, checksum_of(a->data, a->bytes));
    }
}

int take(fb_loader *l, int most, struct tally *t, struct fb_error *e)
{
    for (int i = 0; i < most; i++) {
        fb_batch *b;
        int rc = fb_next_batch(l, &b, e);
        if (rc <= 0)
            return rc;
        count_batch(b, t);
        fb_release_batch(b);
    }
    return 1;
}

struct tally run_epoch(fb_loader *l, int64_t epoch)
{
    struct fb_error e = {0};
    struct tally t = {0};
    assert_true(fb_start_epoch(l, epoch, &e) >= 0);
    int rc = take(l, 1 << 20, &t, &e);
    if (rc < 0)
        show(&e);
    assert_int_equal(rc, 0);
    return t;
}

void assert_each_once(const struct tally *t, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(t->seen[i], 1);
}

uint64_t number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 10);
}

int make_photos(void **state)
{
    (void)state;
    photo_folder_make(&photos, PHOTOS, CLASSES);
    return 0;
}

int remove_photos(void **state)
{
    (void)state;
    photo_folder_remove(&photos);
    return 0;
}

#if HAS_THREAD_SANITIZER
/* liburing maps rings by system calls that ThreadSanitizer does not see: a new ring at an address that was memory of another thread before
 * looks shared to it. Only ring memory is written there; everything else stays checked. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:liburing.h\nrace:uring_ring_open\n";
}
#endif
