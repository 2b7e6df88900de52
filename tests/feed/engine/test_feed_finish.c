/* The hook `finish` of load_ops.h: once for each batch, when its last place is filled and before anybody can take it, for every kind of
 * load, also when the last place has a stand-in. The kinds' tables are replaced by copies whose hook looks and counts. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "feed/load_ops.h"
#include "../tally.h"

enum { FILES = 12, BATCH = 4, BATCHES = FILES / BATCH, WIDTH = 4, FRAMES = 32 };

static _Atomic int finished[BATCHES], premature;
static const struct load_ops *real;
static struct load_ops counted;

static void count_finish(struct feed *f, struct slot *s)
{
    if (s->state != SLOT_FILLING || atomic_load(&s->remaining) || s->batch >= BATCHES)
        atomic_fetch_add(&premature, 1);
    else if (s->epoch == 0) /* later ones are made ahead */
        atomic_fetch_add(&finished[s->batch], 1);
    if (real->finish)
        real->finish(f, s);
}

/* An epoch in the order of the files. If every third of them is bad, the second batch has a stand-in in its last place. */
static void check_epoch(const fb_options *o, const char *kind, bool has_bad)
{
    fb_loader *l = open_or_fail(o);
    struct feed *f = (struct feed *)l;
    struct fb_error e = {0};
    int batches = 0;
    assert_string_equal(f->kind->name, kind);
    memset(finished, 0, sizeof(finished));
    real = f->kind;
    counted = *real;
    counted.finish = count_finish;
    f->kind = &counted; /* nothing is planned before the first epoch */
    assert_int_equal(fb_start_epoch(l, 0, &e), 0);
    for (fb_batch *b; fb_next_batch(l, &b, &e) == 1; batches++) {
        assert_int_equal(atomic_load(&finished[batches]), 1);
        assert_int_equal(fb_batch_sample(b, BATCH - 1) % 3 == 1, batches == 1 && !has_bad);
        fb_release_batch(b);
    }
    if (e.code)
        show(&e);
    assert_int_equal(batches, BATCHES);
    fb_close(l);
    for (int i = 0; i < BATCHES; i++)
        assert_int_equal(finished[i], 1);
    assert_int_equal(premature, 0);
}

static void check_threads(fb_options o, const char *kind, bool has_bad)
{
    o.batch_size = BATCH;
    o.shuffle = 0;
    o.on_error = FB_SKIP;
    for (o.threads = 1; o.threads <= 4; o.threads++)
        check_epoch(&o, kind, has_bad);
}

/* ---- files of each kind ---- */

static void write_file(const struct photo_folder *p, const char *name, const void *head, size_t head_bytes, size_t more)
{
    char path[400], numbers[64] = {0};
    snprintf(path, sizeof(path), "%s/%s", p->root, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, head, head_bytes) == (ssize_t)head_bytes && write(fd, numbers, more) == (ssize_t)more);
    close(fd);
}

static void write_npy(const struct photo_folder *p, const char *name, int rows)
{
    char head[128];
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    snprintf(head + 10, 118, "%-117s", "");
    int n = snprintf(head + 10, 118, "{'descr': '|u1', 'fortran_order': False, 'shape': (%d, %d), }", rows, WIDTH);
    head[10 + n] = ' ';
    head[127] = '\n';
    write_file(p, name, head, sizeof(head), (size_t)rows * WIDTH);
}

static void write_wav(const struct photo_folder *p, const char *name)
{
    static const uint8_t head[] = "RIFF\x64\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\x40\0\0";
    write_file(p, name, head, sizeof(head), FRAMES * 2); /* with the 0 at its end */
}

/* Every third file is no array and no sound. */
static fb_options make_files(struct photo_folder *p, bool is_sound)
{
    photo_folder_make(p, 0, 1);
    mkdir(p->root, 0700);
    for (int i = 0; i < FILES; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%02d.%s", i, is_sound ? "wav" : "npy");
        if (i % 3 == 1)
            write_file(p, name, "no", 2, 0);
        else if (is_sound)
            write_wav(p, name);
        else
            write_npy(p, name, 1 << i % 5);
    }
    fb_options o = photo_options(p);
    o.transforms = NULL;
    o.dtype = 0;
    return o;
}

/* ---- */

static void images_finish_once(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, FILES, 1);
    check_threads(photo_options(&p), "image", false);
    for (int i = 1; i < FILES; i += 3)
        photo_folder_spoil(&p, i, 1, "no", 2);
    check_threads(photo_options(&p), "image", true);
    photo_folder_remove(&p);
}

static void recordings_finish_once(void **state)
{
    (void)state;
    struct photo_folder p;
    fb_options o = make_files(&p, true);
    o.transforms = "crop_or_pad samples=20";
    check_threads(o, "file", true);
    photo_folder_remove(&p);
}

static void bags_finish_once(void **state)
{
    (void)state;
    struct photo_folder p;
    fb_options o = make_files(&p, false);
    o.transforms = "sample_instances count=3";
    check_threads(o, "file", true);
    o.transforms = NULL;
    for (o.collate = FB_COLLATE_PAD; o.collate <= FB_COLLATE_RAGGED; o.collate++)
        check_threads(o, "file", true);
    photo_folder_remove(&p);
}

static void rows_finish_once(void **state)
{
    (void)state;
    struct photo_folder p;
    char path[400];
    fb_options o = make_files(&p, false);
    snprintf(path, sizeof(path), "%s/00.npy", p.root);
    write_npy(&p, "00.npy", FILES);
    o.source = path;
    o.sample = FB_SAMPLE_ROW;
    check_threads(o, "row", false);
    photo_folder_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_finish_once),
        cmocka_unit_test(recordings_finish_once),
        cmocka_unit_test(bags_finish_once),
        cmocka_unit_test(rows_finish_once),
    };
    return run_photo_tests(tests);
}
