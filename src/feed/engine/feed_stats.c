/* What a feed has done, as JSON. Names are promises; see docs/statistics.md. */
#include <stdio.h>

#include "base/text/json_writer.h"
#include "feed/feed.h"
#include "feed/source_cache.h"
#include "meter/metrics.h"

enum { MOST_TEXT = 4 << 20 };

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static void put_budget(struct json_writer *w, const struct metrics *m)
{
    char path[64];
    json_begin_object(w, "budget");
    metrics_put(w, m, "budget");
    json_begin_object(w, "kinds");
    for (int k = 0; k < MEMORY_KINDS; k++) {
        snprintf(path, sizeof(path), "budget.kinds.%s", budget_kind_name((enum memory_kind)k));
        metrics_put_object(w, m, path);
    }
    json_end(w);
    json_end(w);
}

/* Where the samples lie, and which catalog lists them. */
static void put_catalog(struct json_writer *w, const struct metrics *m, struct feed *f)
{
    json_begin_object(w, "catalog");
    json_put(w, J("made_ns", catalog_made_ns(f->dataset.catalog)), J("root", f->dataset.root ? f->dataset.root : ""));
    metrics_put(w, m, "catalog");
    json_end(w);
}

static void put_io(struct json_writer *w, const struct metrics *m, const char *name)
{
    json_begin_object(w, "io");
    json_put(w, J("name", name));
    metrics_put(w, m, "io");
    json_end(w);
}

static void put_maps(struct json_writer *w, struct feed *f)
{
    json_begin_array(w, "maps");
    for (int i = 0; i < f->function_count; i++) {
        const struct feed_function *x = &f->function[i];
        json_put(w, J_OBJECT(NULL, J("name", x->name), J("calls", meter_get(&x->calls)),
                             J_FIXED("seconds", 6, seconds(meter_get(&x->busy_ns))),
                             J_FIXED("gil_wait_seconds", 6, seconds(meter_get(&x->wait_ns)))));
    }
    json_end(w);
}

static void put_bad(struct json_writer *w, struct feed *f)
{
    json_begin_array(w, "bad_samples");
    pthread_mutex_lock(&f->bad_lock);
    for (uint32_t i = 0; i < f->bad_listed; i++) {
        const struct bad_sample *b = &f->bad_list[i];
        json_put(w, J_OBJECT(NULL, J("path", b->path), J("stage", b->stage), J("epoch", b->epoch), J("cause", b->cause)));
    }
    pthread_mutex_unlock(&f->bad_lock);
    json_end(w);
}

int feed_stats_json(struct feed *f, char *out, size_t out_size)
{
    struct text t = {.limit = MOST_TEXT};
    struct json_writer w = {.out = &t};
    struct metrics m;
    feed_metrics(f, &m);
    json_begin_object(&w, NULL);
    metrics_put(&w, &m, "");
    put_budget(&w, &m);
    put_catalog(&w, &m, f);
    put_io(&w, &m, f->io->ops->name);
    source_cache_stats(f, &m, &w);
    metrics_put_stages(&w, &m);
    metrics_put_object(&w, &m, "regions");
    metrics_put_object(&w, &m, "learnt");
    metrics_put_object(&w, &m, "chunks");
    put_maps(&w, f);
    device_copy_stats(f, &m, &w);
    metrics_put_object(&w, &m, "loop");
    put_bad(&w, f);
    json_end(&w);
    int length = snprintf(out, out_size, "%s", t.failed ? "{}" : t.data);
    text_free(&t);
    return length;
}
