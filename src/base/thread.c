#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"

enum { STACK_BYTES = 1 << 20 };

int thread_start(pthread_t *t, const char *name, void *(*body)(void *), void *arg, struct fb_error *e)
{
    pthread_attr_t attr;
    sigset_t all, before;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
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
