/* How much is kept, and what goes: limits, a full disk, other data sets, the known order. */
#include "cache_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

/* What one entry of a 20,000-byte file counts: head and data in pages. */
enum { ENTRY = 20480 };

static bool has_entry(struct source *s, uint64_t index)
{
    char path[256];
    return find_entry(s, index, path, sizeof(path));
}

static void the_limit_holds(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 40, FILE_BYTES);
    source_open(&s, &(struct choice){.is_unknown = true, .disk_limit = 10 * ENTRY + 100});
    for (int i = 0; i < 3; i++) {
        read_all(&s);
        struct stock k = take_stock(s.dir);
        assert_true(k.bytes <= 10 * ENTRY + 100);
        assert_true(k.counted <= 10 * ENTRY + 100);
    }
    source_close(&s);
    struct stock k = take_stock(s.dir);
    assert_int_equal(k.entries, 10);
    assert_int_equal(k.counted, k.bytes);
    assert_int_equal(k.parts, 0);
    assert_int_equal(s.warnings, 0); /* a full cache is no trouble */
    source_remove(&s);
}

/* Reads epochs in order, one at a time, letting the disk come to rest in between. */
static void read_epochs(struct source *s, uint64_t from, uint64_t to)
{
    for (uint64_t e = from; e < to; e++)
        for (uint64_t p = 0; p < s->count; p++) {
            move_to(s, e, p + 1);
            read_file(s, index_at(s, e, p));
        }
}

static void what_is_needed_last_goes_first(void **state)
{
    (void)state;
    struct source s;
    enum { N = 40, KEPT = 10 };
    source_make(&s, N, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "slow:latency_us=100", .disk_limit = KEPT * ENTRY + 100});
    read_epochs(&s, 0, 1);
    /* The reader stands at the end of epoch 0, and stays: in the end the disk holds exactly what comes first in epoch 1. */
    move_to(&s, 0, N);
    uint64_t there = 0;
    for (int i = 0; i < 200 && there < KEPT; i++) {
        there = 0;
        for (uint64_t p = 0; p < KEPT; p++)
            there += has_entry(&s, index_at(&s, 1, p));
        usleep(10000);
    }
    assert_int_equal(there, KEPT);
    assert_true(figures(&s).evicted > 0);
    struct stock k = take_stock(s.dir);
    assert_true(k.bytes <= KEPT * ENTRY + 100);
    source_close(&s);
    source_remove(&s);
}

static void nothing_goes_for_what_is_needed_later(void **state)
{
    (void)state;
    struct source s;
    enum { N = 40, KEPT = 10 };
    source_make(&s, N, FILE_BYTES);
    source_open(&s, &(struct choice){.disk_limit = KEPT * ENTRY + 100});
    move_to(&s, 0, 0); /* the reader stands still: the first ten are fetched, and that is that */
    WAIT_FOR(figures(&s).stored == KEPT);
    usleep(300000);
    assert_int_equal(figures(&s).stored, KEPT);
    assert_int_equal(figures(&s).evicted, 0);
    for (uint64_t p = 0; p < KEPT; p++)
        assert_true(has_entry(&s, index_at(&s, 0, p)));
    source_close(&s);
    source_remove(&s);
}

static void the_disk_is_filled_ahead_of_the_reader(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 100, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "slow:latency_us=2000"});
    move_to(&s, 0, 0);
    WAIT_FOR(figures(&s).stored == 100);
    read_epochs(&s, 0, 2);
    struct cache_figures f = figures(&s);
    assert_int_equal(f.misses, 0);
    assert_int_equal(f.filled, 100);
    assert_int_equal(f.disk_hits, 200);
    source_close(&s);
    /* and what is there already is not fetched again */
    source_open(&s, &(struct choice){.inner = "slow:latency_us=2000"});
    move_to(&s, 0, 1);
    usleep(200000);
    assert_int_equal(figures(&s).filled, 0);
    source_close(&s);
    source_remove(&s);
}

