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
        text_show(out, "  feeding it faster would gain nothing\n");
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

static const char *known(const char *value)
{
    return value[0] ? value : NULL;
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

static void put_series(struct json_writer *w, const struct series *s)
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
    json_begin_object(w, "series");
    for (int k = 0; k < (int)(sizeof(names) / sizeof(*names)); k++) {
        json_begin_array(w, names[k]);
        for (int i = 0; i < s->count; i += step)
            json_put(w, J_DIGITS(NULL, 6, value_at(&s->row[i], k)));
        json_end(w);
    }
    json_end(w);
}

static void put_advice(struct json_writer *w, const struct verdict *v)
{
    json_begin_array(w, "evidence");
    for (int i = 0; i < v->evidences; i++)
        json_put(w, J(NULL, v->evidence[i]));
    json_end(w);
    json_begin_array(w, "remedies");
    for (int i = 0; i < v->remedies; i++)
        json_put(w, J_OBJECT(NULL, J("change", v->remedy[i].change), J_DIGITS("predicted_gain", 6, v->remedy[i].predicted_gain)));
    json_end(w);
}

/* What the loop told in the whole run; null: it told nothing. */
static void put_loop(struct json_writer *w, const struct series *s)
{
    double wall = 0, wait = 0, batches = 0, epochs = 0, steps = 0, stepping = 0;
    for (int i = 0; i < s->count; i++) {
        const struct snapshot *r = &s->row[i];
        if (isnan(r->loop_wall_ns))
            continue;
        wall += r->loop_wall_ns / 1e9, wait += r->loop_wait_ns / 1e9;
        batches += r->loop_batches, epochs += r->loop_epochs;
        steps += r->loop_steps, stepping += r->loop_step_ns / 1e9;
    }
    if (!(batches > 0)) {
        json_put(w, J("loop", (const char *)NULL));
        return;
    }
    json_put(w, J_OBJECT("loop", J_FIXED("epochs", 0, epochs), J_FIXED("batches", 0, batches), J_FIXED("wall_seconds", 9, wall),
                         J_FIXED("exposed_wait_seconds", 9, wait), J_DIGITS("exposed_wait_ratio", 9, wall > 0 ? wait / wall : NAN),
                         J_DIGITS("step_mean_seconds", 9, steps > 0 ? stepping / steps : NAN),
                         J_DIGITS("batches_per_second", 9, stepping > 0 ? steps / stepping : NAN)));
}

void verdict_json(const struct verdict *v, const struct run_facts *facts, const struct series *s, struct json_writer *w)
{
    json_begin_object(w, NULL);
    json_put(w, J("verdict", verdict_name(v->kind)), J_DIGITS("starved_ratio", 6, v->starved_ratio),
             J_DIGITS("lost_ratio", 6, v->lost_ratio), J_DIGITS("gain_bound", 6, v->gain_bound),
             J("band", isnan(v->lost_ratio) ? NULL : verdict_band(v->lost_ratio)));
    put_advice(w, v);
    json_put(w, J_DIGITS("gpu_ratio_p5", 6, v->gpu_p5), J_DIGITS("gpu_ratio_p50", 6, v->gpu_p50), J_DIGITS("gpu_ratio_p95", 6, v->gpu_p95),
             J("gpu_reason", known(facts->gpu_reason)), J_BOOL("gpu_swings", v->has_swings), J_DIGITS("starved_ratio_p5", 6, v->starved_p5),
             J_DIGITS("starved_ratio_p50", 6, v->starved_p50), J_DIGITS("starved_ratio_p95", 6, v->starved_p95),
             J_DIGITS("stack_known", 6, v->stack_known), J_DIGITS("stack_loading_ratio", 6, v->loading_ratio),
             J_DIGITS("stack_step_ratio", 6, v->step_ratio), J_DIGITS("stack_saving_ratio", 6, v->saving_ratio),
             J_DIGITS("stack_validation_ratio", 6, v->validation_ratio), J_DIGITS("watched_seconds", 6, v->run_s),
             J_DIGITS("warmup_seconds", 6, v->warmup_s), J_DIGITS("steady_seconds", 6, v->steady_s),
             J_DIGITS("exit_code", 6, facts->exit_code), J("program", known(facts->program)), J("script", known(facts->script)),
             J("not_seen", known(facts->lost)));
    put_loop(w, s);
    put_series(w, s);
    json_end(w);
    text_append(w->out, "\n", 1);
}
