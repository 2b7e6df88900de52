/* try_now: what is in memory is read on the caller's thread, what is not is never waited for. */
#include "../io_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/file/file_read.h"

#define CLOSE_NS UINT64_C(5000000000)

static struct folder folder;

static int set_up(void **state)
{
    (void)state;
    folder_make(&folder, NULL);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

static struct io *open_reader(void **state)
{
    struct io *io = open_or_skip(*state, 4);
    if (!io)
        skip();
    return io;
}

static int try_file(struct io *io, struct call *c, const char *name, uint64_t size)
{
    call_init(c, &folder, name, size);
    return io->ops->try_now(io, &c->r);
}

static bool has_nowait(const char *name)
{
    int fd = openat(folder.fd, name, O_RDONLY);
    struct stat s;
    assert_int_equal(fstat(fd, &s), 0);
    bool is_so = io_device_of(UINT64_C(0xFFFFFF) << 32, fd) == IO_DEVICE_NOWAIT; /* a device of its own: looked at anew */
    close(fd);
    return is_so;
}

static void a_warm_file_is_read_at_once(void **state)
{
    static const uint64_t sizes[] = {0, 1, 4096, 60000, 110000, 9000000};
    struct io *io = open_reader(state);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        file_write(&folder, "warm", sizes[i]);
        struct call c;
        if (!has_nowait("warm"))
            skip();
        assert_int_equal(try_file(io, &c, "warm", sizes[i]), 0);
        call_assert_bytes(&c, "warm", 0, sizes[i]);
        assert_int_equal(c.r.object_size, sizes[i]);
        assert_true(c.r.object_mtime_ns > 0 && c.r.done_ns >= c.r.submitted_ns);
        assert_int_equal(c.done_count, 0);
        c.r.offset = sizes[i] / 2;
        c.r.length = sizes[i] / 4;
        assert_int_equal(io->ops->try_now(io, &c.r), 0);
        call_assert_bytes(&c, "warm", sizes[i] / 2, sizes[i] / 4);
        call_free(&c);
    }
    struct io_figures f;
    io->ops->figures(io, &f);
    assert_int_equal(f.reads, 2 * sizeof(sizes) / sizeof(sizes[0]));
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* The kernel starts to read ahead even when told not to wait, and a fast device may have answered by the time it looks again. So an evicted
 * file may be there after all, then whole. How often depends on the machine: it is tried until it was not. */
enum { ROUNDS = 12, MOST_ROUNDS = 200 };

static void make_cold(const char *name, uint64_t size)
{
    file_write(&folder, name, size);
    if (has_nowait(name) && file_evict(&folder, name))
        return;
    print_message("skipped: this file system keeps its pages\n");
    skip();
}

/* Reads it by io until it stays in memory: a machine that is short of it may take the pages back at once. Returns how many reads that
 * took. */
static uint64_t warm(struct io *io, struct call *c)
{
    uint64_t reads = 0;
    int rc = IO_BLOCKED;
    for (int i = 0; rc == IO_BLOCKED && i < MOST_ROUNDS; i++) {
        assert_int_equal(call_run(io, c), 0);
        rc = io->ops->try_now(io, &c->r);
        reads += rc == IO_BLOCKED ? 1 : 2;
    }
    assert_int_equal(rc, 0);
    return reads;
}

static void an_evicted_file_is_not_waited_for(void **state)
{
    struct io *io = open_reader(state);
    struct io_figures f;
    uint64_t blocked = 0, reads = 0;
    for (int i = 0; i < ROUNDS || (blocked == 0 && i < MOST_ROUNDS); i++) {
        make_cold("cold", 600000);
        struct call c;
        int rc = try_file(io, &c, "cold", 600000);
        assert_true(rc == IO_BLOCKED || rc == 0);
        blocked += rc == IO_BLOCKED;
        reads += rc == 0;
        io->ops->figures(io, &f);
        assert_int_equal(f.reads, reads); /* blocked: nothing happened */
        if (rc == IO_BLOCKED)
            reads += warm(io, &c);
        call_assert_bytes(&c, "cold", 0, 600000);
        call_free(&c);
    }
    assert_true(blocked > 0);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void warm_first_pages(const char *name)
{
    char bytes[8192];
    int fd = openat(folder.fd, name, O_RDONLY);
    posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead */
    assert_int_equal(pread(fd, bytes, sizeof(bytes), 0), sizeof(bytes));
    close(fd);
}

static void a_half_evicted_file_is_whole_or_not_waited_for(void **state)
{
    struct io *io = open_reader(state);
    int blocked = 0;
    for (int i = 0; i < ROUNDS || (blocked == 0 && i < MOST_ROUNDS); i++) {
        make_cold("half", 1 << 20);
        warm_first_pages("half");
        struct call c;
        int rc = try_file(io, &c, "half", 1 << 20);
        assert_true(rc == IO_BLOCKED || rc == 0);
        blocked += rc == IO_BLOCKED;
        if (rc == 0)
            call_assert_bytes(&c, "half", 0, 1 << 20);
        call_free(&c);
    }
    assert_true(blocked > 0);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void memory_file_systems_never_block(void **state)
{
    struct io *io = open_reader(state);
    if (access("/dev/shm", W_OK) != 0)
        skip();
    struct folder shm;
    folder_make(&shm, "/dev/shm");
    file_write(&shm, "f", 110000);
    file_evict(&shm, "f"); /* in vain */
    struct call c;
    call_init(&c, &shm, "f", 110000);
    assert_int_equal(io->ops->try_now(io, &c.r), 0);
    call_assert_bytes(&c, "f", 0, 110000);
    assert_int_equal(call_run(io, &c), 0);
    call_assert_bytes(&c, "f", 0, 110000);
    call_free(&c);
    folder_remove(&shm);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* procfs knows no RWF_NOWAIT and is no memory file system, as far as one can tell: a stand-in for NFS, FUSE and overlay. */
static void where_nobody_can_tell_it_counts_as_blocking(void **state)
{
    struct io *io = open_reader(state);
    struct call c;
    for (int i = 0; i < 600; i++) {
        assert_int_equal(try_file(io, &c, "/proc/self/status", 100000), IO_BLOCKED);
        call_free(&c);
    }
    file_write(&folder, "warm", 5000); /* having given up, it still finds out that things changed */
    bool was_read = false;
    for (int i = 0; i < 600 && !was_read; i++) {
        was_read = try_file(io, &c, "warm", 5000) == 0;
        call_free(&c);
    }
    assert_true(was_read);
    assert_int_equal(try_file(io, &c, "warm", 5000), 0);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void growth_and_failures_are_told_at_once(void **state)
{
    struct io *io = open_reader(state);
    struct call c;
    file_write(&folder, "larger", 5000);
    assert_int_equal(try_file(io, &c, "larger", 4000), IO_GREW);
    assert_int_equal(c.r.object_size, 5000);
    call_free(&c);
    assert_true(faccessat(folder.fd, "missing", R_OK, 0) < 0); /* from now on the kernel may know that it is not there */
    int rc = try_file(io, &c, "missing", 4000);
    assert_true(rc == IO_BLOCKED || (rc == FB_E_NOT_FOUND && strstr(c.error.cause, "vanished")));
    call_free(&c);
    assert_int_equal(mkfifoat(folder.fd, "fifo", 0600), 0);
    assert_int_equal(try_file(io, &c, "fifo", 4000), FB_E_DATA);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* ---- an older kernel, or a container that knows no openat2 ---- */

static bool forbid(int call, int sys_errno)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)sys_errno & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int read_without_openat2(void *arg)
{
    int *sys_errno = arg;
    if (!forbid(SYS_openat2, *sys_errno))
        return 77;
    struct io *io;
    struct call c;
    call_init(&c, &folder, "warm", 5000);
    if (io_open(&io, "pread", 2, NULL, &c.error) < 0)
        return 1;
    for (int i = 0; i < 3; i++)
        if (io->ops->try_now(io, &c.r) != IO_BLOCKED)
            return 2;
    if (call_run(io, &c) != 0 || c.r.got != 5000)
        return 3;
    call_free(&c);
    return io->ops->close(io, CLOSE_NS) == 0 ? 0 : 4;
}

static void without_openat2_it_counts_as_blocking_and_is_read_all_the_same(void **state)
{
    (void)state;
    file_write(&folder, "warm", 5000);
    for (int i = 0; i < 2; i++) {
        int answer = in_child(read_without_openat2, (int[]){i ? EPERM : ENOSYS});
        if (answer == 77)
            skip();
        assert_int_equal(answer, 0);
    }
}

#define WITH(test, spec) {#test " [" spec "]", test, set_up, tear_down, (void *)spec}
#define URING_AND_PREAD(test) WITH(test, "uring"), WITH(test, "pread")

int main(void)
{
    const struct CMUnitTest tests[] = {
        URING_AND_PREAD(a_warm_file_is_read_at_once),
        URING_AND_PREAD(an_evicted_file_is_not_waited_for),
        URING_AND_PREAD(a_half_evicted_file_is_whole_or_not_waited_for),
        URING_AND_PREAD(memory_file_systems_never_block),
        URING_AND_PREAD(where_nobody_can_tell_it_counts_as_blocking),
        URING_AND_PREAD(growth_and_failures_are_told_at_once),
        cmocka_unit_test_setup_teardown(without_openat2_it_counts_as_blocking_and_is_read_all_the_same, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("io_now", tests, NULL, NULL);
}
