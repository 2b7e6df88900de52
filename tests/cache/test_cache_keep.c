/* What is kept, and that nothing is served but what the source has. */
#include "cache_fixture.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct choice plain = {.is_unknown = true};

/* ---- serving ---- */

static void a_second_read_comes_from_the_disk_also_after_a_restart(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 5, FILE_BYTES);
    source_open(&s, &plain);
    read_all(&s);
    assert_int_equal(figures(&s).misses, 5);
    WAIT_FOR(figures(&s).stored == 5);
    read_all(&s);
    assert_int_equal(figures(&s).disk_hits, 5);
    source_close(&s);
    source_open(&s, &plain);
    read_all(&s);
    struct cache_figures f = figures(&s);
    assert_int_equal(f.disk_hits, 5);
    assert_int_equal(f.misses, 0);
    assert_int_equal(f.disk_hit_bytes, 5 * FILE_BYTES);
    source_close(&s);
    source_remove(&s);
}

static void a_second_read_comes_from_memory(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 5, FILE_BYTES);
    source_open(&s, &(struct choice){.no_disk = true, .ram_limit = 1 << 20});
    read_all(&s);
    WAIT_FOR(figures(&s).ram_bytes >= 5 * FILE_BYTES);
    read_all(&s);
    assert_int_equal(figures(&s).ram_hits, 5);
    assert_int_equal(figures(&s).misses, 5);
    assert_true(s.budget.used_by[MEMORY_CACHE] >= 5 * FILE_BYTES);
    source_close(&s);
    source_remove(&s);
}

static void what_lies_on_disk_is_raised_to_memory(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 5, FILE_BYTES);
    source_open(&s, &plain);
    read_all(&s);
    source_close(&s); /* stores what waits */
    source_open(&s, &(struct choice){.is_unknown = true, .ram_limit = 1 << 20});
    read_all(&s);
    read_all(&s);
    assert_int_equal(figures(&s).disk_hits, 5);
    assert_int_equal(figures(&s).ram_hits, 5);
    source_close(&s);
    source_remove(&s);
}

static void a_full_memory_tier_stays_as_it_is(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 40, FILE_BYTES);
    source_open(&s, &(struct choice){.no_disk = true, .ram_limit = 10 * (FILE_BYTES + 512)});
    for (uint64_t epoch = 0; epoch < 4; epoch++)
        for (uint64_t p = 0; p < s.count; p++) {
            move_to(&s, epoch, p);
            read_file(&s, index_at(&s, epoch, p));
            if (epoch == 0 && p < 10) /* the copy is kept after the request was answered */
                WAIT_FOR(figures(&s).ram_bytes >= (p + 1) * FILE_BYTES);
        }
    struct cache_figures f = figures(&s);
    assert_int_equal(f.ram_hits, 3 * 10); /* hit rate = cache / data, in every epoch but the first */
    assert_int_equal(f.misses, 40 + 3 * 30);
    assert_true(f.ram_bytes <= f.ram_limit);
    source_close(&s);
    source_remove(&s);
}

static void a_worker_gets_it_without_waiting(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 3, FILE_BYTES);
    source_open(&s, &plain);
    struct call c;
    call_init(&c, &s.folder, s.name[0], FILE_BYTES);
    assert_int_equal(s.io->ops->try_now(s.io, &c.r), IO_BLOCKED);
    read_file(&s, 0);
    WAIT_FOR(figures(&s).stored == 1);
    int rc = s.io->ops->try_now(s.io, &c.r);
    if (rc == IO_BLOCKED)
        print_message("skipped: this kernel or file system cannot tell without blocking\n");
    else
        call_assert_bytes(&c, s.name[0], 0, FILE_BYTES);
    call_free(&c);
    source_close(&s);
    source_remove(&s);
}

static void a_worker_never_waits_to_be_told_what_a_file_is(void **state)
{
    (void)state;
    struct source s;
    struct call c;
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "slow:ask_us=1000", .is_unknown = true});
    read_file(&s, 0);
    WAIT_FOR(figures(&s).stored == 1);
    call_init(&c, &s.folder, s.name[0], FILE_BYTES);
    assert_int_equal(s.io->ops->try_now(s.io, &c.r), IO_BLOCKED);
    call_free(&c);
    read_file(&s, 0); /* others do */
    assert_int_equal(figures(&s).disk_hits, 1);
    source_close(&s);
    source_remove(&s);
}

