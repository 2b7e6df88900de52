#include <stdio.h>

#include "diagnose/verdict.h"

void verdict_print(const struct verdict *v, const struct run_facts *facts, struct text *out)
{
    text_show(out, "%s%s%s", facts->program, facts->script[0] ? " " : "", facts->script);
    text_show(out, ": %s", verdict_name(v->kind));
    if (v->starved_ratio >= 0)
        text_show(out, ", starved %.0f %% of the time", 100 * v->starved_ratio);
    text_show(out, " (%.1f s watched, %.1f s of warm-up left out)\n", v->run_s, v->warmup_s);
    for (int i = 0; i < v->evidences; i++)
        text_show(out, "  %s\n", v->evidence[i]);
    if (v->gain_bound >= 1 && v->lost_ratio < 0.05)
        text_show(out, "  nothing can be gained by feeding it faster\n");
    else if (v->gain_bound >= 1)
        text_show(out, "  at best %.2f times as fast; what would help, best first:\n", v->gain_bound);
    for (int i = 0; i < v->remedies; i++) {
        if (isnan(v->remedy[i].predicted_gain))
            text_show(out, "    %s\n", v->remedy[i].change);
        else
            text_show(out, "    %.2fx  %s\n", v->remedy[i].predicted_gain, v->remedy[i].change);
    }
    if (facts->lost[0])
        text_show(out, "  not seen: %s\n", facts->lost);
}

static void put(struct text *t, const char *name, double value)
{
    if (isfinite(value))
        text_printf(t, ",\"%s\":%.6g", name, value);
    else
        text_printf(t, ",\"%s\":null", name);
}

static void put_text(struct text *t, const char *name, const char *value)
{
    text_printf(t, ",\"%s\":", name);
    if (value[0])
        text_json_string(t, value);
    else
        text_printf(t, "null");
}

/* ---- series ---- */

enum { SERIES_POINTS = 600 };

static double cores_of(const struct snapshot *r, enum role role)
{
    return r->wall_s > 0 ? r->role[role].cpu_ns / 1e9 / r->wall_s : NAN;
}

static double value_at(const struct snapshot *r, int which)
{
    switch (which) {
    case 0: return r->at_s;
    case 1: return r->gpu_ratio;
    case 2: return r->cpu_ratio;
    case 3: return cores_of(r, ROLE_CONSUMER) + cores_of(r, ROLE_COMPUTE);
    case 4: return cores_of(r, ROLE_LOADER);
    case 5: return r->role[ROLE_LOADER].threads;
    case 6: return r->wall_s > 0 ? r->read_chars / r->wall_s : NAN;
    case 7: return r->wall_s > 0 ? r->read_bytes / r->wall_s : NAN;
    case 8: return r->memory_used_bytes;
    default: return r->wall_s > 0 ? r->net_in_bytes / r->wall_s : NAN;
    }
}

static void put_series(struct text *t, const struct series *s)
{
    static const char *const names[] = {"at_seconds",
                                        "gpu_ratio",
                                        "cpu_ratio",
                                        "trainer_cores",
                                        "loader_cores",
                                        "loader_threads",
                                        "read_bytes_per_second",
                                        "storage_bytes_per_second",
                                        "memory_used_bytes",
                                        "network_bytes_per_second"};
    int step = s->count / SERIES_POINTS + 1;
    text_printf(t, ",\"series\":{");
    for (int k = 0; k < (int)(sizeof(names) / sizeof(*names)); k++) {
        text_printf(t, "%s\"%s\":[", k ? "," : "", names[k]);
        for (int i = 0; i < s->count; i += step) {
            double x = value_at(&s->row[i], k);
            text_printf(t, isfinite(x) ? "%s%.6g" : "%snull", i ? "," : "", x);
        }
        text_printf(t, "]");
    }
    text_printf(t, "}");
}

void verdict_json(const struct verdict *v, const struct run_facts *facts, const struct series *s, struct text *t)
{
    text_printf(t, "{\"verdict\":\"%s\"", verdict_name(v->kind));
    put(t, "starved_ratio", v->starved_ratio);
    put(t, "lost_ratio", v->lost_ratio);
    put(t, "gain_bound", v->gain_bound);
    put_text(t, "band", isnan(v->lost_ratio) ? "" : verdict_band(v->lost_ratio));
    text_printf(t, ",\"evidence\":[");
    for (int i = 0; i < v->evidences; i++) {
        text_printf(t, "%s", i ? "," : "");
        text_json_string(t, v->evidence[i]);
    }
    text_printf(t, "],\"remedies\":[");
    for (int i = 0; i < v->remedies; i++) {
        text_printf(t, "%s{\"change\":", i ? "," : "");
        text_json_string(t, v->remedy[i].change);
        put(t, "predicted_gain", v->remedy[i].predicted_gain);
        text_printf(t, "}");
    }
    text_printf(t, "]");
    put(t, "gpu_ratio_p5", v->gpu_p5);
    put(t, "gpu_ratio_p50", v->gpu_p50);
    put(t, "gpu_ratio_p95", v->gpu_p95);
    put_text(t, "gpu_reason", facts->gpu_reason);
    text_printf(t, ",\"gpu_swings\":%s", v->has_swings ? "true" : "false");
    put(t, "starved_ratio_p5", v->starved_p5);
    put(t, "starved_ratio_p50", v->starved_p50);
    put(t, "starved_ratio_p95", v->starved_p95);
    put(t, "watched_seconds", v->run_s);
    put(t, "warmup_seconds", v->warmup_s);
    put(t, "steady_seconds", v->steady_s);
    put(t, "exit_code", facts->exit_code);
    put_text(t, "program", facts->program);
    put_text(t, "script", facts->script);
    put_text(t, "not_seen", facts->lost);
    put_series(t, s);
    text_printf(t, "}\n");
}
