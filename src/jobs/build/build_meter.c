/* Who does what at each moment: time by the set of stages that are going on, so that overlap is known and not guessed. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "jobs/build/build_internal.h"

const char *const build_split_names[BUILD_MAX_SPLITS] = {"train", "val", "test"};
const char *const build_stage_names[BUILD_STAGES + 1] = {"read", "compute", "compress", "write", "finish"};

#define RECENT_NS UINT64_C(2000000000)

void build_meter_open(struct build_meter *m)
{
    memset(m, 0, sizeof(*m));
    pthread_mutex_init(&m->lock, NULL);
    m->since_ns = m->past_ns = clock_now_ns();
}

void build_meter_close(struct build_meter *m)
{
    build_meter_move(m, -1, -1, 0);
    pthread_mutex_destroy(&m->lock);
}

uint64_t build_meter_move(struct build_meter *m, int from, int to, uint64_t ahead)
{
    pthread_mutex_lock(&m->lock);
    uint64_t now = clock_now_ns();
    m->wall_ns[m->mask] += now - m->since_ns;
    m->since_ns = now;
    if (from >= 0 && --m->in[from] == 0)
        m->mask &= ~(1u << from);
    if (to >= 0 && m->in[to]++ == 0)
        m->mask |= 1u << to;
    if (to == BUILD_READ) {
        m->asked_times++;
        uint64_t depth = (uint64_t)m->in[to] + ahead;
        m->asked_sum += depth;
        m->asked_most = depth > m->asked_most ? depth : m->asked_most;
    }
    pthread_mutex_unlock(&m->lock);
    return now;
}

void build_meter_add(struct build_meter *m, int split, const struct build_figures *n)
{
    pthread_mutex_lock(&m->lock);
    struct build_figures *f = &m->split[split];
    f->files += n->files;
    f->rows += n->rows;
    f->bad += n->bad;
    f->bytes_read += n->bytes_read;
    for (int i = 0; i < BUILD_STAGES; i++)
        f->seconds[i] += n->seconds[i];
    f->file_cpu_seconds += n->file_cpu_seconds;
    f->batch_seconds += n->batch_seconds;
    f->batch_most = n->batch_most > f->batch_most ? n->batch_most : f->batch_most;
    f->batches += n->batches;
    pthread_mutex_unlock(&m->lock);
}

static int largest(const double *x)
{
    int most = 0;
    for (int i = 1; i < BUILD_STAGES; i++)
        most = x[i] > x[most] ? i : most;
    return most;
}

enum build_stage build_meter_bottleneck(struct build_meter *m, uint64_t now_ns)
{
    double sum[BUILD_STAGES] = {0}, recent[BUILD_STAGES], all = 0;
    pthread_mutex_lock(&m->lock);
    for (int s = 0; s < BUILD_MAX_SPLITS; s++)
        for (int i = 0; i < BUILD_STAGES; i++)
            sum[i] += m->split[s].seconds[i];
    pthread_mutex_unlock(&m->lock);
    if (m->writers) /* they have nothing else to do, and their time is not the others' */
        sum[BUILD_WRITE] *= (double)m->threads / m->writers;
    if (now_ns - m->past_ns >= RECENT_NS) {
        memcpy(m->past[0], m->past[1], sizeof(sum));
        memcpy(m->past[1], sum, sizeof(sum));
        m->past_ns = now_ns;
    }
    for (int i = 0; i < BUILD_STAGES; i++)
        all += recent[i] = sum[i] - m->past[0][i];
    return (enum build_stage)largest(all > 0 ? recent : sum); /* nothing may have ended in that time */
}

void build_meter_slow(struct build_meter *m, const char *key, uint64_t ns)
{
    if (ns <= atomic_load_explicit(&m->slow_enough_ns, memory_order_relaxed)) /* nearly always */
        return;
    double milliseconds = (double)ns / 1e6;
    int i = BUILD_SLOWEST;
    pthread_mutex_lock(&m->lock);
    while (i > 0 && m->slow[i - 1].milliseconds < milliseconds)
        i--;
    if (i < BUILD_SLOWEST) {
        memmove(&m->slow[i + 1], &m->slow[i], (size_t)(BUILD_SLOWEST - 1 - i) * sizeof(m->slow[0]));
        snprintf(m->slow[i].key, sizeof(m->slow[i].key), "%.190s", key);
        m->slow[i].milliseconds = milliseconds;
    }
    atomic_store_explicit(&m->slow_enough_ns, (uint64_t)(m->slow[BUILD_SLOWEST - 1].milliseconds * 1e6), memory_order_relaxed);
    pthread_mutex_unlock(&m->lock);
}
