/* Threads, conditions, time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../sanitizers.h"
#include "base/clock.h"
#include "base/thread.h"

struct seen {
    char name[32];
    bool is_blocked, can_crash;
};

static void *look_around(void *arg)
{
    struct seen *s = arg;
    sigset_t mask;
    for (int i = 0; i < 1000; i++) { /* the name is set by the starter, right after the start */
        pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
        if (strcmp(s->name, "fb-test") == 0)
            break;
        clock_sleep_until_ns(clock_now_ns() + 1000000);
    }
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    s->is_blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGUSR1) &&
                    sigismember(&mask, SIGPIPE) && sigismember(&mask, SIGCHLD) && sigismember(&mask, SIGALRM) &&
                    sigismember(&mask, SIGPROF);
    s->can_crash = !sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGBUS) && !sigismember(&mask, SIGFPE) &&
                   !sigismember(&mask, SIGILL) && !sigismember(&mask, SIGTRAP) && !sigismember(&mask, SIGSYS) &&
                   !sigismember(&mask, SIGABRT);
    return NULL;
}

static void a_thread_has_its_name_and_takes_no_signals_but_those_of_crashes(void **state)
{
    (void)state;
    struct seen s = {0};
    pthread_t t;
    sigset_t before, after;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    assert_int_equal(thread_start(&t, "fb-test", look_around, &s, NULL), 0);
    assert_true(thread_join_or_leave(t, UINT64_C(60) * 1000000000));
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    assert_string_equal(s.name, "fb-test");
    assert_true(s.is_blocked);
    assert_true(s.can_crash);
    for (int sig = 1; sig < 32; sig++)
        assert_int_equal(sigismember(&before, sig), sigismember(&after, sig));
}

static void *see_policy(void *arg)
{
    *(int *)arg = sched_getscheduler(0);
    return NULL;
}

static int policy_of(int (*start)(pthread_t *, const char *, void *(*)(void *), void *, struct fb_error *))
{
    int policy = -1;
    pthread_t t;
    assert_int_equal(start(&t, "fb-test", see_policy, &policy, NULL), 0);
    assert_true(thread_join_or_leave(t, UINT64_C(60) * 1000000000));
    return policy;
}

static void a_thread_works_in_the_background_and_a_timer_does_not(void **state)
{
    (void)state;
    assert_int_equal(policy_of(thread_start), SCHED_BATCH);
    assert_int_equal(policy_of(thread_start_prompt), SCHED_OTHER);
    assert_int_equal(thread_background_error(), 0);
    assert_int_equal(sched_getscheduler(0), SCHED_OTHER); /* the caller's own is not touched */
}

static void *be_idle(void *arg)
{
    struct sched_param none = {0};
    *(int *)arg = sched_setscheduler(0, SCHED_IDLE, &none) == 0 ? policy_of(thread_start) : -1;
    return NULL;
}

static void a_program_that_chose_its_policy_keeps_it(void **state)
{
    (void)state;
    int policy = -1;
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, be_idle, &policy), 0);
    pthread_join(t, NULL);
    assert_int_equal(policy, SCHED_IDLE);
    assert_int_equal(thread_background_error(), 0);
}

/* In this process and all its threads to come, sched_setattr is forbidden, as some sandboxes do. */
static void forbid_sched_setattr(void)
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

