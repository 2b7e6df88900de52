/* Which back-end is opened, what is said about it, and what is refused. */
#include "io_fixture.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define CLOSE_NS UINT64_C(5000000000)

/* ---- the log ---- */

struct heard {
    int lines, level;
    char text[512];
};

static void hear(void *ctx, int level, const char *line)
{
    struct heard *h = ctx;
    h->lines++;
    h->level = level;
    snprintf(h->text, sizeof(h->text), "%s", line);
}

/* Opens with a log; 0 if the back-end is called `name`. */
static int open_and_close(const char *spec, const char *name, struct heard *h)
{
    struct io *io;
    struct fb_error e;
    struct log log = {hear, h};
    error_clear(&e);
    if (io_open(&io, spec, 8, &log, &e) < 0)
        return 1;
    int is_other = strcmp(io->ops->name, name) != 0;
    return io->ops->close(io, CLOSE_NS) != 0 || is_other;
}

static bool forbid_uring(int sys_errno)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)sys_errno & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool has_uring(void)
{
    struct io *io = open_or_skip("uring", 1);
    if (io)
        io->ops->close(io, CLOSE_NS);
    return io != NULL;
}

struct refusal {
    int sys_errno;
    const char *words;
};

static int open_where_uring_is_refused(void *arg)
{
    const struct refusal *refusal = arg;
    if (!forbid_uring(refusal->sys_errno))
        return 77;
    struct heard h = {0};
    if (open_and_close("auto", "pread", &h) != 0)
        return 1;
    if (h.lines != 1 || h.level != LOG_INFO || !strstr(h.text, "pread") || !strstr(h.text, refusal->words))
        return 2;
    if (open_and_close(NULL, "pread", &h) != 0 || h.lines != 1) /* said once per process */
        return 3;
    struct fb_error e;
    struct io *io;
    error_clear(&e);
    if (io_open(&io, "uring", 8, NULL, &e) != FB_E_UNSUPPORTED || io || !strstr(e.cause, refusal->words))
        return 4;
    return 0;
}

static void where_uring_is_refused_auto_takes_pread_and_says_why_once(void **state)
{
    (void)state;
    if (!has_uring()) /* then it is refused already, for a reason of its own */
        skip();
    struct refusal refusals[] = {{EPERM, "forbidden"}, {ENOSYS, "no io_uring"}, {ENOMEM, "ulimit -l"}, {EMFILE, "cannot be set up"}};
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        int answer = in_child(open_where_uring_is_refused, &refusals[i]);
        if (answer == 77)
            skip();
        assert_int_equal(answer, 0);
    }
}

static int open_auto(void *arg)
{
    (void)arg;
    struct heard h = {0};
    int rc = open_and_close("auto", "uring", &h);
    return rc == 0 && h.lines == 1 && strstr(h.text, "io_uring") ? 0 : 1;
}

static void auto_takes_uring_where_it_works_and_says_so(void **state)
{
    (void)state;
    if (!has_uring())
        skip();
    assert_int_equal(in_child(open_auto, NULL), 0);
}

static int open_as_environment_says(void *arg)
{
    (void)arg;
    struct heard h = {0};
    struct io *io;
    struct fb_error e;
    setenv("FULLBORE_IO", "null:size=7", 1);
    if (open_and_close("auto", "null", &h) != 0 || open_and_close("pread", "pread", &h) != 0)
        return 1; /* a name that is asked for stays */
    setenv("FULLBORE_IO", "carrier-pigeon", 1);
    error_clear(&e);
    if (io_open(&io, NULL, 8, NULL, &e) != FB_E_USAGE || !strstr(e.cause, "carrier-pigeon"))
        return 2;
    setenv("FULLBORE_IO", "auto", 1);
    error_clear(&e);
    if (io_open(&io, NULL, 8, NULL, &e) != 0)
        return 3;
    return io->ops->close(io, CLOSE_NS) != 0;
}

static int open_what_there_is(void *arg)
{
    (void)arg;
    struct heard h = {0};
    return open_and_close("auto", "pread", &h) == 0 && h.lines == 1 && strstr(h.text, "pread") ? 0 : 1;
}