static void nothing_is_fetched_ahead_while_the_reader_is_busy(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 100, FILE_BYTES);
    source_open(&s, &(struct choice){.inner = "slow:latency_us=500"});
    s.is_busy = true;
    move_to(&s, 0, 0);
    usleep(300000);
    assert_int_equal(figures(&s).filled, 0);
    for (uint64_t p = 0; p < 10; p++)
        read_file(&s, index_at(&s, 0, p)); /* what it reads itself is kept all the same */
    WAIT_FOR(figures(&s).stored == 10);
    assert_int_equal(figures(&s).filled, 0);
    s.is_busy = false;
    move_to(&s, 0, 10);
    WAIT_FOR(figures(&s).filled == 90);
    source_close(&s);
    source_remove(&s);
}

/* ---- other data sets ---- */

static void touch_used(const char *dir, const char *name_part, int64_t seconds)
{
    char command[512];
    snprintf(command, sizeof(command), "for d in %s/*/; do grep -q '%s$' $d/source && touch -d @%lld $d/used; done; true", dir, name_part,
             (long long)seconds);
    assert_int_equal(system(command), 0);
}

static uint64_t places(const char *dir)
{
    char command[256];
    snprintf(command, sizeof(command), "ls -d %s/[0-9a-f]*/ | wc -l", dir);
    FILE *f = popen(command, "r");
    unsigned n = 0;
    assert_int_equal(fscanf(f, "%u", &n), 1);
    pclose(f);
    return n;
}

static void other_data_sets_go_by_last_use(void **state)
{
    (void)state;
    struct source a, b, c;
    source_make(&a, 20, FILE_BYTES);
    source_make(&b, 20, FILE_BYTES);
    source_make(&c, 20, FILE_BYTES);
    uint64_t limit = 45 * ENTRY;
    struct choice shared = {.is_unknown = true, .dir = a.dir, .disk_limit = limit};
    struct source *each[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        shared.name = i ? "set-b" : "set-a";
        source_open(each[i], &shared);
        read_all(each[i]);
        source_close(each[i]);
    }
    assert_int_equal(take_stock(a.dir).entries, 40);
    touch_used(a.dir, "set-a", 2000);
    touch_used(a.dir, "set-b", 1000); /* b was used before a */
    shared.name = "set-c";
    source_open(&c, &shared);
    read_all(&c);
    source_close(&c);
    struct stock k = take_stock(a.dir);
    assert_true(k.bytes <= limit);
    assert_int_equal(k.counted, k.bytes);
    shared.name = "set-a"; /* still whole */
    source_open(&a, &shared);
    read_all(&a);
    assert_int_equal(figures(&a).disk_hits, 20);
    source_close(&a);
    source_remove(&b);
    source_remove(&c);
    source_remove(&a);
}

static void what_a_running_job_uses_is_left_alone(void **state)
{
    (void)state;
    struct source a, b;
    source_make(&a, 20, FILE_BYTES);
    source_make(&b, 20, FILE_BYTES);
    struct choice shared = {.is_unknown = true, .dir = a.dir, .disk_limit = 25 * ENTRY};
    shared.name = "set-a";
    source_open(&a, &shared);
    read_all(&a);
    WAIT_FOR(figures(&a).stored == 20);
    shared.name = "set-b";
    source_open(&b, &shared);
    read_all(&b);
    source_close(&b);
    assert_true(take_stock(a.dir).entries <= 25);
    read_all(&a);
    assert_int_equal(figures(&a).disk_hits, 20);
    source_close(&a);
    /* when it has ended, it may go, and its folder with it */
    touch_used(a.dir, "set-a", 1000);
    source_open(&b, &shared);
    read_all(&b);
    WAIT_FOR(figures(&b).stored >= 15);
    source_close(&b);
    assert_true(places(a.dir) <= 2);
    source_remove(&b);
    source_remove(&a);
}

static void samples_that_are_not_this_runs_go_before_its_own(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 40, FILE_BYTES);
    struct choice c = {.disk_limit = 22 * ENTRY + 100, .is_unknown = true}; /* two more: being stored needs room, too */
    s.count = 20;                                                           /* a run over the first half */
    source_open(&s, &c);
    read_all(&s);
    source_close(&s);
    assert_int_equal(take_stock(s.dir).entries, 20);
    for (uint64_t i = 0; i < 20; i++) /* then one over the second */
        memcpy(s.name[i], s.name[i + 20], sizeof(s.name[i]));
    c.is_unknown = false;
    source_open(&s, &c);
    move_to(&s, 0, 1);
    read_all(&s);
    WAIT_FOR(figures(&s).stored >= 20);
    source_close(&s);
    source_open(&s, &c);
    read_all(&s);
    assert_int_equal(figures(&s).disk_hits, 20);
    source_close(&s);
    s.count = 40;
    source_remove(&s);
}

