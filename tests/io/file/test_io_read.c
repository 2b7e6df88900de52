/* Every back-end that reads files reads the same, and says the same when it cannot. */
#include "../io_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
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

static void whole_files_of_any_size_arrive(void **state)
{
    static const uint64_t part = 4 << 20; /* larger files are read in parts of this size */
    const uint64_t sizes[] = {0, 1, 63, 4095, 4096, 4097, 61440, 65536, 110001, 1 << 20, part - 1, part, part + 1, 10000000};
    struct io *io = open_reader(state);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char name[32];
        snprintf(name, sizeof(name), "f%zu", i);
        file_write(&folder, name, sizes[i]);
        struct call c;
        call_init(&c, &folder, name, sizes[i]);
        assert_int_equal(call_run(io, &c), 0);
        call_assert_bytes(&c, name, 0, sizes[i]);
        assert_int_equal(c.r.object_size, sizes[i]);
        assert_true(c.r.object_mtime_ns > 0);
        assert_true(c.r.done_ns >= c.r.submitted_ns && c.r.submitted_ns > 0);
        call_free(&c);
    }
    struct io_figures f;
    io->ops->figures(io, &f);
    assert_int_equal(f.reads, sizeof(sizes) / sizeof(sizes[0]));
    assert_int_equal(f.failures, 0);
    assert_int_equal(f.in_flight, 0);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void ranges_arrive_and_stop_at_the_end(void **state)
{
    static const struct {
        uint64_t offset, length, got;
    } ranges[] = {{0, 1, 1},       {0, 100000, 100000}, {5, 4096, 4096},         {99999, 1, 1},         {99999, 500, 1},
                  {100000, 10, 0}, {200000, 10, 0},     {INT64_MAX - 10, 10, 0}, {50000, 50000, 50000}, {50, 0, 0}};
    struct io *io = open_reader(state);
    file_write(&folder, "range", 100000);
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        struct call c;
        call_init(&c, &folder, "range", 100000);
        c.r.offset = ranges[i].offset;
        c.r.length = ranges[i].length;
        assert_int_equal(call_run(io, &c), 0);
        call_assert_bytes(&c, "range", ranges[i].offset, ranges[i].got);
        assert_int_equal(c.r.object_size, 100000);
        assert_int_equal(c.r.buffer[ranges[i].got], 0xEE);
        call_free(&c);
    }
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void a_range_no_file_can_have_is_refused(void **state)
{
    struct io *io = open_reader(state);
    file_write(&folder, "range", 100);
    struct call c;
    call_init(&c, &folder, "range", 100);
    c.r.offset = INT64_MAX;
    c.r.length = 50;
    assert_int_equal(call_run(io, &c), FB_E_USAGE);
    c.r.offset = 0;
    c.r.length = 101; /* the buffer holds 100 and the tail */
    assert_int_equal(call_run(io, &c), FB_E_USAGE);
    c.r.length = IO_WHOLE;
    c.r.capacity = IO_TAIL - 1;
    assert_int_equal(call_run(io, &c), FB_E_USAGE);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void absolute_paths_are_read(void **state)
{
    struct io *io = open_reader(state);
    char path[256];
    snprintf(path, sizeof(path), "%s/there", folder.path);
    file_write(&folder, "there", 1234);
    struct call c;
    call_init(&c, &folder, path, 1234);
    c.r.dir_fd = -1;
    assert_int_equal(call_run(io, &c), 0);
    call_assert_bytes(&c, "there", 0, 1234);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void a_missing_file_has_vanished(void **state)
{
    struct io *io = open_reader(state);
    struct call c;
    call_init(&c, &folder, "nowhere", 10);
    assert_int_equal(call_run(io, &c), FB_E_NOT_FOUND);
    assert_int_equal(c.error.code, FB_E_NOT_FOUND);
    assert_int_equal(c.error.sys_errno, ENOENT);
    assert_string_equal(c.error.stage, "read");
    assert_string_equal(c.error.path, "nowhere");
    assert_non_null(strstr(c.error.cause, "vanished"));
    assert_int_equal(c.r.got, 0);
    c.r.error = NULL; /* nobody wants to know */
    assert_int_equal(call_run(io, &c), FB_E_NOT_FOUND);
    call_free(&c);
    struct io_figures f;
    io->ops->figures(io, &f);
    assert_int_equal(f.failures, 2);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void assert_refused(struct io *io, const char *name, const char *kind)
{
    struct call c;
    call_init(&c, &folder, name, 10);
    assert_int_equal(call_run(io, &c), FB_E_DATA);
    if (!strstr(c.error.cause, kind))
        fail_msg("%s: expected '%s' in '%s'", name, kind, c.error.cause);
    assert_non_null(strstr(c.error.cause, "not a regular file"));
    call_free(&c);
}

static void what_is_no_regular_file_is_refused_by_kind(void **state)
{
    struct io *io = open_reader(state);
    assert_int_equal(mkdirat(folder.fd, "dir", 0700), 0);
    assert_int_equal(mkfifoat(folder.fd, "fifo", 0600), 0);
    assert_int_equal(symlinkat("/dev/zero", folder.fd, "zero"), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", folder.path);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_refused(io, "dir", "a directory");
    assert_refused(io, "fifo", "a FIFO");
    assert_refused(io, "zero", "a device");
    assert_refused(io, "socket", "a socket");
    close(s);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* A writer is waiting: its bytes must stay in the FIFO. */
static void a_fifo_keeps_its_bytes(void **state)
{
    struct io *io = open_reader(state);
    assert_int_equal(mkfifoat(folder.fd, "fifo", 0600), 0);
    int end = openat(folder.fd, "fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(write(end, "0123456789", 10), 10);
    assert_refused(io, "fifo", "a FIFO");
    char bytes[16];
    assert_int_equal(read(end, bytes, sizeof(bytes)), 10);
    close(end);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* As somebody who may not; root may read everything. */
static int read_secret_as_nobody(void *spec)
{
    enum { NOBODY = 65534 };
    if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
        return 77;
    struct io *io;
    struct call c;
    call_init(&c, &folder, "secret", 10);
    int rc = io_open(&io, spec, 4, NULL, &c.error);
    if (rc == FB_E_UNSUPPORTED)
        return 77;
    if (rc < 0 || call_run(io, &c) != FB_E_IO || c.error.sys_errno != EACCES || !strstr(c.error.remedy, "permissions"))
        return 1;
    return io->ops->close(io, CLOSE_NS) != 0;
}

static void an_unreadable_file_is_a_question_of_permissions(void **state)
{
    file_write(&folder, "secret", 10);
    assert_int_equal(fchmodat(folder.fd, "secret", 0, 0), 0);
    assert_int_equal(chmod(folder.path, 0755), 0);
    int answer = in_child(read_secret_as_nobody, *state);
    if (answer == 77)
        skip();
    assert_int_equal(answer, 0);
}

static void a_file_smaller_than_expected_is_read_as_it_is(void **state)
{
    struct io *io = open_reader(state);
    file_write(&folder, "small", 700);
    struct call c;
    call_init(&c, &folder, "small", 100000);
    assert_int_equal(call_run(io, &c), 0);
    call_assert_bytes(&c, "small", 0, 700);
    assert_int_equal(c.r.object_size, 700);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void a_file_that_outgrew_its_buffer_says_how_large_it_is(void **state)
{
    struct io *io = open_reader(state);
    file_write(&folder, "large", 50000);
    struct call c;
    call_init(&c, &folder, "large", 49999);
    assert_int_equal(call_run(io, &c), IO_GREW);
    assert_int_equal(c.r.object_size, 50000);
    assert_int_equal(c.r.got, 0);
    c.r.capacity = 50000 + IO_TAIL;
    c.r.buffer = realloc(c.r.buffer, c.r.capacity);
    assert_int_equal(call_run(io, &c), 0);
    call_assert_bytes(&c, "large", 0, 50000);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void too_many_open_files_is_told_with_its_remedy(void **state)
{
    struct io *io = open_reader(state);
    file_write(&folder, "f", 1000);
    struct call c;
    call_init(&c, &folder, "f", 1000);
    assert_int_equal(call_run(io, &c), 0); /* everything that needs a descriptor of its own has it now */
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int rc = call_run(io, &c);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(rc, FB_E_IO);
    assert_int_equal(c.error.sys_errno, EMFILE);
    assert_non_null(strstr(c.error.remedy, "ulimit -n"));
    assert_int_equal(call_run(io, &c), 0); /* and it goes on */
    call_assert_bytes(&c, "f", 0, 1000);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

/* ---- what happens between open and the end of reading, step by step ---- */

struct step {
    struct call c;
    struct io_file file;
    int fd;
};

static void step_begin(struct step *s, uint64_t size, uint64_t expected_size)
{
    file_write(&folder, "step", size);
    call_init(&s->c, &folder, "step", expected_size);
    s->fd = openat(folder.fd, "step", O_RDWR | O_CLOEXEC);
    assert_int_equal(io_file_begin(&s->c.r, &s->file, s->fd), IO_FILE_MORE);
}

static int step_read(struct step *s)
{
    struct io_part p = io_file_part(&s->c.r, &s->file);
    assert_true(p.to + p.bytes <= s->c.r.buffer + s->c.r.capacity);
    return io_file_take(&s->c.r, &s->file, s->fd, pread(s->fd, p.to, p.bytes, (off_t)p.offset));
}

static void step_end(struct step *s)
{
    call_free(&s->c);
    close(s->fd);
}

static void a_file_that_shrinks_while_being_read_is_an_error_with_its_offset(void **state)
{
    (void)state;
    struct step s;
    step_begin(&s, 9000, 9000);
    assert_int_equal(ftruncate(s.fd, 4000), 0);
    assert_int_equal(step_read(&s), IO_FILE_MORE);
    assert_int_equal(step_read(&s), FB_E_IO);
    assert_int_equal(s.c.error.offset, 4000);
    assert_non_null(strstr(s.c.error.cause, "shrinks while being read"));
    step_end(&s);
}

static void a_file_that_grows_while_being_read_is_read_to_its_new_end(void **state)
{
    (void)state;
    struct step s;
    step_begin(&s, 9000, 20000);
    file_write(&folder, "step", 15000);
    int rc;
    while ((rc = step_read(&s)) == IO_FILE_MORE)
        ;
    assert_int_equal(rc, 0);
    call_assert_bytes(&s.c, "step", 0, 15000);
    assert_int_equal(s.c.r.object_size, 15000);
    step_end(&s);
}

static void a_file_that_grows_past_the_buffer_while_being_read_says_so(void **state)
{
    (void)state;
    struct step s;
    step_begin(&s, 9000, 9000);
    file_write(&folder, "step", 15000);
    int rc;
    while ((rc = step_read(&s)) == IO_FILE_MORE)
        ;
    assert_int_equal(rc, IO_GREW);
    assert_int_equal(s.c.r.object_size, 15000);
    step_end(&s);
}

static void interrupted_and_short_reads_go_on(void **state)
{
    (void)state;
    struct step s;
    step_begin(&s, 9000, 9000);
    assert_int_equal(io_file_take(&s.c.r, &s.file, s.fd, -EINTR), IO_FILE_MORE);
    assert_int_equal(pread(s.fd, s.c.r.buffer, 100, 0), 100);
    assert_int_equal(io_file_take(&s.c.r, &s.file, s.fd, 100), IO_FILE_MORE);
    assert_int_equal(step_read(&s), 0);
    call_assert_bytes(&s.c, "step", 0, 9000);
    step_end(&s);
}

/* Sizes are claims: /proc says 0 for files that have content. */
static void a_file_that_says_nothing_of_its_size_is_read_to_the_end(void **state)
{
    struct io *io = open_reader(state);
    struct call c;
    call_init(&c, &folder, "/proc/self/status", 100000);
    assert_int_equal(call_run(io, &c), 0);
    assert_true(c.r.got > 100);
    assert_int_equal(c.r.object_size, c.r.got);
    assert_memory_equal(c.r.buffer, "Name:", 5);
    call_free(&c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

#define WITH_FOLDER(...)                                                 \
    static const struct CMUnitTest bare_tests[] = {__VA_ARGS__};         \
    struct CMUnitTest tests[sizeof(bare_tests) / sizeof(bare_tests[0])]; \
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {      \
        tests[i] = bare_tests[i];                                        \
        tests[i].setup_func = set_up;                                    \
        tests[i].teardown_func = tear_down;                              \
    }

int main(void)
{
    WITH_FOLDER(
        FOR_EACH_READER(whole_files_of_any_size_arrive), FOR_EACH_READER(ranges_arrive_and_stop_at_the_end),
        FOR_EACH_READER(a_range_no_file_can_have_is_refused), FOR_EACH_READER(absolute_paths_are_read),
        FOR_EACH_READER(a_missing_file_has_vanished), FOR_EACH_READER(what_is_no_regular_file_is_refused_by_kind),
        FOR_EACH_READER(a_fifo_keeps_its_bytes), FOR_EACH_READER(an_unreadable_file_is_a_question_of_permissions),
        FOR_EACH_READER(a_file_smaller_than_expected_is_read_as_it_is),
        FOR_EACH_READER(a_file_that_outgrew_its_buffer_says_how_large_it_is), FOR_EACH_READER(too_many_open_files_is_told_with_its_remedy),
        FOR_EACH_READER(a_file_that_says_nothing_of_its_size_is_read_to_the_end),
        cmocka_unit_test(a_file_that_shrinks_while_being_read_is_an_error_with_its_offset),
        cmocka_unit_test(a_file_that_grows_while_being_read_is_read_to_its_new_end),
        cmocka_unit_test(a_file_that_grows_past_the_buffer_while_being_read_says_so), cmocka_unit_test(interrupted_and_short_reads_go_on))
    return cmocka_run_group_tests_name("io_read", tests, NULL, NULL);
}
