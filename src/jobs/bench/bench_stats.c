/* The loader's own figures into a bench result. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/bench.h"

static char *get_text(const fb_loader *l)
{
    size_t room = (size_t)fb_get_stats(l, NULL, 0) + 65536; /* it may grow between the two calls */
    char *text = malloc(room);
    if (text)
        fb_get_stats(l, text, room);
    return text;
}

static double number(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void read_stages(const json_t *list, struct bench_result *out)
{
    size_t i;
    json_t *s;
    json_array_foreach(list, i, s)
    {
        if (out->stage_count == BENCH_MAX_STAGES)
            return;
        struct bench_stage *to = &out->stage[out->stage_count++];
        const char *name = json_string_value(json_object_get(s, "name"));
        snprintf(to->name, sizeof(to->name), "%s", name ? name : "");
        to->busy_seconds = number(s, "busy_seconds");
        to->waiting_for_input_seconds = number(s, "waiting_for_input_seconds");
        to->waiting_for_output_seconds = number(s, "waiting_for_output_seconds");
        to->items = (uint64_t)number(s, "items");
        to->bytes = (uint64_t)number(s, "bytes");
    }
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
    char *text = get_text(l);
    json_t *stats = text ? json_loads(text, JSON_ALLOW_NUL, NULL) : NULL;
    free(text);
    if (!stats)
        return;
    const json_t *io = json_object_get(stats, "io");
    const char *name = json_string_value(json_object_get(io, "name"));
    snprintf(out->io, sizeof(out->io), "%s", name ? name : "?");
    out->cached_reads = (uint64_t)number(io, "cached_reads");
    out->io_reads = (uint64_t)number(io, "reads") - out->cached_reads;
    out->chunks_unfiltered = (uint64_t)number(json_object_get(stats, "chunks"), "unfiltered");
    out->budget_peak_bytes = (uint64_t)number(json_object_get(stats, "budget"), "peak_bytes");
    out->threads = (int)number(stats, "threads");
    const json_t *device = json_object_get(stats, "device");
    const char *title = json_string_value(json_object_get(device, "name"));
    snprintf(out->device, sizeof(out->device), "%s", title ? title : "");
    out->device_bytes = (uint64_t)number(device, "copied_bytes");
    out->bad = (uint64_t)number(stats, "bad");
    read_stages(json_object_get(stats, "stages"), out);
    read_bad(json_object_get(stats, "bad_samples"), out);
    json_decref(stats);
}