static void read_part(struct source *s, uint64_t offset, uint64_t length, uint64_t expected)
{
    struct call c;
    call_init(&c, &s->folder, s->name[0], length);
    c.r.offset = offset;
    c.r.length = length;
    assert_int_equal(call_run(s->io, &c), 0);
    call_assert_bytes(&c, s->name[0], offset, expected);
    assert_int_equal(c.r.object_size, s->file_bytes);
    call_free(&c);
}

static void a_part_comes_from_the_entry_of_the_whole(void **state)
{
    (void)state;
    struct source s;
    uint64_t size = 3 * 65536 + 1234;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        source_make(&s, 1, size);
        source_open(&s, &(struct choice){.is_unknown = true, .no_disk = in_memory, .ram_limit = in_memory ? 1 << 20 : 0});
        read_part(&s, 10, 20, 20); /* missing: the whole is fetched, and kept */
        WAIT_FOR(in_memory ? figures(&s).ram_bytes > 0 : figures(&s).stored == 1);
        read_part(&s, 0, 100, 100);
        read_part(&s, 65530, 12, 12);
        read_part(&s, 65536, 65536, 65536);
        read_part(&s, 1000, 150000, 150000);
        read_part(&s, size - 7, 7, 7);
        read_part(&s, size - 7, 100, 7);
        read_part(&s, 0, size, size);
        read_file(&s, 0);
        assert_int_equal(figures(&s).misses, 1);
        assert_int_equal(figures(&s).disk_hits + figures(&s).ram_hits, 8);
        source_close(&s);
        source_remove(&s);
    }
}

static void an_empty_file_is_kept_too(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 2, 0);
    source_open(&s, &plain);
    read_all(&s);
    WAIT_FOR(figures(&s).stored == 2);
    read_all(&s);
    assert_int_equal(figures(&s).disk_hits, 2);
    source_close(&s);
    source_remove(&s);
}

static void folders_and_files_are_the_owners_alone(void **state)
{
    (void)state;
    struct source s;
    struct stat st;
    char path[256];
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &plain);
    read_all(&s);
    source_close(&s);
    assert_true(find_entry(&s, 0, path, sizeof(path)));
    for (int i = 0; i < 4; i++) {
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, i == 0 ? 0600 : 0700);
        *strrchr(path, '/') = 0;
    }
    source_remove(&s);
}

/* ---- damage ---- */

