/* The job itself, by what it tells its caller on the way and what it asks of the system. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jobs/build/build_crew.h"
#include "model/hdf5/hdf5_adopt.h"

enum { FILES = 300, SAMPLES = 16000, LONG_SAMPLES = 160000, ROW_BYTES = 65536, PIECE_ROWS = 16, PIECE = PIECE_ROWS * ROW_BYTES };

/* ---- the system, as the job sees it ---- */

static _Atomic bool is_second_piece_refused, was_refused, is_reading_slow;
static uint64_t synced_until, synced_again;

static void nap(long milliseconds)
{
    nanosleep(&(struct timespec){.tv_nsec = milliseconds * 1000000}, NULL);
}

/* The second piece of the file finds the disk full; the first one arrives only when that is known. */
ssize_t pwrite(int fd, const void *data, size_t n, off_t offset)
{
    bool is_piece = is_second_piece_refused && n >= PIECE;
    if (is_piece && offset >= HDF5_ADOPT_FIRST + PIECE) {
        was_refused = true;
        errno = ENOSPC;
        return -1;
    }
    for (int i = 0; is_piece && !was_refused && i < 500; i++)
        nap(10);
    if (is_piece)
        nap(100);
    return syscall(SYS_pwrite64, fd, data, n, offset);
}

ssize_t pread(int fd, void *data, size_t n, off_t offset)
{
    if (is_reading_slow)
        nap(1);
    return syscall(SYS_pread64, fd, data, n, offset);
}

int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags);
int sync_file_range(int fd, off64_t offset, off64_t n, unsigned flags)
{
    (void)fd, (void)flags;
    synced_again += (uint64_t)offset < synced_until;
    synced_until = (uint64_t)(offset + n);
    return 0;
}

/* ---- recordings ---- */

static char root[] = "/tmp/fullbore-build-XXXXXX";

static const char *path_of(const char *format, int i)
{
    static char path[2][128];
    static int which;
    char name[64];
    snprintf(name, sizeof(name), format, i);
    snprintf(path[which ^= 1], sizeof(path[0]), "%s/%s", root, name);
    return path[which];
}

static void put_wav(const char *path, uint32_t samples)
{
    static int16_t sound[LONG_SAMPLES];
    uint32_t bytes = samples * 2, riff = 36 + bytes, sixteen = 16, rate = 16000, rate_bytes = 32000;
    uint16_t one = 1, two = 2, bits = 16;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (uint32_t i = 0; i < samples; i++)
        sound[i] = (int16_t)(i * 37 % 4001);
    fwrite("RIFF", 4, 1, f), fwrite(&riff, 4, 1, f), fwrite("WAVEfmt ", 8, 1, f), fwrite(&sixteen, 4, 1, f);
    fwrite(&one, 2, 1, f), fwrite(&one, 2, 1, f), fwrite(&rate, 4, 1, f), fwrite(&rate_bytes, 4, 1, f);
    fwrite(&two, 2, 1, f), fwrite(&bits, 2, 1, f), fwrite("data", 4, 1, f), fwrite(&bytes, 4, 1, f);
    fwrite(sound, 2, samples, f);
    assert_int_equal(fclose(f), 0);
}

static void remember(void *ctx, const struct build_progress *p)
{
    struct build_progress *last = ctx;
    assert_true(p->files >= p->files_before && p->files <= p->files_total);
    *last = *p;
}

/* The program that makes the file may not be beside a test: then everything else is done. */
static int run(const char *folder, struct build_request q, struct build_result *r)
{
    static char source[128], output[128], catalogs[128];
    struct fb_error e = {0};
    snprintf(source, sizeof(source), "%s/%s", root, folder);
    snprintf(output, sizeof(output), "%s/a.h5", root);
    snprintf(catalogs, sizeof(catalogs), "%s/catalogs", root);
    int threads = q.options.threads;
    uint64_t memory = q.options.memory;
    fb_init_options(&q.options);
    q.options.source = source;
    q.options.catalog_dir = catalogs;
    q.options.threads = threads;
    q.options.memory = memory;
    q.output = output;
    q.dtype = FB_FLOAT32;
    q.overwrites = true;
    int rc = build_run(&q, r, &e);
    build_result_free(r);
    return rc == FB_E_UNSUPPORTED ? 0 : rc;
}

static int build(bool resumes, struct build_progress *last)
{
    struct build_result r;
    return run(
        "s",
        (struct build_request){.length = {.samples = SAMPLES}, .resumes = resumes, .progress = remember, .ctx = last, .options.threads = 1},
        &r);
}