/* Two runs on parts of one data set: who tries to make room in vain still counts as a user. */
static void runs_on_parts_of_one_data_set_leave_each_other_alone(void **state)
{
    (void)state;
    struct source a, b;
    source_make(&a, 40, FILE_BYTES);
    b = a;
    a.count = 25;
    b.count = 15;
    for (uint64_t i = 0; i < b.count; i++)
        memcpy(b.name[i], a.name[a.count + i], sizeof(b.name[i]));
    struct choice shared = {.is_unknown = true, .disk_limit = 20 * ENTRY + 100};
    source_open(&a, &shared);
    source_open(&b, &shared);
    read_all(&a);
    WAIT_FOR(figures(&a).stored == 20);
    read_all(&a); /* five more do not fit, and what is there may be b's */
    read_all(&b);
    read_all(&b);
    assert_int_equal(figures(&b).evicted, 0);
    source_close(&b);
    uint64_t hits = figures(&a).disk_hits;
    read_all(&a);
    assert_int_equal(figures(&a).disk_hits - hits, 20);
    source_close(&a);
    a.count = 40;
    source_remove(&a);
}

/* ---- a small disk ---- */

/* A tmpfs of its own; false: not allowed here. */
static bool small_disk(char *path, size_t path_size, const char *size)
{
    char options[64];
    snprintf(path, path_size, "/tmp/fullbore-cache-XXXXXX");
    assert_non_null(mkdtemp(path));
    snprintf(options, sizeof(options), "size=%s,mode=0700", size);
    if (mount("none", path, "tmpfs", 0, options) == 0)
        return true;
    print_message("skipped: mounting a small tmpfs needs root\n");
    rmdir(path);
    return false;
}

static void remove_disk(const char *path)
{
    umount2(path, MNT_DETACH);
    rmdir(path);
}

static void five_percent_of_the_disk_stay_free(void **state)
{
    (void)state;
    struct source s;
    char disk[64];
    if (!small_disk(disk, sizeof(disk), "2m"))
        skip();
    source_make(&s, 200, FILE_BYTES);
    source_open(&s, &(struct choice){.is_unknown = true, .dir = disk});
    read_all(&s);
    read_all(&s);
    source_close(&s);
    struct stock k = take_stock(disk);
    assert_true(k.bytes <= (2 << 20) * 95 / 100);
    assert_true(k.bytes > (2 << 20) * 80 / 100);
    assert_int_equal(s.warnings, 0);
    remove_disk(disk);
    source_remove(&s);
}

/* Something else fills the disk between the look and the write: as it happens when many write. */
static void a_full_disk_ends_the_cache_not_the_run(void **state)
{
    (void)state;
    struct source s;
    char disk[64], ballast[96];
    if (!small_disk(disk, sizeof(disk), "40m"))
        skip();
    enum { LARGE = 3 << 20 };
    source_make(&s, 4, LARGE);
    source_open(&s, &(struct choice){.is_unknown = true, .dir = disk});
    read_file(&s, 0);
    WAIT_FOR(figures(&s).stored == 1);
    /* 5 % are 2 MiB: leave just enough for the check to pass (5.1 MiB), and a limit on the number of blocks that it cannot see */
    snprintf(ballast, sizeof(ballast), "%s/ballast", disk);
    char remount[32] = "size=40m,nr_inodes=15";
    assert_int_equal(mount("none", disk, "tmpfs", MS_REMOUNT, remount), 0);
    for (int i = 0; i < 20; i++) { /* use up the inodes: creating a .part is ENOSPC then */
        char name[128];
        snprintf(name, sizeof(name), "%s%d", ballast, i);
        int fd = open(name, O_CREAT | O_WRONLY, 0600);
        if (fd >= 0)
            close(fd);
    }
    read_all(&s);
    read_all(&s);
    struct cache_figures f = figures(&s);
    assert_int_equal(s.warnings, 1);
    assert_non_null(strstr(s.warned, "No space left"));
    assert_true(f.is_off);
    assert_int_equal(f.disk_hits, 2); /* what is there is still used */
    source_close(&s);
    remove_disk(disk);
    source_remove(&s);
}