static void auto_takes_pread_where_there_is_nothing_else(void **state)
{
    (void)state;
    if (has_uring())
        skip();
    assert_int_equal(in_child(open_what_there_is, NULL), 0);
}

static void the_environment_overrides_auto_only(void **state)
{
    (void)state;
    assert_int_equal(in_child(open_as_environment_says, NULL), 0);
}

/* ---- specs ---- */

static void what_makes_no_sense_is_refused_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *words;
    } bad[] = {
        {"carrier-pigeon", "no reader called"},
        {"ur", "no reader called"},
        {"uring:depth=3", "no options"},
        {"pread:x", "no options"},
        {"null:size=", "not valid"},
        {"null:colour=red", "no option 'colour'"},
        {"null:size=1,file=/etc/passwd", "exclude"},
        {"null:file=/nonexistent", "cannot read"},
        {"null:file=/dev", "regular file"},
        {"slow:latency_us=-1", "not valid"},
        {"slow:iops=0", "not valid"},
        {"slow:iops=nan", "not valid"},
        {"slow:bandwidth=fast", "not valid"},
        {"slow:over=", "over="},
        {"slow:over=carrier-pigeon", "no reader called"},
        {"fault:nth=3", "nothing that"},
        {"fault:hang,stuck", "more than one"},
        {"fault:error=EGAL", "not a known errno"},
        {"fault:error=EIO,p=2", "not valid"},
        {"fault:error=EIO,at=night", "not valid"},
        {"fault:error=EIO;over=slow:over=fault:over=x", "no reader called"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct io *io = (struct io *)&bad;
        struct fb_error e;
        error_clear(&e);
        int rc = io_open(&io, bad[i].spec, 4, NULL, &e);
        if (rc >= 0 || io || !strstr(e.cause, bad[i].words))
            fail_msg("%s: rc %d, '%s'", bad[i].spec, rc, e.cause);
        assert_string_equal(e.stage, "read");
        assert_true(io_open(&io, bad[i].spec, 4, NULL, NULL) < 0); /* and without anyone to tell */
    }
}

static void a_spec_of_any_length_is_survived(void **state)
{
    (void)state;
    static const char *const heads[] = {"null:size=", "slow:over=", "fault:error=EIO,path=", "x", "uring:"};
    char *spec = malloc(70000);
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        for (size_t n = 1; n < 69000; n = n * 3 + 1) {
            size_t head = (size_t)snprintf(spec, 70000, "%s", heads[i]);
            memset(spec + head, '1', n);
            spec[head + n] = 0;
            struct io *io;
            struct fb_error e;
            error_clear(&e);
            if (io_open(&io, spec, 4, NULL, &e) == 0)
                assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
        }
    free(spec);
}

static void any_depth_works(void **state)
{
    (void)state;
    static const uint32_t depths[] = {0, 1, 5000, UINT32_MAX};
    for (int k = 0; io_list[k]; k++)
        for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++) {
            bool wants_place = strcmp(io_list[k]->name, "s3") == 0; /* there is none without a bucket */
            struct io *io = wants_place ? NULL : open_or_skip(io_list[k]->name, depths[i]);
            if (!io)
                continue;
            struct io_figures f;
            io->ops->figures(io, &f);
            assert_true(f.depth >= 1 && f.depth <= 4096);
            assert_int_equal(f.reads + f.bytes + f.failures + f.in_flight + f.busy_ns, 0);
            assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(where_uring_is_refused_auto_takes_pread_and_says_why_once),
        cmocka_unit_test(auto_takes_uring_where_it_works_and_says_so),
        cmocka_unit_test(auto_takes_pread_where_there_is_nothing_else),
        cmocka_unit_test(the_environment_overrides_auto_only),
        cmocka_unit_test(what_makes_no_sense_is_refused_with_a_reason),
        cmocka_unit_test(a_spec_of_any_length_is_survived),
        cmocka_unit_test(any_depth_works),
    };
    unsetenv("FULLBORE_IO");
    return cmocka_run_group_tests_name("io_choice", tests, NULL, NULL);
}
