/* The caller's functions, labels and orders inside the engine: sizes, floats, labels, failures, memory, ends. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/error.h"
#include "../photo_folder.h"

enum { PHOTOS = 60, CLASSES = 3 };
static struct photo_folder photos;

struct calls {
    atomic_int count, done;
    int (*act)(struct fb_map *m, struct fb_error *e);
    struct fb_error last;
};

static int call(void *ctx, struct fb_map *m, struct fb_error *e)
{
    struct calls *c = ctx;
    atomic_fetch_add(&c->count, 1);
    m->busy_ns = 1000;
    return c->act ? c->act(m, e) : 0;
}

static void done(void *ctx)
{
    atomic_fetch_add(&((struct calls *)ctx)->done, 1);
}

static fb_options options_with(struct calls *c, const char *transforms)
{
    fb_options o = photo_options(&photos);
    o.transforms = transforms;
    o.batch_size = 7;
    o.layout = FB_NHWC;
    o.map = call;
    o.map_done = done;
    o.map_ctx = c;
    return o;
}

/* One epoch as a checksum over images and labels; 0: it failed, and c->last says how. */
static uint64_t epoch_of(const fb_options *o, struct calls *c)
{
    fb_loader *l;
    fb_batch *b;
    uint64_t sum = 0;
    memset(&c->last, 0, sizeof(c->last));
    if (fb_open(o, &l, &c->last) < 0)
        return 0;
    assert_true(fb_start_epoch(l, 0, &c->last) >= 0);
    int rc;
    while ((rc = fb_next_batch(l, &b, &c->last)) == 1) {
        for (int i = 0; i < fb_batch_array_count(b); i++) {
            const struct fb_array *a = fb_batch_array(b, i);
            sum = sum * 31 + checksum_of(a->data, a->bytes);
        }
        fb_release_batch(b);
    }
    fb_close(l);
    return rc < 0 ? 0 : sum;
}

static int shade(struct fb_map *m, struct fb_error *e)
{
    (void)e;
    for (size_t i = 0; i < (size_t)m->height * (size_t)m->width * 3; i++)
        m->pixels[i] = (uint8_t)(m->pixels[i] ^ m->random[i % 2]);
    return 0;
}

static void results_are_the_same_for_any_number_of_threads(void **state)
{
    (void)state;
    uint64_t first = 0;
    for (int threads = 1; threads <= 8; threads *= 2) {
        struct calls c = {.act = shade};
        fb_options o = options_with(&c, "random_resized_crop size=24; map name=shade; random_horizontal_flip; map");
        o.threads = threads;
        o.shuffle = 1;
        uint64_t sum = epoch_of(&o, &c);
        assert_true(sum != 0 && (first == 0 || sum == first));
        first = sum;
        assert_true(atomic_load(&c.count) >= 2 * PHOTOS);
        assert_int_equal(atomic_load(&c.done), 1);
    }
}

static void a_function_that_does_nothing_changes_nothing(void **state)
{
    (void)state;
    struct calls c = {0};
    fb_options with = options_with(&c, "resize size=40,40; map; random_crop size=24; map; random_horizontal_flip"), without = with;
    without.transforms = "resize size=40,40; random_crop size=24; random_horizontal_flip";
    uint64_t a = epoch_of(&with, &c), b = epoch_of(&without, &c);
    assert_true(a != 0 && a == b);
}

static int halve(struct fb_map *m, struct fb_error *e)
{
    int height = m->height / 2, width = m->width;
    uint8_t *to = m->make(m, FB_UINT8, height, width, e);
    if (!to)
        return e->code;
    memcpy(to, m->pixels, (size_t)height * (size_t)width * 3);
    return 0;
}

static void a_result_of_another_size_is_planned_anew(void **state)
{
    (void)state;
    struct calls c = {.act = halve};
    fb_options o = options_with(&c, "resize size=40,30; map; resize size=10,10"), p = o;
    assert_true(epoch_of(&o, &c) != 0);
    p.transforms = "resize size=40,30; map size=20,30";
    assert_true(epoch_of(&p, &c) != 0);
    p.transforms = "resize size=40,30; map"; /* nobody said that it would be smaller */
    assert_int_equal(epoch_of(&p, &c), 0);
    assert_non_null(strstr(c.last.cause, "comes out 20 x 30"));
}

