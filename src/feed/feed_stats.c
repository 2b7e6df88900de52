/* What a feed has done, as JSON. Names are promises; see docs/statistics.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "feed/arrays.h"
#include "feed/crew.h"
#include "feed/source_cache.h"

enum { MOST_TEXT = 4 << 20 };

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void put_budget(struct text *t, struct budget *b)
{
    text_printf(t, ",\"budget\":{\"limit_bytes\":%llu,\"used_bytes\":%llu,\"peak_bytes\":%llu,\"kinds\":{",
                (unsigned long long)get(&b->limit), (unsigned long long)get(&b->used), (unsigned long long)get(&b->peak));
    for (int k = 0; k < MEMORY_KINDS; k++)
        text_printf(t, "%s\"%s\":{\"used_bytes\":%llu,\"peak_bytes\":%llu}", k ? "," : "", budget_kind_name((enum memory_kind)k),
                    (unsigned long long)get(&b->used_by[k]), (unsigned long long)get(&b->peak_by[k]));
    text_printf(t, "}}");
}

/* Where the samples lie, and which catalog lists them. */
static void put_catalog(struct text *t, struct feed *f)
{
    text_printf(t, ",\"catalog\":{\"samples\":%llu,\"made_ns\":%lld,\"root\":", (unsigned long long)catalog_count(f->dataset.catalog),
                (long long)catalog_made_ns(f->dataset.catalog));
    text_json_string(t, f->dataset.root ? f->dataset.root : "");
    text_printf(t, "}");
}

static void put_io(struct text *t, struct feed *f)
{
    struct io_figures i = {0};
    f->io->ops->figures(f->io, &i);
    text_printf(t,
                ",\"io\":{\"name\":\"%s\",\"reads\":%llu,\"bytes\":%llu,\"failures\":%llu,\"in_flight\":%u,\"in_flight_peak\":%u,"
                "\"depth\":%u,\"cached_reads\":%llu,\"part_reads\":%llu}",
                f->io->ops->name, (unsigned long long)i.reads, (unsigned long long)i.bytes, (unsigned long long)i.failures, i.in_flight,
                i.in_flight_peak, i.depth, (unsigned long long)get(&f->cached_reads), (unsigned long long)get(&f->part_reads));
}

static void put_stages(struct text *t, struct feed *f)
{
    text_printf(t, ",\"stages\":[");
    for (int s = 0; s < STAGE_COUNT; s++) {
        struct stage_figures g;
        meter_read(&f->meter, (enum stage)s, &g);
        if (s == STAGE_DECODE)
            g.wait_in_ns += crew_idle_ns(); /* the workers' idle time: they wait for bytes, or for a place to fill */
        text_printf(t,
                    "%s{\"name\":\"%s\",\"busy_seconds\":%.6f,\"waiting_for_input_seconds\":%.6f,\"waiting_for_output_seconds\":%.6f,"
                    "\"items\":%llu,\"bytes\":%llu}",
                    s ? "," : "", meter_stage_name((enum stage)s), seconds(g.busy_ns), seconds(g.wait_in_ns), seconds(g.wait_out_ns),
                    (unsigned long long)g.items, (unsigned long long)g.bytes);
    }
    text_printf(t, "]");
}

static void put_decoded(struct text *t, struct feed *f)
{
    struct learnt_figures l = {0};
    if (f->learnt)
        learnt_read_figures(f->learnt, &l);
    text_printf(t, ",\"regions\":{\"by_checkpoints\":%llu,\"plainly\":%llu,\"by_fallback\":%llu}",
                (unsigned long long)get(&f->decoded[CODEC_BY_RECORD]), (unsigned long long)get(&f->decoded[CODEC_PLAIN]),
                (unsigned long long)get(&f->decoded[CODEC_FALLBACK]));
    text_printf(t, ",\"learnt\":{\"records\":%llu,\"bytes\":%llu,\"found\":%llu,\"missed\":%llu,\"stale\":%llu,\"written\":%llu}",
                (unsigned long long)l.records, (unsigned long long)l.bytes, (unsigned long long)l.found, (unsigned long long)l.missed,
                (unsigned long long)l.stale, (unsigned long long)l.written);
}

/* The caller's functions: seconds inside them, and seconds spent waiting to be let in (Python's lock). */
static void put_maps(struct text *t, struct feed *f)
{
    uint64_t busy = 0, wait = 0;
    for (int i = 0; i < f->chain.map_count; i++) {
        busy += get(&f->map_ns[i]);
        wait += get(&f->map_wait_ns[i]);
    }
    text_printf(t, ",\"map_seconds\":%.6f,\"gil_wait_seconds\":%.6f,\"maps\":[", seconds(busy), seconds(wait));
    for (int i = 0; i < f->chain.map_count; i++) {
        text_printf(t, "%s{\"name\":", i ? "," : "");
        text_json_string(t, f->chain.map[i].name);
        text_printf(t, ",\"calls\":%llu,\"seconds\":%.6f,\"gil_wait_seconds\":%.6f}", (unsigned long long)get(&f->map_calls[i]),
                    seconds(get(&f->map_ns[i])), seconds(get(&f->map_wait_ns[i])));
    }
    text_printf(t, "]");
}

