#include "jobs/report.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "jobs/report/report_page.h"

enum { PAGE_MOST = 1 << 20 }; /* a page that would be larger is an error, not a surprise */

static void make_page(const struct report_side *s, int count, struct text *t)
{
    page_begin(t, count == 1 ? "fullbore report" : "fullbore report: two runs");
    text_printf(t, "<header><h1>fullbore report</h1></header>");
    if (count == 1) {
        page_verdict(t, s, "");
        text_printf(t, "<div class=\"pair\"><div>");
        page_remedies(t, s);
        text_printf(t, "</div><div>");
        page_evidence(t, s);
        text_printf(t, "</div></div>");
        page_timelines(t, s, "");
        page_loop(t, s);
    } else {
        text_printf(t, "<div class=\"sides\">");
        page_verdict(t, &s[0], "A");
        page_verdict(t, &s[1], "B");
        text_printf(t, "</div>");
        page_comparison(t, &s[0], &s[1]);
        page_timelines(t, &s[0], "A");
        page_timelines(t, &s[1], "B");
    }
    page_end(t);
}

static int write_page(const char *path, const struct text *t, struct fb_error *e)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return error_set_errno(e, "report", errno, "write %s", path);
    bool is_written = fwrite(t->data, t->length, 1, f) == 1;
    if (fclose(f) != 0 || !is_written)
        return error_set_errno(e, "report", errno, "write %s", path);
    return 0;
}

/* A number, or a blank instead of one that nobody knows. */
static void print_value(struct text *out, double x, int digits)
{
    if (!isfinite(x))
        text_printf(out, " %12s", "n/a");
    else
        text_printf(out, " %12.*f", digits, x);
}

static void print_comparison(const struct report_side *s, struct text *out)
{
    struct comparison_row row[COMPARISON_ROWS];
    int n = compare_rows(&s[0], &s[1], row, COMPARISON_ROWS);
    text_printf(out, "\n%-26s %12s %12s\n", "", "A", "B");
    for (int i = 0; i < n; i++) {
        text_printf(out, "%-26s", row[i].name);
        print_value(out, row[i].a, row[i].digits);
        print_value(out, row[i].b, row[i].digits);
        text_printf(out, " %s\n", row[i].unit);
    }
}

static void print_loop(const struct report_side *s, struct text *out)
{
    const struct loop_summary *l = &s->loop;
    if (!s->has_loop)
        return;
    text_printf(out, "  %llu batches in %d epochs", (unsigned long long)l->batches, l->epochs);
    if (isfinite(l->step_p50_s) && isfinite(l->step_p99_s) && isfinite(l->step_variation)) /* two batches have one step between them */
        text_printf(out, "; step mean %.1f, p50 %.1f, p99 %.1f ms, variation %.0f %%", 1e3 * l->step_mean_s, 1e3 * l->step_p50_s,
                    1e3 * l->step_p99_s, 100 * l->step_variation);
    text_printf(out, "\n");
}

static void print_json(const struct report_side *s, int count, struct text *out)
{
    struct json_writer w = {.out = out};
    if (count > 1)
        json_begin_array(&w, NULL);
    for (int i = 0; i < count; i++)
        verdict_json(&s[i].verdict, &s[i].recording.facts, &s[i].recording.series, &w);
    if (count > 1) {
        json_end(&w);
        text_append(out, "\n", 1);
    }
}

static void print_text(const struct report_side *s, int count, struct text *out)
{
    for (int i = 0; i < count; i++)
        verdict_print(&s[i].verdict, &s[i].recording.facts, out);
    (count > 1 ? print_comparison : print_loop)(s, out);
}

int report_run(const char *const *recordings, int count, const char *page, bool json, struct text *out, uint64_t *lost_bytes,
               struct fb_error *e)
{
    struct report_side side[2] = {0};
    int read = 0, rc = 0;
    for (*lost_bytes = 0; read < count && rc == 0; read += rc == 0) {
        side[read].path = recordings[read];
        rc = recording_read(&side[read].recording, recordings[read], e);
        *lost_bytes += side[read].recording.lost_bytes;
        struct recording *r = &side[read].recording;
        if (rc == 0)
            diagnose(&r->series, &r->facts, &side[read].verdict);
        side[read].has_loop = rc == 0 && loop_summarise(r->mark, r->marks, &side[read].loop);
    }
    if (rc == 0 && page) {
        struct text t = {.limit = PAGE_MOST};
        make_page(side, count, &t);
        rc = t.failed ? error_set(e, FB_E_NOMEM, "report", "the page would be larger than 1 MiB") : write_page(page, &t, e);
        text_free(&t);
    } else if (rc == 0) {
        (json ? print_json : print_text)(side, count, out);
    }
    for (int i = 0; i < read; i++)
        recording_free(&side[i].recording);
    return rc;
}
