/* Reading and writing all: system calls that move little, are interrupted or fail are replaced by the linker (--wrap). */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../sanitizers.h"
#include "base/file/file.h"

/* ---- calls that misbehave ---- */

static size_t most;        /* bytes that one call moves; 0: as many as are asked for */
static bool interrupts;    /* every second call fails with EINTR */
static int fails_at, fail; /* call number (1 is the first) that fails with this errno; -1: it moves nothing */
static int calls;

static void behave(void)
{
    most = 0;
    interrupts = false;
    fails_at = fail = calls = 0;
}

/* True: the call is over, and returns *rc. */
static bool is_refused(ssize_t *rc)
{
    calls++;
    *rc = -1;
    if (interrupts && calls % 2) {
        errno = EINTR;
        return true;
    }
    if (!fails_at || calls < fails_at)
        return false;
    *rc = fail < 0 ? 0 : -1;
    errno = fail < 0 ? EIO : fail; /* a call that moves nothing says nothing in errno */
    return true;
}

static size_t cut(size_t n)
{
    return most && n > most ? most : n;
}

#define WRAP(NAME, BYTES, ...)                                  \
    ssize_t __real_##NAME(int fd, BYTES, size_t n __VA_ARGS__); \
    ssize_t __wrap_##NAME(int fd, BYTES, size_t n __VA_ARGS__);
#define COMMA_OFFSET , off_t offset
WRAP(read, void *p, )
WRAP(write, const void *p, )
WRAP(pread, void *p, COMMA_OFFSET)
WRAP(pwrite, const void *p, COMMA_OFFSET)
WRAP(pread64, void *p, COMMA_OFFSET)
WRAP(pwrite64, const void *p, COMMA_OFFSET)
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int count, off_t offset);
ssize_t __wrap_pwritev64(int fd, const struct iovec *v, int count, off_t offset);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

ssize_t __wrap_read(int fd, void *p, size_t n)
{
    ssize_t rc;
    return is_refused(&rc) ? rc : __real_read(fd, p, cut(n));
}

ssize_t __wrap_write(int fd, const void *p, size_t n)
{
    ssize_t rc;
    return is_refused(&rc) ? rc : __real_write(fd, p, cut(n));
}

ssize_t __wrap_pread(int fd, void *p, size_t n, off_t offset)
{
    ssize_t rc;
    return is_refused(&rc) ? rc : __real_pread(fd, p, cut(n), offset);
}

ssize_t __wrap_pwrite(int fd, const void *p, size_t n, off_t offset)
{
    ssize_t rc;
    return is_refused(&rc) ? rc : __real_pwrite(fd, p, cut(n), offset);
}

/* The names with large offsets, where the compiler takes those. */
ssize_t __wrap_pread64(int fd, void *p, size_t n, off_t offset)
{
    return __wrap_pread(fd, p, n, offset);
}

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t offset)
{
    return __wrap_pwrite(fd, p, n, offset);
}

/* Of all parts together as many bytes as one call moves. */
ssize_t __wrap_pwritev(int fd, const struct iovec *v, int count, off_t offset)
{
    ssize_t rc;
    if (is_refused(&rc))
        return rc;
    size_t done = 0;
    for (int i = 0; i < count && (!most || done < most); i++) {
        size_t n = most && v[i].iov_len > most - done ? most - done : v[i].iov_len;
        assert_int_equal(__real_pwrite(fd, v[i].iov_base, n, offset + (off_t)done), n);
        done += n;
    }
    return (ssize_t)done;
}

ssize_t __wrap_pwritev64(int fd, const struct iovec *v, int count, off_t offset)
{
    return __wrap_pwritev(fd, v, count, offset);
}

int __wrap_fsync(int fd)
{
    ssize_t rc;
    return is_refused(&rc) ? (int)rc : __real_fsync(fd);
}

/* ---- a file of 1000 different bytes ---- */

enum { BYTES = 1000 };
static uint8_t bytes[BYTES], there[BYTES];

static int new_file(bool is_full)
{
    behave();
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    memset(there, 0, sizeof(there));
    if (is_full)
        assert_int_equal(__real_pwrite(fd, bytes, BYTES, 0), BYTES);
    return fd;
}