static void put_bad(struct text *t, struct feed *f)
{
    text_printf(t, ",\"bad\":%llu,\"bad_samples\":[", (unsigned long long)get(&f->bad));
    pthread_mutex_lock(&f->bad_lock);
    for (uint32_t i = 0; i < f->bad_listed; i++) {
        const struct bad_sample *b = &f->bad_list[i];
        text_printf(t, "%s{\"path\":", i ? "," : "");
        text_json_string(t, b->path);
        text_printf(t, ",\"stage\":\"%s\",\"epoch\":%llu,\"cause\":", b->stage, (unsigned long long)b->epoch);
        text_json_string(t, b->cause);
        text_printf(t, "}");
    }
    pthread_mutex_unlock(&f->bad_lock);
    text_printf(t, "]");
}

static void put_progress(struct text *t, struct feed *f)
{
    pthread_mutex_lock(&f->lock);
    uint64_t epoch = f->at.epoch, position = f->at.position, given = f->given_away;
    uint32_t look_ahead = f->look_ahead, ahead = f->ahead, held = f->held;
    pthread_mutex_unlock(&f->lock);
    uint64_t wall = get(&f->consumed_ns), wait = get(&f->exposed_wait_ns);
    text_printf(t, "{\"epoch\":%llu,\"position\":%llu,\"samples\":%llu,\"batches\":%llu,\"threads\":%d", (unsigned long long)epoch,
                (unsigned long long)position, (unsigned long long)get(&f->samples), (unsigned long long)get(&f->batches), crew_threads());
    text_printf(t, ",\"wall_seconds\":%.6f,\"exposed_wait_seconds\":%.6f,\"exposed_wait_ratio\":%.6f", seconds(wall), seconds(wait),
                wall ? (double)wait / (double)wall : 0.0);
    text_printf(t, ",\"wait_p50_seconds\":%.6f,\"wait_p99_seconds\":%.6f,\"load_p50_seconds\":%.6f,\"load_p99_seconds\":%.6f",
                seconds(histogram_quantile(&f->wait_histogram, 0.5)), seconds(histogram_quantile(&f->wait_histogram, 0.99)),
                seconds(histogram_quantile(&f->load_histogram, 0.5)), seconds(histogram_quantile(&f->load_histogram, 0.99)));
    text_printf(t, ",\"first_batch_seconds\":%.6f,\"look_ahead_batches\":%u,\"ahead_batches\":%u,\"held_batches\":%u",
                seconds(get(&f->first_batch_ns)), look_ahead, ahead, held);
    text_printf(t, ",\"given_away_batches\":%llu,\"changed_files\":%llu", (unsigned long long)given, (unsigned long long)get(&f->changed));
    text_printf(t, ",\"left_behind_threads\":%u,\"left_behind_reads\":%u", crew_left_behind(), feed_left_reads());
}

/* Of arrays: chunks that were unfiltered and kept. */
static void put_chunks(struct text *t, struct feed *f)
{
    if (!f->arrays || !f->arrays->is_chunked)
        return;
    struct chunk_cache *c = &f->arrays->cache;
    pthread_mutex_lock(&c->lock);
    text_printf(t, ",\"chunks\":{\"bytes\":%llu,\"limit\":%llu,\"hits\":%llu,\"unfiltered\":%llu,\"evictions\":%llu}",
                (unsigned long long)c->bytes, (unsigned long long)c->limit, (unsigned long long)c->hits, (unsigned long long)c->misses,
                (unsigned long long)c->evictions);
    pthread_mutex_unlock(&c->lock);
}

int feed_stats_json(struct feed *f, char *out, size_t out_size)
{
    struct text t = {.limit = MOST_TEXT};
    put_progress(&t, f);
    put_budget(&t, f->budget);
    put_catalog(&t, f);
    put_io(&t, f);
    source_cache_stats(f, &t);
    put_stages(&t, f);
    put_decoded(&t, f);
    put_chunks(&t, f);
    put_maps(&t, f);
    ship_stats(f, &t);
    text_printf(&t, ",\"loop\":");
    loop_json(&f->loop, &t);
    put_bad(&t, f);
    text_printf(&t, "}");
    int length = t.failed ? snprintf(out, out_size, "{}") : snprintf(out, out_size, "%s", t.data);
    text_free(&t);
    return length;
}
