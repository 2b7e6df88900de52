/* close() returns in time whatever is in flight, and every request is either done or counted as left behind. */
#include "io_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

#define MS UINT64_C(1000000)
enum { MANY = 300 };

static struct folder folder;

static int set_up(void **state)
{
    (void)state;
    folder_make(&folder, NULL);
    file_write(&folder, "f", 60000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

static struct io *open_reader(void **state, uint32_t depth)
{
    struct io *io = open_or_skip(*state, depth);
    if (!io)
        skip();
    return io;
}

static void submit_many(struct io *io, struct call *calls, int n)
{
    for (int i = 0; i < n; i++) {
        call_init(&calls[i], &folder, "f", 60000);
        io->ops->submit(io, &calls[i].r, i + 1 < n);
    }
}

static void close_in_the_middle_ends_every_request_once(void **state)
{
    for (int round = 0; round < 20; round++) {
        int files_before = count_open_files();
        struct io *io = open_reader(state, 1 + (uint32_t)round * 3);
        struct call *calls = calloc(MANY, sizeof(*calls));
        submit_many(io, calls, MANY);
        for (int i = 0; i < round % 4; i++)
            pause_1ms();
        assert_int_equal(io->ops->close(io, 5000 * MS), 0);
        assert_int_equal(count_open_files(), files_before);
        for (int i = 0; i < MANY; i++) {
            assert_int_equal(calls[i].done_count, 1);
            if (calls[i].r.status == 0)
                call_assert_bytes(&calls[i], "f", 0, 60000);
            else
                assert_int_equal(calls[i].r.status, FB_E_STATE);
            assert_int_equal(calls[i].error.code, calls[i].r.status);
            call_free(&calls[i]);
        }
        free(calls);
    }
}

/* Resubmitting from done is allowed; after close began it is refused, once. */
static struct io *insistent_io;
static _Atomic int insistent_done;

static void submit_again(struct io_request *r)
{
    insistent_done++;
    if (r->status != FB_E_STATE)
        insistent_io->ops->submit(insistent_io, r, false);
}

static void a_request_that_comes_back_is_refused_after_close(void **state)
{
    insistent_io = open_reader(state, 8);
    insistent_done = 0;
    struct call calls[8];
    for (int i = 0; i < 8; i++) {
        call_init(&calls[i], &folder, "f", 60000);
        calls[i].r.done = submit_again;
        insistent_io->ops->submit(insistent_io, &calls[i].r, false);
    }
    WAIT_FOR(insistent_done > 50);
    assert_int_equal(insistent_io->ops->close(insistent_io, 5000 * MS), 0);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(calls[i].r.status, FB_E_STATE);
        call_free(&calls[i]);
    }
}

static void one_at_a_time_they_are_done_in_the_order_they_came(void **state)
{
    struct io *io = open_reader(state, 1);
    struct call *calls = calloc(MANY, sizeof(*calls));
    submit_many(io, calls, MANY);
    call_wait(&calls[MANY - 1]);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(calls[i].done_count, 1);
        assert_true(i == 0 || calls[i].r.done_ns >= calls[i - 1].r.done_ns);
        call_free(&calls[i]);
    }
    free(calls);
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

/* ---- reads that never end ---- */

static void reads_that_hang_are_given_back_by_close(void **state)
{
    struct io *io = open_reader(state, 16);
    struct call calls[40];
    submit_many(io, calls, 40);
    pause_1ms();
    uint64_t before = clock_now_ns();
    assert_int_equal(io->ops->close(io, 20000 * MS), 0);
    assert_true(clock_now_ns() - before < 10000 * MS); /* did not wait for its time to be over */
    for (int i = 0; i < 40; i++) {
        assert_int_equal(calls[i].done_count, 1);
        assert_int_equal(calls[i].r.status, FB_E_STATE);
        assert_non_null(strstr(calls[i].error.cause, "closed"));
        call_free(&calls[i]);
    }
}

static void stuck_reads_are_left_behind_and_counted(void **state)
{
    (void)state;
    struct io *io = open_or_skip("fault:stuck,path=f,every=2;over=pread", 64);
    static struct call calls[40]; /* left to the reader for ever */
    submit_many(io, calls, 40);
    for (int i = 0; i < 40; i += 2)
        call_wait(&calls[i]);
    assert_int_equal(io->ops->close(io, 100 * MS), 20);
    for (int i = 0; i < 40; i++)
        assert_int_equal(calls[i].done_count, i % 2 == 0);
    for (int i = 0; i < 40; i += 2)
        call_free(&calls[i]);
}

/* A buffer whose first touch blocks until the trap is opened: a read into it is stuck in the kernel like one from a dead device. */
struct trap {
    int fd;
    void *memory;
    size_t bytes;
};

static bool trap_set(struct trap *t)
{
    t->bytes = 1 << 20;
    t->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (t->fd < 0)
        return false;
    struct uffdio_api api = {.api = UFFD_API};
    t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register all = {{(uintptr_t)t->memory, t->bytes}, UFFDIO_REGISTER_MODE_MISSING, 0};
    return ioctl(t->fd, UFFDIO_API, &api) == 0 && ioctl(t->fd, UFFDIO_REGISTER, &all) == 0;
}

static int count_threads(void)
{
    char line[256];
    int n = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof(line), f))
        sscanf(line, "Threads: %d", &n);
    if (f)
        fclose(f);
    return n;
}