static int keep(struct fb_map *m, struct fb_error *e)
{
    (void)e;
    uint8_t *to = m->make(m, FB_UINT8, m->height, m->width, e);
    if (!to)
        return e->code;
    memcpy(to, m->pixels, (size_t)m->height * (size_t)m->width * 3);
    m->keeps_pixels = 1;
    free(m->pixels); /* kept, and let go: the sanitizers see a second free */
    return 0;
}

static void pixels_can_be_kept(void **state)
{
    (void)state;
    struct calls c = {.act = keep}, none = {0};
    fb_options o = options_with(&c, "resize size=20,20; map"), p = options_with(&none, "resize size=20,20");
    assert_true(epoch_of(&o, &c) == epoch_of(&p, &none));
}

/* What functions keep, of any number of threads. */
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept {
    uint8_t *pixels;
    size_t bytes;
} previous;
static uint8_t *all_kept[100 * PHOTOS];
static int kept_count;

static struct kept exchange(struct fb_map *m)
{
    struct kept mine = {m->pixels, (size_t)m->height * (size_t)m->width * 3};
    pthread_mutex_lock(&kept_lock);
    struct kept old = previous;
    previous = mine;
    pthread_mutex_unlock(&kept_lock);
    m->keeps_pixels = 1;
    return old;
}

/* Mix-up with the previous sample: it is kept until the next one comes, in whichever thread. */
static int keep_and_copy(struct fb_map *m, struct fb_error *e)
{
    uint8_t *to = m->make(m, FB_UINT8, m->height, m->width, e);
    if (!to)
        return e->code;
    memcpy(to, m->pixels, (size_t)m->height * (size_t)m->width * 3);
    free(exchange(m).pixels);
    return 0;
}

static int keep_and_return_previous(struct fb_map *m, struct fb_error *e)
{
    size_t bytes = (size_t)m->height * (size_t)m->width * 3;
    uint8_t *to = m->make(m, FB_UINT8, m->height, m->width, e);
    if (!to)
        return e->code;
    memset(to, 0, bytes);
    struct kept old = exchange(m);
    memcpy(to, old.pixels ? old.pixels : to, old.bytes < bytes ? old.bytes : bytes);
    free(old.pixels);
    return 0;
}

static int keep_for_ever(struct fb_map *m, struct fb_error *e)
{
    uint8_t *to = m->make(m, FB_UINT8, m->height, m->width, e);
    if (!to)
        return e->code;
    memcpy(to, m->pixels, (size_t)m->height * (size_t)m->width * 3);
    pthread_mutex_lock(&kept_lock);
    all_kept[kept_count++] = m->pixels;
    pthread_mutex_unlock(&kept_lock);
    m->keeps_pixels = 1;
    return 0;
}

static int keep_and_return_the_same(struct fb_map *m, struct fb_error *e)
{
    (void)e;
    free(exchange(m).pixels);
    return 0;
}

static int keep_and_fail(struct fb_map *m, struct fb_error *e)
{
    free(exchange(m).pixels);
    return error_set(e, FB_E_DATA, "map", "no");
}

static void forget_kept(void)
{
    free(previous.pixels);
    previous = (struct kept){0};
    while (kept_count > 0)
        free(all_kept[--kept_count]);
}

static void kept_pixels_are_the_functions_own(void **state)
{
    (void)state;
    struct calls none = {0};
    fb_options plain = options_with(&none, "resize size=20,20");
    uint64_t expected = epoch_of(&plain, &none);
    for (int threads = 1; threads <= 4; threads++) {
        struct calls c = {.act = keep_and_copy};
        fb_options o = options_with(&c, "map; resize size=20,20"), twice = options_with(&c, "map; resize size=20,20; map");
        o.threads = twice.threads = threads;
        assert_true(epoch_of(&o, &c) == expected && epoch_of(&twice, &c) == expected);
        c.act = keep_for_ever;
        assert_true(epoch_of(&o, &c) == expected);
        c.act = keep_and_return_previous;
        assert_true(epoch_of(&o, &c) != 0);
        c.act = keep_and_fail;
        assert_true(epoch_of(&o, &c) == 0);
        forget_kept();
    }
}

