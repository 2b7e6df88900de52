/* Counting: what each stage did and waited for. Sharded by thread, summed when read.
 *
 * Relaxed atomics throughout: each shard has few writers, readers want figures, not order.
 */
#ifndef FB_METER_METER_H
#define FB_METER_METER_H

#include <stdatomic.h>
#include <stdint.h>

enum stage { STAGE_PLAN, STAGE_READ, STAGE_DECODE, STAGE_TRANSFORM, STAGE_DELIVER, STAGE_COUNT };

/* One stage's counters; *_ns are sums over threads. */
struct stage_meter {
    _Atomic uint64_t busy_ns;
    _Atomic uint64_t wait_in_ns;  /* nothing to do: the stage before is slower */
    _Atomic uint64_t wait_out_ns; /* nowhere to put it: the stage after is slower */
    _Atomic uint64_t items, bytes;
};

enum { METER_SHARDS = 16 };

struct meter {
    struct {
        _Alignas(128) struct stage_meter stage[STAGE_COUNT];
    } shard[METER_SHARDS];
};

struct stage_figures {
    uint64_t busy_ns, wait_in_ns, wait_out_ns, items, bytes;
};

const char *meter_stage_name(enum stage s);

static inline void meter_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t meter_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void meter_work(struct meter *m, uint32_t shard, enum stage s, uint64_t busy_ns, uint64_t items, uint64_t bytes);
void meter_read(const struct meter *m, enum stage s, struct stage_figures *out);

/* A histogram of durations in powers of two of a microsecond; for tails. */
enum { HISTOGRAM_BINS = 32 };
struct histogram {
    _Atomic uint64_t bin[HISTOGRAM_BINS];
};
void histogram_add(struct histogram *h, uint64_t ns);
/* The duration (ns, upper edge of its bin) below which `share` of them lie; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, double share);

#endif