/* What was left behind belongs to the stuck thread for good. */
struct left {
    struct call stuck, queued[3];
};

static struct left *submit_to_trap(struct io *io, const struct trap *t, const char *path)
{
    static struct left *kept[8];
    static int count;
    struct left *l = kept[count++] = calloc(1, sizeof(*l));
    call_init(&l->stuck, &folder, path, 60000);
    call_free(&l->stuck);
    l->stuck.r.buffer = t->memory;
    l->stuck.r.capacity = t->bytes;
    io->ops->submit(io, &l->stuck.r, false);
    for (int i = 0; i < 20; i++)
        pause_1ms();
    submit_many(io, l->queued, 3);
    return l;
}

static int count_ended(const struct left *l)
{
    int n = 0;
    for (int i = 0; i < 3; i++) {
        assert_true(l->queued[i].done_count <= 1);
        n += l->queued[i].done_count;
    }
    return n;
}

static void close_over_stuck_read(void **state, const char *path)
{
    struct trap t = {0};
    if (!trap_set(&t)) {
        print_message("skipped: no userfaultfd: %s\n", strerror(errno));
        skip();
    }
    int threads_before = count_threads(), files_before = count_open_files();
    struct io *io = open_reader(state, 2);
    struct left *l = submit_to_trap(io, &t, path);
    uint64_t before = clock_now_ns();
    uint32_t left_behind = io->ops->close(io, 200 * MS);
    uint64_t took = clock_now_ns() - before;
    assert_true(took >= 190 * MS && took < 5000 * MS);
    int ended = count_ended(l);
    assert_int_equal(l->stuck.done_count, 0);
    assert_int_equal(left_behind, 1 + 3 - ended);

    close(t.fd); /* the device answers after all: the thread drops the result, cleans up and goes */
    WAIT_FOR(count_threads() <= threads_before && count_open_files() < files_before);
    assert_int_equal(l->stuck.done_count, 0);
    assert_int_equal(count_ended(l), ended);
}

static void a_read_stuck_in_the_kernel_does_not_hold_up_close(void **state)
{
    close_over_stuck_read(state, "f");
}

/* procfs cannot say whether it blocks, so it is read by a worker of the ring, and fb-io itself is free. */
static void a_worker_of_the_ring_stuck_in_the_kernel_does_not_hold_up_close(void **state)
{
    close_over_stuck_read(state, "/proc/self/status");
}

/* ---- fork ---- */

static int use_in_child(void *arg)
{
    struct io *io = arg;
    struct call c;
    call_init(&c, &folder, "f", 60000);
    io->ops->submit(io, &c.r, false); /* answered at once, on this thread */
    if (c.done_count != 1 || c.r.status != FB_E_FORKED || c.error.code != FB_E_FORKED)
        return 1;
    if (io->ops->try_now && io->ops->try_now(io, &c.r) != FB_E_FORKED)
        return 2;
    return io->ops->close(io, 1000 * MS) == 0 ? 0 : 3;
}

static void a_child_process_is_refused_and_the_parent_goes_on(void **state)
{
    struct io *io = open_reader(state, 8);
    struct call calls[MANY];
    submit_many(io, calls, MANY); /* some are in flight while we fork */
    assert_int_equal(in_child(use_in_child, io), 0);
    for (int i = 0; i < MANY; i++) {
        call_wait(&calls[i]);
        call_assert_bytes(&calls[i], "f", 0, 60000);
        call_free(&calls[i]);
    }
    assert_int_equal(io->ops->close(io, 5000 * MS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOR_EACH_READER(close_in_the_middle_ends_every_request_once),
        FOR_EACH_READER(a_request_that_comes_back_is_refused_after_close),
        FOR_EACH_READER(one_at_a_time_they_are_done_in_the_order_they_came),
        {"reads_that_hang_are_given_back_by_close [fault]", reads_that_hang_are_given_back_by_close, NULL, NULL,
         (void *)"fault:hang;over=pread"},
        {"reads_that_hang_are_given_back_by_close [slow]", reads_that_hang_are_given_back_by_close, NULL, NULL,
         (void *)"slow:latency_us=60000000,over=pread"},
        {"reads_that_hang_are_given_back_by_close [fault in slow]", reads_that_hang_are_given_back_by_close, NULL, NULL,
         (void *)"slow:latency_us=100,over=fault:hang;over=uring"},
        cmocka_unit_test(stuck_reads_are_left_behind_and_counted),
        {"a_read_stuck_in_the_kernel_does_not_hold_up_close [uring]", a_read_stuck_in_the_kernel_does_not_hold_up_close, NULL, NULL,
         (void *)"uring"},
        {"a_read_stuck_in_the_kernel_does_not_hold_up_close [pread]", a_read_stuck_in_the_kernel_does_not_hold_up_close, NULL, NULL,
         (void *)"pread"},
        {"a_worker_of_the_ring_stuck_in_the_kernel_does_not_hold_up_close [uring]",
         a_worker_of_the_ring_stuck_in_the_kernel_does_not_hold_up_close, NULL, NULL, (void *)"uring"},
        FOR_EACH_READER(a_child_process_is_refused_and_the_parent_goes_on),
    };
    return cmocka_run_group_tests_name("io_close", tests, set_up, tear_down);
}
