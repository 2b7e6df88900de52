/* Samples of several files: a picture, its mask and a second view, read one after another into one place. */
#include "../tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../codec/image/jpeg_maker.h"

enum { SAMPLES = 40 };
static char manifest[600];

static void write_file(const char *path, const struct bytes *b)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->n, f), b->n);
    assert_int_equal(fclose(f), 0);
}

/* The view of a picture is the picture once more: they must come out alike, whatever happens. */
static int make_pairs(void **state)
{
    make_photos(state);
    char path[600];
    snprintf(path, sizeof(path), "%s/extra", photos.root);
    mkdir(path, 0700);
    snprintf(manifest, sizeof(manifest), "%s/list.csv", photos.root);
    FILE *list = fopen(manifest, "w");
    assert_non_null(list);
    fprintf(list, "path,mask,view,score\n");
    for (int i = 0; i < SAMPLES; i++) {
        static const struct jpeg_recipe grey = {"grey", 1, {0x11}}, colour = {"4:2:0", 3, {0x22, 0x11, 0x11}};
        struct bytes mask = jpeg_make(&grey, 40 + (uint32_t)i % 23, 36 + (uint32_t)i % 17);
        struct bytes view = jpeg_make(&colour, 40 + (uint32_t)i % 23, 36 + (uint32_t)i % 17);
        snprintf(path, sizeof(path), "%s/extra/m%d.jpg", photos.root, i);
        write_file(path, &mask);
        snprintf(path, sizeof(path), "%s/extra/v%d.jpg", photos.root, i);
        write_file(path, &view);
        snprintf(path, sizeof(path), "%s/class%d/%05d.jpg", photos.root, i % CLASSES, i);
        write_file(path, &view);
        free(mask.data);
        free(view.data);
        fprintf(list, "class%d/%05d.jpg,extra/m%d.jpg,extra/v%d.jpg,%d.5\n", i % CLASSES, i, i, i, i);
    }
    return fclose(list);
}

static fb_options pair_options(void)
{
    fb_options o = photo_options(&photos);
    o.source = manifest;
    o.fields = "view\nscore\nmask";
    o.batch_size = 7;
    return o;
}

static void assert_views_match(const fb_batch *b)
{
    const struct fb_array *image = fb_batch_array(b, 0), *view = fb_batch_array(b, 1), *score = fb_batch_array(b, 2),
                          *mask = fb_batch_array(b, 3);
    assert_int_equal(fb_batch_array_count(b), 4);
    assert_string_equal(image->name, "image");
    assert_string_equal(view->name, "view");
    assert_string_equal(score->name, "score");
    assert_string_equal(mask->name, "mask");
    assert_true(mask->dtype == FB_UINT8 && mask->ndim == 3 && mask->shape[1] == 32 && mask->shape[2] == 32);
    assert_int_equal(image->bytes, view->bytes);
    assert_memory_equal(image->data, view->data, image->bytes);
    for (int i = 0; i < fb_batch_size(b); i++) {
        const char *key = fb_batch_key(b, i); /* class0/00012.jpg */
        assert_true(((const float *)score->data)[i] == (float)atoi(strchr(key, '/') + 1) + 0.5f);
    }
}

/* An epoch whose every batch is looked into. */
static struct tally run_pairs(const fb_options *o)
{
    struct fb_error e = {0};
    struct tally t = {0};
    fb_loader *l = open_or_fail(o);
    fb_batch *b;
    int rc;
    assert_true(fb_start_epoch(l, 0, &e) >= 0);
    while ((rc = fb_next_batch(l, &b, &e)) == 1) {
        assert_views_match(b);
        count_batch(b, &t);
        fb_release_batch(b);
    }
    if (rc < 0)
        show(&e);
    assert_int_equal(rc, 0);
    fb_close(l);
    return t;
}

static void files_come_together_for_any_threads_and_reader(void **state)
{
    (void)state;
    static const char *const io[] = {"auto", "pread", "slow:latency_us=200,jitter_us=700,over=pread"};
    fb_options o = pair_options();
    struct tally want = run_pairs(&o);
    assert_each_once(&want, SAMPLES);
    for (int threads = 1; threads <= 8; threads += threads == 1 ? 1 : 6)
        for (size_t i = 0; i < sizeof(io) / sizeof(io[0]); i++) {
            o.threads = threads;
            o.io = io[i];
            struct tally t = run_pairs(&o);
            assert_true(t.digest == want.digest);
        }
}

static void a_stand_in_brings_its_own_files(void **state)
{
    (void)state;
    static const char *const faults[] = {
        "fault:error=EIO,path=extra/m7.jpg",
        "fault:error=EIO,path=extra/v9.jpg;short=90,path=extra/m3.jpg;error=ENOENT,path=class2/00002.jpg",
        "slow:latency_us=300,over=fault:error=EIO,path=extra/m1",
    };
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        uint64_t digest = 0;
        for (int threads = 1; threads <= 4; threads += 3) {
            fb_options o = pair_options();
            o.io = faults[i];
            o.on_error = FB_SKIP;
            o.threads = threads;
            struct tally t = run_pairs(&o);
            assert_int_equal(t.seen[0], 1);
            assert_true(digest == 0 || t.digest == digest);
            digest = t.digest;
        }
    }
}

static void an_error_names_the_file_and_not_only_the_sample(void **state)
{
    (void)state;
    fb_options o = pair_options();
    o.io = "fault:error=ENOENT,at=open,path=extra/m5.jpg";
    struct fb_error e = {0};
    struct tally t = {0};
    fb_loader *l = open_or_fail(&o);
    assert_true(fb_start_epoch(l, 0, &e) >= 0);
    assert_true(take(l, 100, &t, &e) < 0);
    assert_string_equal(e.path, "extra/m5.jpg");
    assert_non_null(strstr(e.cause, "the mask of class1/00005.jpg"));
    assert_true(e.sample >= 0);
    fb_close(l);
}

static void closing_in_the_middle_of_a_sample_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        fb_options o = pair_options();
        o.io = i % 2 ? "slow:latency_us=900,over=pread" : "fault:hang,path=extra/m1;over=pread";
        struct fb_error e = {0};
        struct tally t = {0};
        fb_loader *l = open_or_fail(&o);
        assert_true(fb_start_epoch(l, 0, &e) >= 0);
        if (i % 2)
            take(l, i / 4, &t, &e);
        else
            usleep(2000u * (unsigned)i);
        fb_close(l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_come_together_for_any_threads_and_reader),
        cmocka_unit_test(a_stand_in_brings_its_own_files),
        cmocka_unit_test(an_error_names_the_file_and_not_only_the_sample),
        cmocka_unit_test(closing_in_the_middle_of_a_sample_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, make_pairs, remove_photos);
}
