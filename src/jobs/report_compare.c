/* Two runs side by side. Only steady parts are compared. Steps and epochs cannot be seen from outside; what can is. */
#include <stdio.h>

#include "jobs/report_page.h"

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

int compare_rows(const struct report_side *a, const struct report_side *b, struct comparison_row *row, int most)
{
    struct snapshot x, y;
    sum_up(a, &x);
    sum_up(b, &y);
    const struct comparison_row all[] = {
        {"watched", "s", a->verdict.run_s, b->verdict.run_s, 1, true},
        {"start-up", "s", a->verdict.warmup_s, b->verdict.warmup_s, 1, true},
        {"starved, p50", "%", 100 * a->verdict.starved_p50, 100 * b->verdict.starved_p50, 0, true},
        {"starved, p95", "%", 100 * a->verdict.starved_p95, 100 * b->verdict.starved_p95, 0, true},
        {"accelerator busy, p50", "%", 100 * a->verdict.gpu_p50, 100 * b->verdict.gpu_p50, 0, false},
        {"gain bound", "x", a->verdict.gain_bound, b->verdict.gain_bound, 2, true},
        {"lost to loader restarts", "s", x.pause_ns / 1e9, y.pause_ns / 1e9, 1, true},
        {"loaders' cores", "", cores(&x, true), cores(&y, true), 2, true},
        {"program's cores", "", cores(&x, false), cores(&y, false), 2, true},
        {"read by system calls", "MB/s", per_second(&x, x.read_chars) / 1e6, per_second(&y, y.read_chars) / 1e6, 1, false},
        {"read from storage", "MB/s", per_second(&x, x.read_bytes) / 1e6, per_second(&y, y.read_bytes) / 1e6, 1, false},
        {"private memory, most", "MB", x.rss_bytes / 1e6, y.rss_bytes / 1e6, 0, true},
    };
    int n = 0;
    for (size_t i = 0; i < sizeof(all) / sizeof(*all) && n < most; i++)
        if (!isnan(all[i].a) || !isnan(all[i].b))
            row[n++] = all[i];
    return n;
}

static void put_value(struct text *t, double x, int digits, const char *unit, const char *class)
{
    if (isnan(x))
        text_printf(t, "<td class=\"n\">n/a</td>");
    else
        text_printf(t, "<td class=\"n %s\">%.*f %s</td>", class, digits, x, unit);
}

void page_comparison(struct text *t, const struct report_side *a, const struct report_side *b)
{
    struct comparison_row row[16];
    int n = compare_rows(a, b, row, 16);
    text_printf(
        t,
        "<h2>Side by side</h2><section class=\"card\"><table><thead><tr><th></th>"
        "<th class=\"n\">A</th><th class=\"n\">B</th></tr></thead><tbody>");
    for (int i = 0; i < n; i++) {
        bool better = row[i].lower_is_better ? row[i].b < 0.95 * row[i].a : row[i].b > 1.05 * row[i].a;
        bool worse = row[i].lower_is_better ? row[i].b > 1.05 * row[i].a : row[i].b < 0.95 * row[i].a;
        text_printf(t, "<tr><td>%s</td>", row[i].name);
        put_value(t, row[i].a, row[i].digits, row[i].unit, "");
        put_value(t, row[i].b, row[i].digits, row[i].unit, better ? "good" : worse ? "bad" : "");
        text_printf(t, "</tr>");
    }
    text_printf(t, "</tbody></table></section>\n");
}