/* They may be freed by anybody at any time: they cannot be the result. */
static void kept_pixels_are_not_taken_for_the_result(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        struct calls c = {.act = keep_and_return_the_same};
        fb_options o = options_with(&c, "map name=mix; resize size=20,20");
        o.threads = threads;
        assert_true(epoch_of(&o, &c) == 0);
        assert_int_equal(c.last.code, FB_E_USAGE);
        assert_non_null(strstr(c.last.cause, "mix keeps its pixels"));
        assert_non_null(strstr(c.last.remedy, "make"));
        forget_kept();
    }
}

static int floats(struct fb_map *m, struct fb_error *e)
{
    float *to = m->make(m, FB_FLOAT32, m->height, m->width, e);
    if (!to)
        return e->code;
    for (size_t i = 0; i < (size_t)m->height * (size_t)m->width * 3; i++)
        to[i] = m->pixels[i] / 255.0f;
    return 0;
}

static void the_last_function_may_give_floats(void **state)
{
    (void)state;
    struct calls c = {.act = floats}, none = {0};
    for (int layout = FB_NCHW; layout <= FB_CHANNELS_LAST; layout++)
        for (int dtype = FB_FLOAT16; dtype <= FB_FLOAT32; dtype++) {
            fb_options o = options_with(&c, "resize size=20,22; map"), p = options_with(&none, "resize size=20,22");
            o.layout = p.layout = (enum fb_layout)layout;
            o.dtype = p.dtype = (enum fb_dtype)dtype;
            uint64_t a = epoch_of(&o, &c);
            assert_true(a != 0 && a == epoch_of(&p, &none));
        }
    fb_options o = options_with(&c, "resize size=20,22; map");
    assert_int_equal(epoch_of(&o, &c), 0);
    assert_non_null(strstr(c.last.remedy, "only the last step"));
}

static int too_large(struct fb_map *m, struct fb_error *e)
{
    return m->make(m, FB_UINT8, 65000, 65000, e) ? 0 : e->code;
}

static int fails(struct fb_map *m, struct fb_error *e)
{
    (void)m, (void)e;
    return FB_E_DATA; /* and says nothing */
}

static void failures_are_bad_samples(void **state)
{
    (void)state;
    struct calls c = {.act = too_large};
    fb_options o = options_with(&c, "resize size=20,20; map name=big");
    assert_int_equal(epoch_of(&o, &c), 0);
    assert_non_null(strstr(c.last.cause, "the result of big is 65000 x 65000"));
    c.act = fails;
    assert_int_equal(epoch_of(&o, &c), 0);
    assert_string_equal(c.last.stage, "map");
    assert_non_null(strstr(c.last.cause, "big failed without saying why"));
    assert_true(c.last.path[0] != 0);
}

