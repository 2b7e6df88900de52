/* Two runs side by side. Only steady parts are compared. Steps and epochs cannot be seen from outside: those rows come from what the
 * program told (meter/marks.h), and are missing when it told nothing. */
#include <math.h>
#include <stdio.h>

#include "jobs/report/report_page.h"

static void sum_up(const struct report_side *s, struct snapshot *sum)
{
    const struct series *rows = &s->recording.series;
    *sum = (struct snapshot){0};
    bool is_first = true;
    for (int i = 0; i < rows->count; i++) {
        const struct snapshot *r = &rows->row[i];
        if (r->at_s <= s->verdict.warmup_s + 1e-9 ||
            (s->verdict.steady_s > 0 && r->at_s > s->verdict.warmup_s + s->verdict.steady_s + 1e-6))
            continue;
        if (is_first)
            *sum = *r;
        else
            snapshot_merge(sum, r);
        is_first = false;
    }
}

static double per_second(const struct snapshot *s, double x)
{
    return s->wall_s > 0 ? x / s->wall_s : NAN;
}

static double cores(const struct snapshot *s, bool loaders_only)
{
    double ns = s->role[ROLE_LOADER].cpu_ns;
    for (int r = 0; r < ROLE_COUNT && !loaders_only; r++)
        ns += r == ROLE_LOADER ? 0 : s->role[r].cpu_ns;
    return per_second(s, ns / 1e9);
}

static double told(const struct report_side *s, double value)
{
    return s->has_loop ? value : NAN;
}

static double rate_of(const struct report_side *s, int epoch)
{
    return s->has_loop && epoch < s->loop.epochs && epoch < LOOP_EPOCHS ? s->loop.rate[epoch] : NAN;
}

static int loop_rows(const struct report_side *a, const struct report_side *b, struct comparison_row *row)
{
    enum { EPOCHS_SHOWN = 12 };
    const struct loop_summary *x = &a->loop, *y = &b->loop;
    int n = 0;
    row[n++] = (struct comparison_row){"step time, mean", "ms", told(a, 1e3 * x->step_mean_s), told(b, 1e3 * y->step_mean_s), 1, -1};
    row[n++] = (struct comparison_row){"step time, p50", "ms", told(a, 1e3 * x->step_p50_s), told(b, 1e3 * y->step_p50_s), 1, -1};
    row[n++] = (struct comparison_row){"step time, p99", "ms", told(a, 1e3 * x->step_p99_s), told(b, 1e3 * y->step_p99_s), 1, -1};
    row[n++] =
        (struct comparison_row){"step time, variation", "%", told(a, 100 * x->step_variation), told(b, 100 * y->step_variation), 0, -1};
    row[n++] = (struct comparison_row){"inside next()", "%", told(a, 100 * x->wait_ratio), told(b, 100 * y->wait_ratio), 1, -1};
    row[n++] = (struct comparison_row){"epoch gap, mean", "s", told(a, x->gap_mean_s), told(b, y->gap_mean_s), 3, -1};
    row[n++] = (struct comparison_row){"longest epoch gap", "s", told(a, x->gap_most_s), told(b, y->gap_most_s), 3, -1};
    for (int i = 0; i < EPOCHS_SHOWN; i++) {
        row[n] = (struct comparison_row){"", "", rate_of(a, i), rate_of(b, i), 2, 1};
        snprintf(row[n].name, sizeof(row[n].name), "it/s of epoch %d", i + 1);
        n++;
    }
    return n;
}

int compare_rows(const struct report_side *a, const struct report_side *b, struct comparison_row *row, int most)
{
    struct snapshot x, y;
    sum_up(a, &x);
    sum_up(b, &y);
    const struct comparison_row all[] = {
        {"watched", "s", a->verdict.run_s, b->verdict.run_s, 1, 0},
        {"start-up", "s", a->verdict.warmup_s, b->verdict.warmup_s, 1, -1},
        {"starved, p50", "%", 100 * a->verdict.starved_p50, 100 * b->verdict.starved_p50, 0, -1},
        {"starved, p95", "%", 100 * a->verdict.starved_p95, 100 * b->verdict.starved_p95, 0, -1},
        {"accelerator busy, p50", "%", 100 * a->verdict.gpu_p50, 100 * b->verdict.gpu_p50, 0, 1},
        {"gain bound", "x", a->verdict.gain_bound, b->verdict.gain_bound, 2, 0},
        {"lost to loader restarts", "s", x.pause_ns / 1e9, y.pause_ns / 1e9, 1, -1},
        {"loaders' cores", "", cores(&x, true), cores(&y, true), 2, 0},
        {"program's cores", "", cores(&x, false), cores(&y, false), 2, 0},
        {"read by system calls", "MB/s", per_second(&x, x.read_chars) / 1e6, per_second(&y, y.read_chars) / 1e6, 1, 0},
        {"read from storage", "MB/s", per_second(&x, x.read_bytes) / 1e6, per_second(&y, y.read_bytes) / 1e6, 1, 0},
        {"peak private memory", "MB", x.rss_bytes / 1e6, y.rss_bytes / 1e6, 0, -1},
    };
    struct comparison_row loop[COMPARISON_ROWS];
    int n = 0, loops = loop_rows(a, b, loop);
    for (int i = 0; i < loops && n < most; i++)
        if (!isnan(loop[i].a) || !isnan(loop[i].b))
            row[n++] = loop[i];
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && n < most; i++)
        if (!isnan(all[i].a) || !isnan(all[i].b))
            row[n++] = all[i];
    return n;
}

