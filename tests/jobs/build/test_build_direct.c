/* Writing past the page cache gives the same file as the usual way, wherever writes begin and end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <signal.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "jobs/build/build_internal.h"

enum { FILE_BYTES = 3 << 20, PIECES = 200, EXT4 = 0xef53, XFS = 0x58465342 };

struct file {
    char folder[64];
    int dir_fd, fd;
    struct build_direct direct;
    uint8_t *bytes; /* what it should hold; begins at a page */
};

static void open_file(struct file *f, const char *where)
{
    snprintf(f->folder, sizeof(f->folder), "%s/fullbore-direct-XXXXXX", where);
    assert_non_null(mkdtemp(f->folder));
    f->dir_fd = open(f->folder, O_RDONLY | O_DIRECTORY);
    f->fd = openat(f->dir_fd, "out", O_RDWR | O_CREAT, 0600);
    assert_true(f->fd >= 0);
    build_direct_open(&f->direct, f->fd, f->dir_fd, "out");
    f->bytes = aligned_alloc(BUILD_PAGE, FILE_BYTES);
    assert_non_null(f->bytes);
    for (size_t i = 0; i < FILE_BYTES; i++)
        f->bytes[i] = (uint8_t)(i * 2654435761u >> 13);
}

static void close_file(struct file *f)
{
    build_direct_close(&f->direct);
    unlinkat(f->dir_fd, "out", 0);
    close(f->fd);
    close(f->dir_fd);
    rmdir(f->folder);
    free(f->bytes);
}

static void assert_whole(struct file *f)
{
    uint8_t *there = malloc(FILE_BYTES);
    assert_int_equal(pread(f->fd, there, FILE_BYTES, 0), FILE_BYTES);
    assert_memory_equal(there, f->bytes, FILE_BYTES);
    free(there);
}

/* All of the file, in pieces that end at multiples of `unit`, those at odd places first. */
static void write_in_pieces(struct file *f, uint64_t seed, uint64_t unit)
{
    struct rng rng = rng_stream(RNG_ORDER, seed, 0, 0, 0);
    uint64_t at[PIECES + 1] = {0};
    int n = 0;
    while (at[n] < FILE_BYTES && n < PIECES) {
        uint64_t end = (at[n] + unit + rng_below(&rng, 300000)) / unit * unit;
        n++;
        at[n] = end < FILE_BYTES && n < PIECES ? end : FILE_BYTES;
    }
    for (int turn = 1; turn >= 0; turn--)
        for (int i = turn; i < n; i += 2)
            assert_int_equal(build_direct_write(&f->direct, f->bytes + at[i], at[i + 1] - at[i], at[i], NULL), 0);
}

static void every_way_to_cut_a_file_gives_that_file(void **state)
{
    (void)state;
    static const char *const where[] = {"/var/tmp", "/dev/shm"};
    static const uint64_t unit[] = {4096, 512, 24064, 1};
    for (int w = 0; w < 2; w++)
        for (int u = 0; u < 4; u++)
            for (uint64_t seed = 0; seed < 5; seed++) {
                struct file f;
                if (access(where[w], W_OK) != 0)
                    continue;
                open_file(&f, where[w]);
                write_in_pieces(&f, seed, unit[u]);
                assert_whole(&f);
                close_file(&f);
            }
}

static bool has_disk(const char *where)
{
    struct statfs fs;
    return statfs(where, &fs) == 0 && (fs.f_type == EXT4 || fs.f_type == XFS);
}

/* Without this, nothing that is said here about direct writing would be about it. */
static void disks_are_written_directly(void **state)
{
    (void)state;
    struct file f;
    if (!has_disk("/var/tmp")) {
        print_message("/var/tmp is on neither ext4 nor XFS\n");
        skip();
    }
    open_file(&f, "/var/tmp");
    assert_true(build_direct_is_on(&f.direct));
    write_in_pieces(&f, 1, BUILD_PAGE);
    assert_true(build_direct_is_on(&f.direct)); /* and took it */
    assert_whole(&f);
    close_file(&f);
}

/* The plan's side of it: which rows come in pieces that can be written so. */
static void pieces_are_direct_if_they_begin_at_sectors(void **state)
{
    (void)state;
    static const struct {
        uint64_t row_bytes, task_rows, chunk_rows;
        int deflate;
        bool is_segmented, is_direct;
    } each[] = {
        {65536, 16, 0, 0, false, true},   {65536, 16, 0, 0, true, true},
        {12032, 64, 0, 0, false, true}, /* no sectors, but tasks of 188 pages */
        {12032, 64, 0, 0, true, false}, /* how many rows a recording gives is not known */
        {12032, 63, 0, 0, false, false},  {12000, 87, 0, 0, false, false},
        {65536, 16, 16, 0, false, false}, {65536, 16, 16, 4, false, false},
        {512, 4, 0, 0, false, false}, /* smaller than what is worth it */
    };
    for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
        struct build_request q = {.deflate = each[i].deflate};
        struct build_plan p = {.q = &q,
                               .row_bytes = each[i].row_bytes,
                               .task_rows = each[i].task_rows,
                               .chunk_rows = each[i].chunk_rows,
                               .is_segmented = each[i].is_segmented};
        if (build_has_direct_pieces(&p) != each[i].is_direct)
            fail_msg("case %zu", i);
    }
}

/* The file's side of it: what is not worth it goes the usual way, all of it. */
static void other_files_are_written_the_usual_way(void **state)
{
    (void)state;
    char folder[] = "/var/tmp/fullbore-direct-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/a.h5", folder);
    for (int deflate = 0; deflate < 2; deflate++) {
        struct build_request q = {.output = path, .deflate = deflate};
        struct build_plan p = {.q = &q, .row_bytes = 65536, .task_rows = 16, .chunk_rows = deflate ? 16 : 0};
        struct build_files f = {.dir_fd = -1, .data_fd = -1, .journal_fd = -1, .direct.fd = -1};
        assert_int_equal(build_files_open(&f, &p, NULL), 0);
        assert_int_equal(build_direct_is_on(&f.direct), has_disk("/var/tmp") && !deflate);
        build_files_close(&f, false);
    }
    assert_int_equal(rmdir(folder), 0);
}

static void another_file_of_that_name_is_not_written(void **state)
{
    (void)state;
    struct file f;
    struct build_direct other;
    open_file(&f, "/var/tmp");
    int fd = openat(f.dir_fd, "other", O_RDWR | O_CREAT, 0600);
    build_direct_open(&other, fd, f.dir_fd, "out");
    assert_false(build_direct_is_on(&other));
    build_direct_close(&other);
    unlinkat(f.dir_fd, "other", 0);
    close(fd);
    close_file(&f);
}

/* What the disk refuses goes the usual way, and what fails there is told. */
static void a_full_disk_is_told(void **state)
{
    (void)state;
    struct file f;
    struct fb_error e = {0};
    struct rlimit before, small = {1 << 20, RLIM_INFINITY};
    open_file(&f, "/var/tmp");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = build_direct_write(&f.direct, f.bytes, FILE_BYTES, 0, &e);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(rc, FB_E_IO);
    assert_int_equal(e.sys_errno, 27); /* EFBIG */
    close_file(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_to_cut_a_file_gives_that_file),    cmocka_unit_test(disks_are_written_directly),
        cmocka_unit_test(pieces_are_direct_if_they_begin_at_sectors), cmocka_unit_test(other_files_are_written_the_usual_way),
        cmocka_unit_test(another_file_of_that_name_is_not_written),   cmocka_unit_test(a_full_disk_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