static void wrong_texts_are_refused_and_the_context_is_let_go(void **state)
{
    (void)state;
    static const struct {
        const char *transforms, *said;
    } cases[] = {
        {"normalize mean=0,0,0 std=1,1,1; map", "must be the last transform"}, {"map colour=red", "colour"},
        {"map;map;map;map;map;map;map;map;map", "more than 8 map steps"},      {"crop_box labels=a,b,c,d", "no label called 'a'"},
        {"random_horizontal_flip negate=label,age", "no label called 'age'"},  {"random_horizontal_flip swap=label", "pairs"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct calls c = {0};
        fb_options o = options_with(&c, cases[i].transforms);
        assert_int_equal(epoch_of(&o, &c), 0);
        if (!strstr(c.last.cause, cases[i].said))
            print_message("%s: %s\n", cases[i].transforms, c.last.cause);
        assert_non_null(strstr(c.last.cause, cases[i].said));
        assert_int_equal(atomic_load(&c.done), 1);
    }
}

/* ---- labels by column, and flips that change them ---- */

static void columns_replace_the_sources_labels(void **state)
{
    (void)state;
    float yaw[PHOTOS];
    int64_t side[PHOTOS][2];
    for (int i = 0; i < PHOTOS; i++) {
        yaw[i] = (float)i + 1;
        side[i][0] = i;
        side[i][1] = 1000 + i;
    }
    struct fb_column columns[] = {{"yaw", FB_FLOAT32, 0, {0}, yaw}, {"side", FB_INT64, 1, {2}, side}};
    struct calls c = {0};
    fb_options o = options_with(&c, "resize size=8,8; random_horizontal_flip negate=yaw swap=side[0]:side[1]");
    o.columns = columns;
    o.column_count = 2;
    o.column_rows = PHOTOS;
    fb_loader *l;
    fb_batch *b;
    struct fb_error e = {0};
    assert_int_equal(fb_open(&o, &l, &e), 0);
    fb_start_epoch(l, 0, &e);
    int flipped = 0, seen = 0;
    while (fb_next_batch(l, &b, &e) == 1) {
        assert_string_equal(fb_batch_array(b, 1)->name, "yaw");
        for (int i = 0; i < fb_batch_size(b); i++, seen++) {
            int sample = (int)fb_batch_sample(b, i);
            char draw[256];
            fb_batch_draw(b, i, draw, sizeof(draw));
            bool is_flipped = strstr(draw, "\"hflip\":true") != NULL;
            const int64_t *two = (const int64_t *)fb_batch_array(b, 2)->data + 2 * i;
            assert_true(((const float *)fb_batch_array(b, 1)->data)[i] == (is_flipped ? -1.0f : 1.0f) * yaw[sample]);
            assert_int_equal(two[is_flipped], sample);
            assert_int_equal(two[!is_flipped], 1000 + sample);
            flipped += is_flipped;
        }
        fb_release_batch(b);
    }
    assert_int_equal(seen, PHOTOS);
    assert_in_range(flipped, 10, 50);
    fb_close(l);
    o.column_rows = PHOTOS - 1;
    assert_int_equal(fb_open(&o, &l, &e), FB_E_USAGE);
}

/* ---- orders given by the caller ---- */

static void a_given_order_is_followed_as_far_as_it_goes(void **state)
{
    (void)state;
    struct calls c = {0};
    fb_options o = options_with(&c, "resize size=8,8");
    o.shuffle = 0;
    o.takes_order = 1;
    o.batch_size = 4;
    struct fb_error e = {0};
    fb_loader *l;
    fb_batch *b;
    assert_int_equal(fb_open(&o, &l, &e), 0);
    for (int epoch = 0; epoch < 3; epoch++) {
        static const uint64_t first[] = {5, 5, 59, 0, 7}, second[] = {1, 2};
        assert_int_equal(fb_start_epoch(l, FB_NEXT_EPOCH, &e), epoch);
        assert_int_equal(fb_push_order(l, first, 5, 0, &e), 0);
        assert_int_equal(fb_next_batch(l, &b, &e), 1);
        for (int i = 0; i < 4; i++)
            assert_int_equal(fb_batch_sample(b, i), first[i]);
        fb_release_batch(b);
        assert_int_equal(fb_next_batch(l, &b, &e), FB_E_STATE); /* one is not a batch */
        memset(&e, 0, sizeof(e));
        assert_int_equal(fb_push_order(l, second, 2, 1, &e), 0);
        assert_int_equal(fb_next_batch(l, &b, &e), 1);
        assert_int_equal(fb_batch_size(b), 3);
        assert_int_equal(fb_batch_sample(b, 2), 2);
        fb_release_batch(b);
        assert_int_equal(fb_next_batch(l, &b, &e), 0);
        assert_int_equal(fb_push_order(l, second, 2, 1, &e), FB_E_STATE);
        memset(&e, 0, sizeof(e));
    }
    static const uint64_t beyond = PHOTOS;
    fb_start_epoch(l, FB_NEXT_EPOCH, &e);
    assert_int_equal(fb_push_order(l, &beyond, 1, 1, &e), FB_E_USAGE);
    fb_close(l);
}

static int make(void **state)
{
    (void)state;
    photo_folder_make(&photos, PHOTOS, CLASSES);
    return 0;
}

static int end(void **state)
{
    (void)state;
    photo_folder_remove(&photos);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_the_same_for_any_number_of_threads),
        cmocka_unit_test(a_function_that_does_nothing_changes_nothing),
        cmocka_unit_test(a_result_of_another_size_is_planned_anew),
        cmocka_unit_test(pixels_can_be_kept),
        cmocka_unit_test(kept_pixels_are_the_functions_own),
        cmocka_unit_test(kept_pixels_are_not_taken_for_the_result),
        cmocka_unit_test(the_last_function_may_give_floats),
        cmocka_unit_test(failures_are_bad_samples),
        cmocka_unit_test(wrong_texts_are_refused_and_the_context_is_let_go),
        cmocka_unit_test(columns_replace_the_sources_labels),
        cmocka_unit_test(a_given_order_is_followed_as_far_as_it_goes),
    };
    return cmocka_run_group_tests_name("feed_map", tests, make, end);
}