static void a_sandbox_that_forbids_the_background_is_no_obstacle(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        forbid_sched_setattr();
        _exit(policy_of(thread_start) == SCHED_OTHER && thread_background_error() == EPERM ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void *wait_for_flag(void *arg)
{
    atomic_int *flag = arg;
    while (!atomic_load(flag))
        clock_sleep_until_ns(clock_now_ns() + 1000000);
    atomic_store(flag, 2);
    return NULL;
}

static void a_stuck_thread_is_left_behind_in_time(void **state)
{
    (void)state;
    static atomic_int flag;
    pthread_t t;
    assert_int_equal(thread_start(&t, "fb-stuck", wait_for_flag, &flag, NULL), 0);
    uint64_t begin = clock_now_ns();
    assert_false(thread_join_or_leave(t, 30000000));
    assert_true(clock_now_ns() - begin >= 30000000);
    atomic_store(&flag, 1);
    while (atomic_load(&flag) != 2)
        clock_sleep_until_ns(clock_now_ns() + 1000000);
}

static void *stay(void *arg)
{
    for (;;)
        pause();
    return arg;
}

/* In a child, where the address space can be made too small for another stack; the first few may find a cached one. */
static int start_without_room(void)
{
    struct rlimit none = {1, 1};
    struct fb_error e = {0};
    pthread_t t;
    if (setrlimit(RLIMIT_AS, &none) != 0)
        return 77;
    int rc = 0;
    for (int i = 0; rc == 0 && i < 100; i++)
        rc = thread_start(&t, "fb-none", stay, NULL, &e);
    if (rc != FB_E_NOMEM || e.code != FB_E_NOMEM)
        return 1;
    return strstr(e.cause, "fb-none") && strstr(e.remedy, "threads=") && e.sys_errno ? 0 : 2;
}

static void a_thread_that_cannot_start_is_an_error_in_words(void **state)
{
    (void)state;
#if HAS_ADDRESS_SANITIZER || HAS_THREAD_SANITIZER
    skip(); /* sanitizers need their address space */
#endif
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(start_without_room());
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_timed_wait_uses_the_monotonic_clock_and_ends(void **state)
{
    (void)state;
    pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t c;
    thread_cond_init(&c);
    pthread_mutex_lock(&m);
    uint64_t begin = clock_now_ns();
    while (thread_cond_wait_until(&c, &m, begin + 20000000))
        ; /* spurious wake-ups are allowed */
    assert_true(clock_now_ns() - begin >= 20000000);
    assert_false(thread_cond_wait_until(&c, &m, begin)); /* a time that is over */
    pthread_mutex_unlock(&m);
    pthread_cond_destroy(&c);
}

struct meeting {
    pthread_mutex_t m;
    pthread_cond_t c;
    bool is_done;
};

static void *signal_once(void *arg)
{
    struct meeting *x = arg;
    pthread_mutex_lock(&x->m);
    x->is_done = true;
    pthread_cond_signal(&x->c);
    pthread_mutex_unlock(&x->m);
    return NULL;
}

static void a_signal_ends_the_wait(void **state)
{
    (void)state;
    struct meeting x = {.m = PTHREAD_MUTEX_INITIALIZER};
    pthread_t t;
    thread_cond_init(&x.c);
    pthread_mutex_lock(&x.m);
    assert_int_equal(thread_start(&t, "fb-signal", signal_once, &x, NULL), 0);
    while (!x.is_done)
        assert_true(thread_cond_wait_until(&x.c, &x.m, clock_now_ns() + UINT64_C(60) * 1000000000));
    pthread_mutex_unlock(&x.m);
    assert_true(thread_join_or_leave(t, UINT64_C(60) * 1000000000));
    pthread_cond_destroy(&x.c);
}

struct ending {
    pthread_key_t key;
    bool must_exit, has_returned, has_ended;
};

static void note_the_end(void *arg)
{
    struct ending *x = arg;
    assert_true(x->has_returned);
    x->has_ended = pthread_getspecific(x->key) == x;
}

static void *end_as_told(void *arg)
{
    struct ending *x = arg;
    pthread_setspecific(x->key, x);
    thread_at_end(note_the_end, x);
    if (x->must_exit)
        pthread_exit(NULL);
    x->has_returned = true;
    return NULL;
}

static void what_is_left_to_do_at_the_end_is_done_while_keys_have_their_values(void **state)
{
    (void)state;
    for (int must_exit = 0; must_exit < 2; must_exit++) {
        struct ending x = {.must_exit = must_exit};
        pthread_t t;
        pthread_key_create(&x.key, NULL);
        assert_int_equal(thread_start(&t, "fb-ending", end_as_told, &x, NULL), 0);
        pthread_join(t, NULL);
        assert_int_equal(x.has_ended, !must_exit);
        pthread_key_delete(x.key);
    }
}

static void time_goes_forward(void **state)
{
    (void)state;
    uint64_t a = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    clock_sleep_until_ns(a + 5000000);
    uint64_t b = clock_now_ns();
    assert_true(b - a >= 5000000);
    clock_sleep_until_ns(a); /* the past: returns at once */
    assert_true(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) >= cpu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_its_name_and_takes_no_signals_but_those_of_crashes),
        cmocka_unit_test(a_thread_works_in_the_background_and_a_timer_does_not),
        cmocka_unit_test(a_program_that_chose_its_policy_keeps_it),
        cmocka_unit_test(a_sandbox_that_forbids_the_background_is_no_obstacle),
        cmocka_unit_test(a_stuck_thread_is_left_behind_in_time),
        cmocka_unit_test(a_thread_that_cannot_start_is_an_error_in_words),
        cmocka_unit_test(a_timed_wait_uses_the_monotonic_clock_and_ends),
        cmocka_unit_test(a_signal_ends_the_wait),
        cmocka_unit_test(what_is_left_to_do_at_the_end_is_done_while_keys_have_their_values),
        cmocka_unit_test(time_goes_forward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