static void put_value(struct text *t, double x, int digits, const char *unit)
{
    if (!isfinite(x))
        text_printf(t, "<td class=\"n\">n/a</td>");
    else
        text_printf(t, "<td class=\"n\">%.*f %s</td>", digits, x, unit);
}

/* Coloured where it is known which way is better and the two are told apart by the digits that are shown. */
static void put_change(struct text *t, const struct comparison_row *r)
{
    double step = pow(10, -r->digits), change = r->a != 0 ? r->b / r->a - 1 : NAN;
    if (!isfinite(change) || fabs(r->b - r->a) < step || fabs(change) < 0.05) {
        text_printf(t, "<td class=\"n hide\"></td>");
        return;
    }
    bool is_better = change * r->better > 0;
    text_printf(t, "<td class=\"n hide %s\">%+.0f %%</td>", r->better == 0 ? "" : is_better ? "good" : "bad", 100 * change);
}

static void put_steps(struct text *t, const struct loop_summary *l)
{
    text_printf(t, "<h2>Steps, as reported by the program</h2><section class=\"card\"><table><tbody>");
    text_printf(t, "<tr><td>batches</td><td class=\"n\">%llu in %d epochs</td></tr>", (unsigned long long)l->batches, l->epochs);
    if (isfinite(l->step_p50_s) && isfinite(l->step_p99_s)) /* two batches have one step between them */
        text_printf(t, "<tr><td>step time: mean, p50 and p99</td><td class=\"n\">%.1f, %.1f and %.1f ms</td></tr>", 1e3 * l->step_mean_s,
                    1e3 * l->step_p50_s, 1e3 * l->step_p99_s);
    if (isfinite(l->step_variation))
        text_printf(t, "<tr><td>step time, variation</td><td class=\"n\">%.0f %%</td></tr>", 100 * l->step_variation);
    if (isfinite(l->wait_ratio))
        text_printf(t, "<tr><td>inside next()</td><td class=\"n\">%.1f %%</td></tr>", 100 * l->wait_ratio);
    if (isfinite(l->gap_most_s))
        text_printf(t, "<tr><td>between epochs, mean and longest</td><td class=\"n\">%.3f and %.3f s</td></tr>", l->gap_mean_s,
                    l->gap_most_s);
    text_printf(t, "</tbody></table></section>\n");
}

void page_loop(struct text *t, const struct report_side *s)
{
    const struct loop_summary *l = &s->loop;
    if (!s->has_loop)
        return;
    double most = 0;
    for (int i = 0; i < l->epochs && i < LOOP_EPOCHS; i++)
        most = isfinite(l->rate[i]) ? fmax(most, l->rate[i]) : most;
    text_printf(t, "<div class=\"pair\"><div>");
    put_steps(t, l);
    text_printf(t, "</div><div><h2>Epochs</h2><section class=\"card\"><table><tbody>");
    for (int i = 0; i < l->epochs && i < LOOP_EPOCHS; i++) {
        if (!isfinite(l->rate[i])) /* an epoch of one batch has no steps */
            continue;
        text_printf(t,
                    "<tr><td class=\"n\">%d</td><td style=\"width:60%%\"><span class=\"bar\" style=\"width:%.0f%%\"></span></td>"
                    "<td class=\"n\">%.2f it/s</td></tr>",
                    i + 1, most > 0 ? 100 * l->rate[i] / most : 0, l->rate[i]);
    }
    text_printf(t, "</tbody></table></section></div></div>\n");
}

void page_comparison(struct text *t, const struct report_side *a, const struct report_side *b)
{
    struct comparison_row row[COMPARISON_ROWS];
    int n = compare_rows(a, b, row, COMPARISON_ROWS);
    text_printf(t, "<h2>Side by side</h2><section class=\"card\"><table><thead><tr><th></th>"
                   "<th class=\"n\">A</th><th class=\"n\">B</th><th class=\"n hide\">change</th></tr></thead><tbody>");
    for (int i = 0; i < n; i++) {
        text_printf(t, "<tr><td>%s</td>", row[i].name);
        put_value(t, row[i].a, row[i].digits, row[i].unit);
        put_value(t, row[i].b, row[i].digits, row[i].unit);
        put_change(t, &row[i]);
        text_printf(t, "</tr>");
    }
    text_printf(t, "</tbody></table></section>\n");
}