/* A write that fails halfway: a limit on the size of files stands for a disk that breaks. */
static int write_fails(void *arg)
{
    struct source *s = arg;
    struct rlimit l = {8192, 8192};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &l);
    source_open(s, &(struct choice){.is_unknown = true});
    read_all(s);
    read_all(s);
    struct cache_figures f = figures(s);
    int wrong = s->warnings != 1 || !f.is_off || f.stored != 0 || f.disk_hits != 0;
    source_close(s);
    struct stock k = take_stock(s->dir);
    return wrong | (k.entries != 0) << 1 | (k.parts != 0) << 2 | (k.counted != 0) << 3;
}

static void a_write_that_fails_leaves_no_entry_and_one_warning(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 5, FILE_BYTES);
    assert_int_equal(in_child(write_fails, &s), 0);
    source_remove(&s);
}

/* Beside others, each fetch that will be kept holds a file open. Where few may be open, few are kept; the others are read all the same. */
static int open_few_files(void *arg)
{
    struct source *s = arg;
    enum { FLIGHT = 100 };
    struct call c[FLIGHT];
    struct rlimit l = {64, 64};
    struct source other = *s;
    setrlimit(RLIMIT_NOFILE, &l);
    source_open(&other, &(struct choice){.is_unknown = true});
    source_open(s, &(struct choice){.inner = "fault:hang", .is_unknown = true, .depth = FLIGHT});
    for (int i = 0; i < FLIGHT; i++) {
        call_init(&c[i], &s->folder, s->name[i], FILE_BYTES);
        s->io->ops->submit(s->io, &c[i].r, false);
    }
    WAIT_FOR(figures(s).misses == FLIGHT);
    struct cache_figures f = figures(s);
    uint64_t parts = take_stock(s->dir).parts;
    s->io->ops->close(s->io, 2000000000);
    return (s->warnings != 0) | f.is_off << 1 | (parts == 0) << 2 | (parts > 16) << 3;
}

static void few_files_may_be_open_and_the_cache_stays_on(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 100, FILE_BYTES);
    assert_int_equal(in_child(open_few_files, &s), 0);
    source_remove(&s);
}

static void a_unit_larger_than_the_limit_is_passed_through(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 3, 200000);
    source_open(&s, &(struct choice){.is_unknown = true, .disk_limit = 100000, .ram_limit = 100000});
    read_all(&s);
    read_all(&s);
    assert_int_equal(figures(&s).misses, 6);
    source_close(&s);
    assert_int_equal(take_stock(s.dir).entries, 0);
    source_remove(&s);
}

static void without_memory_nothing_is_kept_and_everything_is_read(void **state)
{
    (void)state;
    struct source s;
    source_make(&s, 10, FILE_BYTES);
    s.budget.limit = 1000;
    source_open(&s, &(struct choice){.ram_limit = 1 << 20});
    read_all(&s);
    assert_int_equal(figures(&s).misses, 10);
    assert_int_equal(figures(&s).ram_bytes, 0);
    source_close(&s);
    source_remove(&s);
}

int main(int argc, char **argv)
{
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_limit_holds),
        cmocka_unit_test(what_is_needed_last_goes_first),
        cmocka_unit_test(nothing_goes_for_what_is_needed_later),
        cmocka_unit_test(the_disk_is_filled_ahead_of_the_reader),
        cmocka_unit_test(nothing_is_fetched_ahead_while_the_reader_is_busy),
        cmocka_unit_test(other_data_sets_go_by_last_use),
        cmocka_unit_test(what_a_running_job_uses_is_left_alone),
        cmocka_unit_test(samples_that_are_not_this_runs_go_before_its_own),
        cmocka_unit_test(runs_on_parts_of_one_data_set_leave_each_other_alone),
        cmocka_unit_test(five_percent_of_the_disk_stay_free),
        cmocka_unit_test(a_full_disk_ends_the_cache_not_the_run),
        cmocka_unit_test(a_write_that_fails_leaves_no_entry_and_one_warning),
        cmocka_unit_test(few_files_may_be_open_and_the_cache_stays_on),
        cmocka_unit_test(a_unit_larger_than_the_limit_is_passed_through),
        cmocka_unit_test(without_memory_nothing_is_kept_and_everything_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
