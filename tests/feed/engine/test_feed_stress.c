/* Many loaders at once in one process, opened, left in the middle, asked, and closed while others run: every batch holds what it should,
 * and the sanitizers see the rest. FB_SOAK runs it for longer. */
#include "../tally.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/rng.h"

enum { USERS = 3, ROWS = 90, WIDTH = 7 };

static char rows[300], cache[300];
static uint64_t expected[PHOTOS]; /* of each photograph: the checksum of its place */

/* ---- sources ---- */

static void make_rows(void)
{
    char path[400], head[128] = "\x93NUMPY\x01\x00\x76\x00";
    snprintf(rows, sizeof(rows), "%s/rows", photos.home);
    snprintf(cache, sizeof(cache), "%s/cache", photos.home);
    mkdir(rows, 0700);
    for (int file = 0; file < 3; file++) {
        snprintf(path, sizeof(path), "%s/%d.npy", rows, file);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        int n = snprintf(head + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", ROWS / 3, WIDTH);
        memset(head + 10 + n, ' ', (size_t)(117 - n));
        head[127] = '\n';
        fwrite(head, 1, 128, f);
        for (int i = 0; i < ROWS / 3 * WIDTH; i++) {
            float x = (float)(file * ROWS / 3 * WIDTH + i);
            fwrite(&x, 4, 1, f);
        }
        assert_int_equal(fclose(f), 0);
    }
}

static int pass_on(void *ctx, struct fb_map *m, struct fb_error *e)
{
    (void)ctx, (void)m, (void)e;
    return 0;
}

/* One way of many to read the same photographs, or the rows. */
static fb_options options_by(struct rng *r, bool *has_rows)
{
    static const char *const io[] = {"pread", "auto", "slow:iops=4000,over=pread", "slow:latency_us=300,jitter_us=900"};
    fb_options o = photo_options(&photos);
    *has_rows = rng_u64(r) % 4 == 0;
    o.memory = 256 << 20;
    o.batch_size = 3;
    o.seed = rng_u64(r);
    o.threads = 1 + (int)(rng_u64(r) % 4);
    o.io = io[rng_u64(r) % 4];
    o.transforms = *has_rows ? NULL : "resize size=16,16";
    o.on_error = rng_u64(r) % 2 ? FB_SKIP : FB_RAISE;
    if (*has_rows) {
        o.source = rows;
        o.sample = FB_SAMPLE_ROW;
    } else if (rng_u64(r) % 3 == 0) {
        o.transforms = "resize size=16,16; map";
        o.map = pass_on;
    }
    if (rng_u64(r) % 4 == 0) {
        o.cache_dir = rng_u64(r) % 2 ? cache : NULL;
        o.cache_ram = 1 << 20;
    }
    if (rng_u64(r) % 4 == 0)
        o.device = "emulated:8GB/s,20us";
    return o;
}

/* ---- users ---- */

struct asker {
    fb_loader *l;
    atomic_bool is_over;
};

static void *ask(void *arg)
{
    struct asker *a = arg;
    static _Thread_local char json[1 << 16];
    while (!atomic_load(&a->is_over)) {
        fb_get_stats(a->l, json, sizeof(json));
        usleep(500);
    }
    return NULL;
}

static bool is_right(const fb_batch *b, int i, bool has_rows)
{
    const struct fb_array *a = fb_batch_array(b, 0);
    const char *at = (const char *)a->data + i * a->strides[0];
    uint64_t sample = fb_batch_sample(b, i);
    if (!has_rows)
        return checksum_of(at, (size_t)a->strides[0]) == expected[sample];
    for (int k = 0; k < WIDTH; k++)
        if (((const float *)(const void *)at)[k] != (float)(sample * WIDTH + (uint64_t)k))
            return false;
    return true;
}

/* Returns how many places were wrong. */
static int check(fb_batch *b, bool has_rows)
{
    struct fb_error e = {0};
    int wrong = fb_use_batch(b, 0, &e) < 0;
    for (int i = 0; i < fb_batch_size(b); i++)
        wrong += !is_right(b, i, has_rows);
    return wrong;
}

static int use_loader(fb_loader *l, struct rng *r, bool has_rows, fb_batch **kept)
{
    struct fb_error e = {0};
    int wrong = 0, rc = 1;
    for (int epoch = 0; epoch < 3; epoch++) {
        uint64_t stop = rng_u64(r) % 40;
        fb_batch *b;
        wrong += fb_start_epoch(l, FB_NEXT_EPOCH, &e) < 0;
        for (uint64_t n = 0; n < stop && (rc = fb_next_batch(l, &b, &e)) == 1; n++) {
            wrong += check(b, has_rows);
            if (!*kept)
                *kept = b;
            else
                fb_release_batch(b);
        }
        if (rc < 0)
            show(&e);
        wrong += rc < 0;
    }
    return wrong;
}

static void *be_a_user(void *arg)
{
    struct rng r = rng_stream(RNG_TRANSFORM, 17, (uint64_t)(uintptr_t)arg, 0, 0);
    intptr_t wrong = 0;
    int loaders = getenv("FB_SOAK") ? 200 : 6;
    for (int i = 0; i < loaders; i++) {
        bool has_rows;
        fb_options o = options_by(&r, &has_rows);
        struct fb_error e = {0};
        struct asker a = {0};
        fb_batch *kept = NULL;
        pthread_t t;
        if (fb_open(&o, &a.l, &e) < 0) {
            show(&e);
            wrong++;
            continue;
        }
        bool is_asked = pthread_create(&t, NULL, ask, &a) == 0;
        wrong += use_loader(a.l, &r, has_rows, &kept);
        atomic_store(&a.is_over, true);
        if (is_asked)
            pthread_join(t, NULL);
        fb_close(a.l);
        wrong += kept && check(kept, has_rows); /* it outlives the loader */
        if (kept)
            fb_release_batch(kept);
    }
    return (void *)wrong;
}

static void learn_what_is_right(void)
{
    fb_options o = photo_options(&photos);
    struct fb_error e = {0};
    fb_batch *b;
    o.transforms = "resize size=16,16";
    fb_loader *l = open_or_fail(&o);
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    while (fb_next_batch(l, &b, &e) == 1) {
        const struct fb_array *a = fb_batch_array(b, 0);
        for (int i = 0; i < fb_batch_size(b); i++)
            expected[fb_batch_sample(b, i)] = checksum_of((const char *)a->data + i * a->strides[0], (size_t)a->strides[0]);
        fb_release_batch(b);
    }
    fb_close(l);
}

static void many_loaders_at_once_give_what_one_gives(void **state)
{
    (void)state;
    pthread_t t[USERS];
    make_rows();
    learn_what_is_right();
    for (uintptr_t i = 0; i < USERS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, be_a_user, (void *)i), 0);
    for (int i = 0; i < USERS; i++) {
        void *wrong;
        pthread_join(t[i], &wrong);
        assert_int_equal((intptr_t)wrong, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_loaders_at_once_give_what_one_gives)};
    return run_photo_tests(tests);
}