static void flip(const char *path, off_t at, int bit)
{
    uint8_t byte;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= (uint8_t)(1 << bit);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

static off_t size_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* One file in the cache, its entry's path, damaged by `harm`, must be read from the source again, right, and then be whole again. */
static void survive(void (*harm)(const char *path, int64_t how), int64_t how)
{
    struct source s;
    char path[256];
    source_make(&s, 1, 70000);
    source_open(&s, &plain);
    read_all(&s);
    source_close(&s);
    assert_true(find_entry(&s, 0, path, sizeof(path)));
    harm(path, how);
    source_open(&s, &plain);
    read_all(&s);
    struct cache_figures f = figures(&s);
    if (f.disk_hits != 0 || f.misses != 1)
        fail_msg("damage %lld was served", (long long)how);
    WAIT_FOR(figures(&s).stored == 1);
    read_all(&s);
    assert_int_equal(figures(&s).disk_hits, 1);
    source_close(&s);
    source_open(&s, &plain); /* a cache that met damage is counted anew */
    source_close(&s);
    struct stock k = take_stock(s.dir);
    assert_int_equal(k.counted, k.bytes);
    source_remove(&s);
}

static void harm_flip(const char *path, int64_t how)
{
    flip(path, (off_t)(how * (size_of(path) - 1) / 96), (int)(how % 8));
}

static void a_flipped_bit_is_found_and_read_again(void **state)
{
    (void)state;
    for (int64_t i = 0; i <= 96; i++)
        survive(harm_flip, i);
}

/* Where the head lies: every byte of it. */
static void every_byte_of_the_head_counts(void **state)
{
    (void)state;
    struct source s;
    char path[256];
    source_make(&s, 1, 100);
    source_open(&s, &plain);
    read_all(&s);
    source_close(&s);
    assert_true(find_entry(&s, 0, path, sizeof(path)));
    off_t head = size_of(path) - 100;
    for (off_t at = 0; at < head + 100; at++) {
        flip(path, at, (int)(at % 8));
        source_open(&s, &plain);
        read_all(&s);
        if (figures(&s).disk_hits != 0)
            fail_msg("byte %lld of the entry does not count", (long long)at);
        source_close(&s);
    }
    source_remove(&s);
}

static void harm_cut(const char *path, int64_t how)
{
    assert_int_equal(truncate(path, (off_t)(how * (size_of(path) - 1) / 24)), 0);
}

static void a_truncated_entry_is_found_and_read_again(void **state)
{
    (void)state;
    for (int64_t i = 0; i <= 24; i++)
        survive(harm_cut, i);
}

static void harm_lengthen(const char *path, int64_t how)
{
    assert_int_equal(truncate(path, size_of(path) + (off_t)how), 0);
}

static void an_entry_that_is_too_long_is_refused(void **state)
{
    (void)state;
    survive(harm_lengthen, 1);
    survive(harm_lengthen, 100000);
}

static void an_entry_under_another_name_is_refused(void **state)
{
    (void)state;
    struct source s;
    char a[256], b[256];
    source_make(&s, 2, FILE_BYTES);
    source_open(&s, &plain);
    read_all(&s);
    source_close(&s);
    assert_true(find_entry(&s, 0, a, sizeof(a)));
    assert_true(find_entry(&s, 1, b, sizeof(b)));
    assert_int_equal(rename(a, b), 0);
    source_open(&s, &plain);
    read_all(&s);
    assert_int_equal(figures(&s).disk_hits, 0);
    source_close(&s);
    source_remove(&s);
}

/* ---- identity ---- */

static void a_changed_source_is_never_served_from_a_cache(void **state)
{
    (void)state;
    struct source s;
    for (int in_memory = 0; in_memory < 2; in_memory++) {
        source_make(&s, 2, FILE_BYTES);
        source_open(&s, &(struct choice){.is_unknown = true, .no_disk = in_memory, .ram_limit = in_memory ? 1 << 20 : 0});
        read_all(&s);
        WAIT_FOR(in_memory ? figures(&s).ram_bytes > 2 * FILE_BYTES : figures(&s).stored == 2);
        rewrite(&s, 0, "x00", 1000000001); /* same size, a second later */
        struct call c;
        call_init(&c, &s.folder, s.name[0], FILE_BYTES);
        assert_int_equal(call_run(s.io, &c), 0);
        call_assert_bytes(&c, "x00", 0, FILE_BYTES);
        WAIT_FOR(in_memory ? figures(&s).ram_bytes > 2 * FILE_BYTES : figures(&s).stored == 3);
        uint64_t misses = figures(&s).misses;
        assert_int_equal(call_run(s.io, &c), 0); /* and the new one is kept in its place */
        call_assert_bytes(&c, "x00", 0, FILE_BYTES);
        assert_int_equal(figures(&s).misses, misses);
        assert_true(figures(&s).changed >= 1);
        call_free(&c);
        read_file(&s, 1);
        assert_int_equal(figures(&s).misses, misses);
        source_close(&s);
        if (!in_memory)
            assert_int_equal(take_stock(s.dir).counted, take_stock(s.dir).bytes);
        source_remove(&s);
    }
}

static void a_file_that_changed_a_moment_ago_is_not_kept(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 1, FILE_BYTES);
    assert_int_equal(utimensat(s.folder.fd, s.name[0], NULL, 0), 0);
    source_open(&s, &(struct choice){.is_unknown = true, .ram_limit = 1 << 20});
    read_all(&s);
    read_all(&s);
    assert_int_equal(figures(&s).misses, 2);
    source_close(&s);
    assert_int_equal(take_stock(s.dir).entries, 0);
    assert_int_equal(take_stock(s.dir).parts, 0);
    source_remove(&s);
}

static void a_missing_file_fails_as_without_a_cache(void **state)
{
    (void)state;
    struct source s;
    struct call c;
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &plain);
    read_all(&s);
    WAIT_FOR(figures(&s).stored == 1);
    assert_int_equal(unlinkat(s.folder.fd, s.name[0], 0), 0);
    call_init(&c, &s.folder, s.name[0], FILE_BYTES);
    assert_int_equal(call_run(s.io, &c), FB_E_NOT_FOUND);
    assert_int_equal(c.error.sys_errno, 2);
    call_free(&c);
    source_close(&s);
    source_remove(&s);
}

