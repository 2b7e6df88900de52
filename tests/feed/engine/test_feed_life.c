/* The life of a loader: closing, forking, interrupting, waiting too long. */
#include "../tally.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../sanitizers.h"
#include "base/clock.h"

static uint64_t close_ns(fb_loader *l)
{
    uint64_t since = clock_now_ns();
    fb_close(l);
    return clock_now_ns() - since;
}

static void close_returns_within_a_second_from_any_state(void **state)
{
    (void)state;
    static const char *const io[] = {"pread", "auto", "slow:latency_us=3000000,over=pread", "fault:hang,nth=10,forever"};
    for (int i = 0; i < 4; i++)
        for (int batches = 0; batches < 3; batches++) {
            struct tally t = {0};
            struct fb_error e = {0};
            fb_options o = photo_options(&photos);
            o.io = io[i];
            fb_loader *l = open_or_fail(&o);
            if (batches)
                assert_true(fb_start_epoch(l, 0, &e) == 0);
            if (i < 2)
                take(l, batches, &t, &e);
            else
                usleep(20000);
            assert_true(close_ns(l) < 1500000000u); /* a second, and some for a loaded machine */
        }
}

static void a_forked_child_is_told(void **state)
{
    (void)state;
#if HAS_THREAD_SANITIZER
    skip(); /* ThreadSanitizer cannot follow threads started in a forked child */
#endif
    fb_options o = photo_options(&photos);
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *b;
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(fb_next_batch(l, &b, &e), 1);
    pid_t child = fork();
    if (child == 0) {
        fb_batch *c;
        struct fb_error told = {0};
        int rc = fb_next_batch(l, &c, &told);
        fb_release_batch(b);
        fb_close(l);
        fb_loader *own; /* the child may open its own */
        struct fb_error none = {0};
        if (fb_open(&o, &own, &none) < 0 || fb_start_epoch(own, 0, &none) != 0 || fb_next_batch(own, &c, &none) != 1)
            _exit(2);
        fb_release_batch(c);
        fb_close(own);
        _exit(rc == FB_E_FORKED && strstr(told.remedy, "fork") ? 0 : 1);
    }
    int status;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    fb_release_batch(b);
    struct tally t = {0};
    assert_int_equal(take(l, 1000, &t, &e), 0); /* the parent goes on */
    fb_close(l);
}

static int say_interrupted(void *ctx)
{
    return ++*(int *)ctx >= 2;
}

static void a_wait_can_be_interrupted_and_resumed(void **state)
{
    (void)state;
    int asked = 0;
    fb_options o = photo_options(&photos);
    o.io = "slow:latency_us=700000,over=pread";
    o.batch_size = 2;
    o.interrupted = say_interrupted;
    o.ctx = &asked;
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    fb_batch *b;
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(fb_next_batch(l, &b, &e), FB_E_INTERRUPTED);
    asked = -1000000;
    memset(&e, 0, sizeof(e));
    assert_int_equal(fb_next_batch(l, &b, &e), 1);
    fb_release_batch(b);
    fb_close(l);
}

static uint64_t own_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* With and without somebody to ask meanwhile. */
static void waiting_takes_no_processor(void **state)
{
    (void)state;
    for (int has_question = 0; has_question < 2; has_question++) {
        int asked = -1000000;
        fb_options o = photo_options(&photos);
        o.io = "slow:latency_us=1000000,over=pread";
        o.batch_size = 2;
        o.interrupted = has_question ? say_interrupted : NULL;
        o.ctx = &asked;
        fb_loader *l = open_or_fail(&o);
        struct fb_error e = {0};
        fb_batch *b;
        assert_true(fb_start_epoch(l, 0, &e) == 0);
        uint64_t since = clock_now_ns(), cpu = own_cpu_ns();
        assert_int_equal(fb_next_batch(l, &b, &e), 1);
        assert_true((own_cpu_ns() - cpu) * 10 < clock_now_ns() - since);
        fb_release_batch(b);
        fb_close(l);
    }
}

struct log_book {
    char lines[8192];
};

static void write_down(void *ctx, int level, const char *line)
{
    struct log_book *book = ctx;
    (void)level;
    strncat(book->lines, line, sizeof(book->lines) - strlen(book->lines) - 2);
    strcat(book->lines, "\n");
}

static void the_watchdog_names_what_is_waited_for(void **state)
{
    (void)state;
    static struct log_book book;
    setenv("FULLBORE_WATCHDOG", "1", 1);
    fb_options o = photo_options(&photos);
    o.io = "slow:latency_us=2600000,over=pread";
    o.batch_size = 1;
    o.log = write_down;
    o.ctx = &book;
    fb_loader *l = open_or_fail(&o);
    struct fb_error e = {0};
    struct tally t = {0};
    assert_true(fb_start_epoch(l, 0, &e) == 0);
    assert_int_equal(take(l, 1, &t, &e), 1);
    fb_close(l);
    unsetenv("FULLBORE_WATCHDOG");
    assert_non_null(strstr(book.lines, ".jpg"));
    assert_non_null(strstr(book.lines, "being read"));
}

/* sched_setattr is forbidden from now on, as some sandboxes do. */
static void forbid_the_background(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setattr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(*filter), filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

static void count_background(void *ctx, int level, const char *line)
{
    (void)level;
    *(int *)ctx += strstr(line, "in the background") != NULL;
}

/* How often it is said to each of three loaders in turn, the first of which has nobody who listens. */
static int be_in_a_sandbox(void)
{
    int said[3] = {0};
    forbid_the_background();
    for (int i = 0; i < 3; i++) {
        fb_options o = photo_options(&photos);
        o.log = i ? count_background : NULL;
        o.ctx = &said[i];
        fb_loader *l = open_or_fail(&o);
        struct tally t = run_epoch(l, 0);
        fb_close(l);
        assert_each_once(&t, PHOTOS);
    }
    return said[1] == 1 && said[2] == 0 ? 0 : 1;
}

static void that_the_background_is_forbidden_is_said_once_to_who_listens(void **state)
{
    (void)state;
#if HAS_THREAD_SANITIZER
    skip(); /* ThreadSanitizer cannot follow threads started in a forked child */
#endif
    pid_t child = fork();
    if (child == 0)
        _exit(be_in_a_sandbox());
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(close_returns_within_a_second_from_any_state),
        cmocka_unit_test(a_forked_child_is_told),
        cmocka_unit_test(a_wait_can_be_interrupted_and_resumed),
        cmocka_unit_test(waiting_takes_no_processor),
        cmocka_unit_test(the_watchdog_names_what_is_waited_for),
        cmocka_unit_test(that_the_background_is_forbidden_is_said_once_to_who_listens),
    };
    return run_photo_tests(tests);
}
