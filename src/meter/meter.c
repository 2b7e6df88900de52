#include "meter/meter.h"

#include <string.h>

#include "base/clock.h"
#include "meter/trace.h"

const char *meter_stage_name(enum stage s)
{
    static const char *const names[STAGE_COUNT] = {"plan", "read", "decode", "transform", "deliver"};
    return names[s];
}

void meter_work(struct meter *m, uint32_t shard, enum stage s, uint64_t busy_ns, uint64_t items, uint64_t bytes)
{
    struct stage_meter *c = &m->shard[shard % METER_SHARDS].stage[s];
    meter_add(&c->busy_ns, busy_ns);
    meter_add(&c->items, items);
    meter_add(&c->bytes, bytes);
    if (trace_is_on()) {
        uint64_t now = clock_now_ns();
        trace_note(m, meter_stage_name(s), now - busy_ns, now, bytes);
    }
}

void meter_read(const struct meter *m, enum stage s, struct stage_figures *out)
{
    memset(out, 0, sizeof(*out));
    for (int i = 0; i < METER_SHARDS; i++) {
        const struct stage_meter *c = &m->shard[i].stage[s];
        out->busy_ns += atomic_load_explicit(&c->busy_ns, memory_order_relaxed);
        out->wait_in_ns += atomic_load_explicit(&c->wait_in_ns, memory_order_relaxed);
        out->wait_out_ns += atomic_load_explicit(&c->wait_out_ns, memory_order_relaxed);
        out->items += atomic_load_explicit(&c->items, memory_order_relaxed);
        out->bytes += atomic_load_explicit(&c->bytes, memory_order_relaxed);
    }
}

static int bin_of(uint64_t ns)
{
    uint64_t us = ns / 1000;
    int bin = us ? 64 - __builtin_clzll(us) : 0;
    return bin < HISTOGRAM_BINS ? bin : HISTOGRAM_BINS - 1;
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    meter_add(&h->bin[bin_of(ns)], 1);
}

uint64_t histogram_quantile(const struct histogram *h, double share)
{
    uint64_t count[HISTOGRAM_BINS], total = 0, below = 0;
    for (int i = 0; i < HISTOGRAM_BINS; i++)
        total += count[i] = atomic_load_explicit(&h->bin[i], memory_order_relaxed);
    if (total == 0)
        return 0;
    for (int i = 0; i < HISTOGRAM_BINS; i++) {
        below += count[i];
        if ((double)below >= share * (double)total)
            return (uint64_t)1000 << i;
    }
    return (uint64_t)1000 << (HISTOGRAM_BINS - 1);
}