static void a_file_that_grew_is_answered_as_without_a_cache(void **state)
{
    (void)state;
    struct source s;
    struct call c;
    source_make(&s, 1, FILE_BYTES);
    source_open(&s, &plain);
    s.file_bytes = 100; /* what the catalog believes */
    call_init(&c, &s.folder, s.name[0], 100);
    assert_int_equal(call_run(s.io, &c), IO_GREW);
    assert_int_equal(c.r.object_size, FILE_BYTES);
    call_free(&c);
    s.file_bytes = FILE_BYTES;
    read_file(&s, 0);
    WAIT_FOR(figures(&s).stored == 1);
    read_file(&s, 0);
    assert_int_equal(figures(&s).disk_hits, 1);
    source_close(&s);
    source_remove(&s);
}

/* ---- a disk that fails ---- */

/* Reading /proc/self/mem at 0 is EIO: the only device that fails at a place of one's choice without special modules. */
static void a_disk_that_fails_to_read_costs_one_warning(void **state)
{
    (void)state;
    struct source s;
    char path[256];
    source_make(&s, 3, FILE_BYTES);
    source_open(&s, &plain);
    read_all(&s);
    source_close(&s);
    assert_true(find_entry(&s, 1, path, sizeof(path)));
    if (mount("/proc/self/mem", path, NULL, MS_BIND, NULL) < 0) {
        print_message("skipped: mounting needs root\n");
        source_remove(&s);
        skip();
    }
    source_open(&s, &plain);
    read_all(&s);
    read_all(&s);
    struct cache_figures f = figures(&s);
    source_close(&s);
    umount(path);
    assert_int_equal(s.warnings, 1);
    assert_non_null(strstr(s.warned, "Input/output error"));
    assert_true(f.is_off);
    assert_int_equal(f.disk_hits, 1); /* the first, before it failed */
    source_remove(&s);
}

static void a_folder_that_is_not_ours_is_refused(void **state)
{
    (void)state;
    struct source s;
    struct fb_error e;
    char path[128];
    source_make(&s, 1, FILE_BYTES);
    assert_int_equal(mkdir(s.dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/thesis.tex", s.dir);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(source_try_open(&s, &plain, &e), FB_E_USAGE);
    assert_non_null(strstr(e.cause, "other files"));
    assert_int_equal(access(path, F_OK), 0);
    unlink(path);
    assert_int_equal(chmod(s.dir, 0777), 0);
    assert_int_equal(source_try_open(&s, &plain, &e), FB_E_USAGE);
    assert_non_null(strstr(e.cause, "other users"));
    assert_int_equal(chmod(s.dir, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(s.dir, 65534, 65534), 0);
        assert_int_equal(source_try_open(&s, &plain, &e), FB_E_USAGE);
        assert_non_null(strstr(e.cause, "another user"));
        assert_int_equal(chown(s.dir, 0, 0), 0);
    }
    source_open(&s, &plain);
    source_close(&s);
    assert_int_equal(source_try_open(&s, &(struct choice){.dir = "/proc/no-such/place"}, &e), FB_E_NOT_FOUND);
    source_remove(&s);
}

int main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_second_read_comes_from_the_disk_also_after_a_restart),
        cmocka_unit_test(a_second_read_comes_from_memory),
        cmocka_unit_test(what_lies_on_disk_is_raised_to_memory),
        cmocka_unit_test(a_full_memory_tier_stays_as_it_is),
        cmocka_unit_test(a_worker_gets_it_without_waiting),
        cmocka_unit_test(a_worker_never_waits_to_be_told_what_a_file_is),
        cmocka_unit_test(a_part_comes_from_the_entry_of_the_whole),
        cmocka_unit_test(an_empty_file_is_kept_too),
        cmocka_unit_test(folders_and_files_are_the_owners_alone),
        cmocka_unit_test(a_flipped_bit_is_found_and_read_again),
        cmocka_unit_test(every_byte_of_the_head_counts),
        cmocka_unit_test(a_truncated_entry_is_found_and_read_again),
        cmocka_unit_test(an_entry_that_is_too_long_is_refused),
        cmocka_unit_test(an_entry_under_another_name_is_refused),
        cmocka_unit_test(a_changed_source_is_never_served_from_a_cache),
        cmocka_unit_test(a_file_that_changed_a_moment_ago_is_not_kept),
        cmocka_unit_test(a_missing_file_fails_as_without_a_cache),
        cmocka_unit_test(a_file_that_grew_is_answered_as_without_a_cache),
        cmocka_unit_test(a_disk_that_fails_to_read_costs_one_warning),
        cmocka_unit_test(a_folder_that_is_not_ours_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
