/* The loader's own figures into a bench result. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "feed/feed.h"
#include "jobs/bench.h"

static char *get_text(const fb_loader *l)
{
    size_t room = (size_t)fb_get_stats(l, NULL, 0) + 65536; /* it may grow between the two calls */
    char *text = malloc(room);
    if (text)
        fb_get_stats(l, text, room);
    return text;
}

double bench_figure(const struct bench_result *r, const char *path)
{
    double value = metrics_get(&r->metrics, path);
    return isnan(value) ? 0 : value;
}

double bench_stage(const struct bench_result *r, const char *stage, const char *what)
{
    char path[64];
    snprintf(path, sizeof(path), "stages.%s.%s", stage, what);
    return bench_figure(r, path);
}

static void read_figures(const fb_loader *l, struct bench_result *out)
{
    feed_metrics((struct feed *)l, &out->metrics);
    out->cached_reads = (uint64_t)bench_figure(out, "io.cached_reads");
    out->io_reads = (uint64_t)bench_figure(out, "io.reads") - out->cached_reads;
    out->chunks_unfiltered = (uint64_t)bench_figure(out, "chunks.unfiltered");
    out->budget_peak_bytes = (uint64_t)bench_figure(out, "budget.peak_bytes");
    out->threads = (int)bench_figure(out, "threads");
    out->device_bytes = (uint64_t)bench_figure(out, "device.copied_bytes");
    out->bad = (uint64_t)bench_figure(out, "bad");
}

static void read_bad(const json_t *list, struct bench_result *out)
{
    struct text t = {.limit = 1 << 20};
    size_t i;
    json_t *b;
    json_array_foreach(list, i, b)
    {
        const char *path = json_string_value(json_object_get(b, "path")), *cause = json_string_value(json_object_get(b, "cause"));
        if (i < 20)
            text_printf(&t, "  %s: %s\n", path ? path : "?", cause ? cause : "?");
    }
    if (json_array_size(list) > 20)
        text_printf(&t, "  ... and %zu more\n", json_array_size(list) - 20);
    out->bad_list = t.data;
}

void bench_read_stats(const fb_loader *l, struct bench_result *out)
{
    read_figures(l, out);
    char *text = get_text(l);
    json_t *stats = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    free(text);
    if (!stats)
        return;
    const char *name = json_string_value(json_object_get(json_object_get(stats, "io"), "name"));
    snprintf(out->io, sizeof(out->io), "%s", name ? name : "?");
    const char *title = json_string_value(json_object_get(json_object_get(stats, "device"), "name"));
    snprintf(out->device, sizeof(out->device), "%s", title ? title : "");
    read_bad(json_object_get(stats, "bad_samples"), out);
    json_decref(stats);
}
