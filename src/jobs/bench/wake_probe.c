#include "jobs/bench/wake_probe.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

enum { PERIOD_NS = 1000000, BINS = 4096, BIN_NS = 5000 }; /* up to 20 ms in steps of 5 us; the last bin takes the rest */

struct probe {
    pthread_t thread;
    _Atomic bool is_stopping;
    uint64_t bin[BINS];
    uint64_t count;
};

static void *probe_main(void *arg)
{
    struct probe *p = arg;
    uint64_t due = clock_now_ns();
    while (!atomic_load_explicit(&p->is_stopping, memory_order_relaxed)) {
        due += PERIOD_NS;
        clock_sleep_until_ns(due);
        uint64_t now = clock_now_ns(), late = now - due;
        p->bin[late / BIN_NS < BINS ? late / BIN_NS : BINS - 1]++;
        p->count++;
        if (late > PERIOD_NS)
            due = now;
    }
    return NULL;
}

int probe_start(struct probe **out, struct fb_error *e)
{
    struct probe *p = calloc(1, sizeof(*p));
    if (!p)
        return error_set(e, FB_E_NOMEM, "bench", "no memory for the probe");
    int rc = thread_start_prompt(&p->thread, "fb-probe", probe_main, p, e);
    if (rc < 0) {
        free(p);
        return rc;
    }
    *out = p;
    return 0;
}

double probe_stop(struct probe *p)
{
    atomic_store_explicit(&p->is_stopping, true, memory_order_relaxed);
    pthread_join(p->thread, NULL);
    uint64_t below = 0;
    int i = 0;
    for (; i < BINS - 1; i++) {
        below += p->bin[i];
        if ((double)below >= 0.99 * (double)p->count)
            break;
    }
    free(p);
    return (double)(i + 1) * BIN_NS / 1e9;
}