/* A rate is of files and seconds of one run. */
static void files_of_an_earlier_run_are_told_apart(void **state)
{
    (void)state;
    struct build_progress last = {0};
    for (int i = 0; i < FILES; i++)
        put_wav(path_of("s/%04d.wav", i), i == FILES - 1 ? 0 : SAMPLES);
    assert_int_equal(build(false, &last), FB_E_DATA);
    assert_int_equal(last.files_before, 0);
    put_wav(path_of("s/%04d.wav", FILES - 1), SAMPLES);
    assert_int_equal(build(true, &last), 0);
    assert_int_equal(last.files, FILES);
    assert_true(last.files_before > 0 && last.files_before < FILES); /* how many had come to the journal is a matter of time */
}

/* Nor what comes behind it: the journal speaks of rows that are there. */
static void a_piece_that_could_not_be_written_is_not_noted(void **state)
{
    (void)state;
    struct build_result r;
    struct build_request q = {.is_raw = true, .length = {.samples = ROW_BYTES / 4}, .options.threads = 2};
    is_second_piece_refused = true;
    int rc = run("s", q, &r);
    is_second_piece_refused = false;
    assert_int_equal(rc, FB_E_IO);
    assert_true(was_refused);
    assert_int_equal(r.rows, PIECE_ROWS);
    q.resumes = true;
    assert_int_equal(run("s", q, &r), 0);
    assert_int_equal(r.resumed_rows, PIECE_ROWS);
}

/* Deflated chunks have no place before they are full and deflated, which must not look like the beginning of the file. */
static void nothing_is_written_back_twice(void **state)
{
    (void)state;
    struct build_result r;
    struct build_request q = {.segment = {.samples = 1600}, .deflate = 1, .chunk_rows = 64, .options.threads = 2};
    synced_until = synced_again = 0;
    is_reading_slow = true;
    int rc = run("s", q, &r);
    is_reading_slow = false;
    assert_int_equal(rc, 0);
    assert_true(synced_until > 0);
    assert_int_equal(synced_again, 0);
}

/* Each is too large for a usual task, which is found when it is looked at first. */
static void one_that_waits_for_room_is_one_task_and_named_once(void **state)
{
    (void)state;
    struct build_result r;
    struct build_request q = {
        .is_raw = true, .segment = {.samples = 1600}, .stride = {.samples = 200}, .options.threads = 1, .options.memory = 32 << 20};
    for (int i = 0; i < 4; i++)
        put_wav(path_of("long/%d.wav", i), LONG_SAMPLES);
    assert_int_equal(run("long", q, &r), 0);
    assert_int_equal(r.split[0].files, 4);
    assert_int_equal(r.split[0].batches, 4);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_string_not_equal(r.slow[i].key, r.slow[k].key);
    assert_int_equal(r.slow[4].key[0], 0);
}

static struct build_task *task_of(struct build_crew *c, size_t bytes)
{
    struct build_task *t = calloc(1, sizeof(*t));
    assert_non_null(t);
    t->users = 1;
    t->data.budget = t->row.budget = &c->budget;
    assert_true(bytes == 0 || scratch_need(&t->data, bytes, NULL));
    return t;
}

/* Those split off come on top of the limit while they wait; memory for rows does not. */
static void no_more_tasks_keep_memory_than_the_plan_has_for_them(void **state)
{
    (void)state;
    struct build_plan p = {.task_limit = 2};
    struct build_crew c = {.p = &p, .tasks = 3};
    atomic_store(&c.budget.limit, UINT64_MAX / 2);
    build_release_task(&c, task_of(&c, 1 << 20));
    assert_int_equal(c.tasks, 2);
    assert_int_equal(atomic_load(&c.budget.used), 0);
    struct build_task *kept = task_of(&c, 1 << 20);
    build_release_task(&c, kept);
    assert_ptr_equal(c.spare_task, kept);
    build_release_task(&c, task_of(&c, 0)); /* one without rows does not hide it */
    assert_ptr_equal(c.spare_task, kept);
    assert_null(kept->next);
    scratch_free(&kept->data);
    free(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_an_earlier_run_are_told_apart),
        cmocka_unit_test(a_piece_that_could_not_be_written_is_not_noted),
        cmocka_unit_test(nothing_is_written_back_twice),
        cmocka_unit_test(one_that_waits_for_room_is_one_task_and_named_once),
        cmocka_unit_test(no_more_tasks_keep_memory_than_the_plan_has_for_them),
    };
    if (!mkdtemp(root) || mkdir(path_of("s", 0), 0777) < 0 || mkdir(path_of("long", 0), 0777) < 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[200];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) == 0 ? failed : 1;
}