static void assert_written(int fd, size_t n)
{
    behave();
    assert_int_equal(__real_pread(fd, there, BYTES, 0), n);
    assert_memory_equal(there, bytes, n);
    close(fd);
}

static void short_and_interrupted_reads_go_on(void **state)
{
    (void)state;
    for (int at = 0; at < 2; at++) {
        int fd = new_file(true);
        most = 7;
        interrupts = true;
        size_t got = at ? file_read_all_at(fd, there, 900, 100) : file_read_all(fd, there, 900);
        assert_int_equal(got, 900);
        assert_memory_equal(there, bytes + (at ? 100 : 0), 900);
        assert_int_equal(calls, 2 * ((900 + 6) / 7));
        close(fd);
    }
}

static void the_end_of_a_file_is_no_error(void **state)
{
    (void)state;
    int fd = new_file(true);
    most = 7;
    errno = EIO;
    assert_int_equal(file_read_all_at(fd, there, BYTES, 900), 100);
    assert_int_equal(errno, 0);
    assert_memory_equal(there, bytes + 900, 100);
    errno = EIO;
    assert_int_equal(file_read_all_at(fd, there, 1, BYTES + 5), 0);
    assert_int_equal(errno, 0);
    assert_int_equal(lseek(fd, 990, SEEK_SET), 990);
    errno = EIO;
    assert_int_equal(file_read_all(fd, there, BYTES), 10);
    assert_int_equal(errno, 0);
    close(fd);
}

static void a_read_that_fails_tells_how_far_it_came(void **state)
{
    (void)state;
    int fd = new_file(true);
    most = 300;
    fails_at = 3;
    fail = EIO;
    assert_int_equal(file_read_all_at(fd, there, BYTES, 0), 600);
    assert_int_equal(errno, EIO);
    assert_memory_equal(there, bytes, 600);
    behave();
    assert_int_equal(file_read_all_at(fd, there, 1, UINT64_MAX - 5), 0);
    assert_int_equal(errno, EINVAL);
    close(fd);
    assert_int_equal(file_read_all(fd, there, 1), 0);
    assert_int_equal(errno, EBADF);
}

static void nothing_is_read_and_written_without_a_call(void **state)
{
    (void)state;
    behave();
    assert_int_equal(file_read_all_at(-1, there, 0, 0), 0);
    assert_int_equal(file_read_all(-1, there, 0), 0);
    assert_int_equal(file_write_all(-1, bytes, 0, NULL), 0);
    assert_int_equal(file_write_all_at(-1, bytes, 0, 0, NULL), 0);
    struct iovec v[2] = {{bytes, 0}, {bytes, 0}};
    assert_int_equal(file_write_parts_at(-1, v, 2, 0, NULL), 0);
    assert_int_equal(calls, 0);
}

static int write_way(int way, int fd, size_t n, struct fb_error *e)
{
    struct iovec v[5] = {{bytes, 0}, {bytes, 10}, {bytes + 10, 0}, {bytes + 10, 1}, {bytes + 11, n - 11}};
    return way == 0   ? file_write_all(fd, bytes, n, e)
           : way == 1 ? file_write_all_at(fd, bytes, n, 0, e)
                      : file_write_parts_at(fd, v, 5, 0, e);
}

static void short_and_interrupted_writes_go_on(void **state)
{
    (void)state;
    static const size_t pieces[] = {0, 1, 7, 10, 11, 300};
    for (int way = 0; way < 3; way++)
        for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
            int fd = new_file(false);
            most = pieces[i];
            interrupts = true;
            assert_int_equal(write_way(way, fd, BYTES, NULL), 0);
            assert_written(fd, BYTES);
        }
}

static void a_write_that_fails_says_why(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        struct fb_error e = {0};
        int fd = new_file(false);
        most = 300;
        fails_at = 2;
        fail = EDQUOT;
        assert_int_equal(write_way(way, fd, BYTES, &e), FB_E_IO);
        assert_int_equal(e.sys_errno, EDQUOT);
        assert_string_equal(e.stage, "write");
        assert_non_null(strstr(e.cause, "cannot write the file: "));
        calls = 0;
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        assert_int_equal(write_way(way, fd, BYTES, NULL), FB_E_IO);
        assert_int_equal(errno, EDQUOT);
        assert_written(fd, 300);
    }
}

