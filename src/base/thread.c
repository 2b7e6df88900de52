#include "base/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/text.h"

enum { STACK_BYTES = 1 << 20 };

/* Those that a thread raises by what it does are left alone: blocked, they would end the process without a word to handlers that tell of
 * crashes (Python's faulthandler, sanitizers, crash reporters). */
static void fill_blocked(sigset_t *set)
{
    static const int raised[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};
    sigfillset(set);
    for (size_t i = 0; i < sizeof(raised) / sizeof(raised[0]); i++)
        sigdelset(set, raised[i]);
}

/* ---- in the background ---- */

enum { SLICE_NS = 20000000 }; /* long: whoever has a shorter one, the default is 0.7 to 3 ms, may interrupt. Linux 6.12; ignored before */

struct fair_attributes { /* struct sched_attr as of Linux 3.14; glibc 2.36 has no name for it */
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

static _Atomic int background_errno;

/* A program that was started under SCHED_IDLE or a real-time policy keeps that policy. */
static void go_into_background(void)
{
    int policy = sched_getscheduler(0);
    if (policy >= 0 && policy != SCHED_OTHER && policy != SCHED_BATCH)
        return;
    struct fair_attributes a = {.size = sizeof(a), .policy = SCHED_BATCH, .nice = getpriority(PRIO_PROCESS, 0), .runtime = SLICE_NS};
    if (syscall(SYS_sched_setattr, 0, &a, 0) != 0)
        atomic_store_explicit(&background_errno, errno, memory_order_relaxed);
}

int thread_background_error(void)
{
    return atomic_load_explicit(&background_errno, memory_order_relaxed);
}

struct start {
    void *(*body)(void *);
    void *arg;
};

static _Thread_local struct {
    void (*run)(void *);
    void *arg;
} at_end;

void thread_at_end(void (*last)(void *), void *arg)
{
    at_end.run = last;
    at_end.arg = arg;
}

static void *run_in_background(void *arg)
{
    struct start s = *(struct start *)arg;
    free(arg);
    go_into_background();
    void *result = s.body(s.arg);
    if (at_end.run)
        at_end.run(at_end.arg);
    return result;
}

int thread_start(pthread_t *t, const char *name, void *(*body)(void *), void *arg, struct fb_error *e)
{
    struct start *s = malloc(sizeof(*s));
    if (!s)
        return error_set_errno(e, "feed", ENOMEM, "start the thread %s", name);
    *s = (struct start){body, arg};
    int rc = thread_start_prompt(t, name, run_in_background, s, e);
    if (rc < 0)
        free(s);
    return rc;
}

int thread_start_prompt(pthread_t *t, const char *name, void *(*body)(void *), void *arg, struct fb_error *e)
{
    pthread_attr_t attr;
    sigset_t blocked, before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    fill_blocked(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int rc = pthread_create(t, &attr, body, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0) {
        char reason[128];
        error_set(e, FB_E_NOMEM, "feed", "cannot start the thread %s: %s", name, text_errno(rc, reason, sizeof(reason)));
        error_remedy(e, "lower threads=, or raise the limit of processes (ulimit -u)");
        if (e && !e->sys_errno)
            e->sys_errno = rc;
        return FB_E_NOMEM;
    }
    pthread_setname_np(*t, name);
    return 0;
}

static struct timespec as_timespec(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* Polled, because pthread_timedjoin_np counts on the wall clock and sanitizers don't know pthread_clockjoin_np. */
bool thread_join_or_leave(pthread_t t, uint64_t timeout_ns)
{
    uint64_t now = clock_now_ns(), deadline = now + timeout_ns;
    for (uint64_t nap_ns = 20000; pthread_tryjoin_np(t, NULL) != 0; now = clock_now_ns()) {
        if (now >= deadline) {
            pthread_detach(t);
            return false;
        }
        clock_sleep_until_ns(now + nap_ns);
        nap_ns = nap_ns < 1000000 ? 2 * nap_ns : nap_ns;
    }
    return true;
}

bool thread_lock_within(pthread_mutex_t *m, uint64_t timeout_ns)
{
    uint64_t now = clock_now_ns(), deadline = now + timeout_ns;
    for (; pthread_mutex_trylock(m) != 0; now = clock_now_ns()) {
        if (now >= deadline)
            return false;
        clock_sleep_until_ns(now + 100000u);
    }
    return true;
}

void thread_be_nice(int by)
{
    int now = getpriority(PRIO_PROCESS, 0); /* Linux: both are of the calling thread alone */
    setpriority(PRIO_PROCESS, 0, now + by);
}

void thread_cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(c, &attr);
    pthread_condattr_destroy(&attr);
}

bool thread_cond_wait_until(pthread_cond_t *c, pthread_mutex_t *m, uint64_t deadline_ns)
{
    struct timespec until = as_timespec(deadline_ns);
    return pthread_cond_timedwait(c, m, &until) != ETIMEDOUT;
}