static void a_file_that_takes_nothing_is_full(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        int fd = new_file(false);
        fails_at = 1;
        fail = -1;
        assert_int_equal(write_way(way, fd, BYTES, NULL), FB_E_IO);
        assert_int_equal(errno, ENOSPC);
        close(fd);
    }
}

/* More than one call moves: Linux stops at 2 GiB less a page. The file is a hole, read over the same pages again and again. */
static void more_than_two_gigabytes_are_read(void **state)
{
    (void)state;
    behave();
#if HAS_THREAD_SANITIZER
    skip(); /* its notes about the bytes would take several times the memory */
#endif
    size_t n = (UINT64_C(2) << 30) + 5, unit = 64 << 20;
    int fd = memfd_create("large", MFD_CLOEXEC), pages = memfd_create("pages", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    assert_int_equal(__real_pwrite(fd, "tail!", 5, (off_t)n - 5), 5);
    assert_int_equal(ftruncate(pages, (off_t)unit), 0);
    uint8_t *to = mmap(NULL, n + unit, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(to, MAP_FAILED);
    for (size_t at = 0; at < n; at += unit)
        assert_ptr_not_equal(mmap(to + at, unit, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, pages, 0), MAP_FAILED);
    assert_int_equal(file_read_all_at(fd, to, n, 0), n);
    assert_true(calls >= 2);
    assert_memory_equal(to + n - 5, "tail!", 5);
    munmap(to, n + unit);
    close(pages);
    close(fd);
}

/* ---- a real signal, on a pipe ---- */

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
    (void)number;
    signals++;
}

struct sender {
    pthread_t reader;
    int fd;
};

static void *send_slowly(void *arg)
{
    struct sender *s = arg;
    for (int i = 0; i < 10; i++) {
        for (sig_atomic_t before = signals; signals == before; usleep(1000))
            pthread_kill(s->reader, SIGUSR1);
        if (__real_write(s->fd, bytes + i * 100, 100) != 100)
            break;
    }
    close(s->fd);
    return NULL;
}

static void a_signal_interrupts_no_read(void **state)
{
    (void)state;
    close(new_file(true));
    struct sigaction action = {.sa_handler = on_signal}, before;
    int ends[2];
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0); /* no SA_RESTART */
    assert_int_equal(pipe(ends), 0);
    struct sender s = {pthread_self(), ends[1]};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_slowly, &s), 0);
    assert_int_equal(file_read_all(ends[0], there, BYTES), BYTES);
    assert_memory_equal(there, bytes, BYTES);
    assert_int_equal(file_read_all(ends[0], there, 1), 0);
    assert_int_equal(errno, 0);
    pthread_join(thread, NULL);
    sigaction(SIGUSR1, &before, NULL);
    close(ends[0]);
}

static void a_file_system_without_sync_is_synced(void **state)
{
    (void)state;
    int fd = new_file(true);
    assert_int_equal(file_sync(fd, NULL), 0);
    static const int codes[] = {EINVAL, ENOTSUP, EIO};
    for (int i = 0; i < 3; i++) {
        struct fb_error e = {0};
        fails_at = 1;
        fail = codes[i];
        assert_int_equal(file_sync(fd, &e), codes[i] == EIO ? FB_E_IO : 0);
        assert_int_equal(e.sys_errno, codes[i] == EIO ? EIO : 0);
    }
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_and_interrupted_reads_go_on),
        cmocka_unit_test(the_end_of_a_file_is_no_error),
        cmocka_unit_test(a_read_that_fails_tells_how_far_it_came),
        cmocka_unit_test(nothing_is_read_and_written_without_a_call),
        cmocka_unit_test(short_and_interrupted_writes_go_on),
        cmocka_unit_test(a_write_that_fails_says_why),
        cmocka_unit_test(a_file_that_takes_nothing_is_full),
        cmocka_unit_test(more_than_two_gigabytes_are_read),
        cmocka_unit_test(a_signal_interrupts_no_read),
        cmocka_unit_test(a_file_system_without_sync_is_synced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
