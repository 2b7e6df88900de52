#include "jobs/report/report_page.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text/text.h"

/* Markup, control characters and what is not UTF-8 come out harmless. */
void page_escape(struct text *t, const char *s)
{
    char safe[1024];
    text_escape(s, safe, sizeof(safe));
    for (const char *p = safe; *p; p++) {
        const char *entity = *p == '<'    ? "&lt;"
                             : *p == '>'  ? "&gt;"
                             : *p == '&'  ? "&amp;"
                             : *p == '"'  ? "&quot;"
                             : *p == '\'' ? "&#39;"
                                          : NULL;
        if (entity)
            text_append(t, entity, strlen(entity));
        else
            text_append(t, p, 1);
    }
}

/* ---- the verdict ---- */

static void put_figure(struct text *t, const char *value, const char *name)
{
    text_printf(t, "<div><b>%s</b><span>%s</span></div>", value, name);
}

static void put_when(struct text *t, const struct run_facts *f, const char *name)
{
    char when[64] = "";
    time_t at = f->started_unix > 0 && f->started_unix < 1e11 ? (time_t)f->started_unix : 0;
    struct tm parts;
    if (f->started_unix > 0 && f->started_unix < 1e11 && localtime_r(&at, &parts))
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &parts);
    text_printf(t, "<small>%s%s%s", name[0] ? "<b>" : "", name, name[0] ? "</b> &middot; " : "");
    page_escape(t, f->program[0] ? f->program : "a run that was cut off");
    text_printf(t, " ");
    page_escape(t, f->script);
    text_printf(t, " &middot; %s</small>", when);
}

void page_verdict(struct text *t, const struct report_side *s, const char *name)
{
    const struct verdict *v = &s->verdict;
    char value[64];
    text_printf(t, "<section class=\"card verdict %s\">", isnan(v->lost_ratio) ? "moderate" : verdict_band(v->lost_ratio));
    put_when(t, &s->recording.facts, name);
    text_printf(t, "<div class=\"what\">%s</div>", verdict_name(v->kind));
    page_sentence(t, v);
    text_printf(t, "<div class=\"figures\">");
    text_format(value, sizeof(value), isnan(v->starved_ratio) ? "n/a" : "%.0f %%", 100 * v->starved_ratio);
    put_figure(t, value, "of the time waiting for data");
    text_format(value, sizeof(value), isnan(v->gain_bound) ? "n/a" : v->lost_ratio < 0.05 ? "nothing" : "%.2f&times;", v->gain_bound);
    put_figure(t, value, v->lost_ratio < 0.05 ? "to gain by feeding it faster" : "as fast at best");
    text_format(value, sizeof(value), isnan(v->gpu_p50) ? "n/a" : "%.0f %%", 100 * v->gpu_p50);
    put_figure(t, value,
               isnan(v->gpu_p50) ? "accelerator: no figure"
               : v->has_swings   ? "accelerator busy (p50); it swings"
                                 : "accelerator busy (p50)");
    text_format(value, sizeof(value), "%.0f s", v->run_s);
    put_figure(t, value, "watched");
    text_printf(t, "</div>");
    page_shares(t, s);
    text_printf(t, "</section>\n");
}

void page_evidence(struct text *t, const struct report_side *s)
{
    const struct run_facts *f = &s->recording.facts;
    text_printf(t, "<h2>Evidence</h2><section class=\"card\"><ul class=\"evidence\">");
    for (int i = 0; i < s->verdict.evidences; i++) {
        text_printf(t, "<li>");
        page_escape(t, s->verdict.evidence[i]);
        text_printf(t, "</li>");
    }
    if (isnan(s->verdict.gpu_p50) && f->gpu_reason[0]) {
        text_printf(t, "<li>no figures of an accelerator: ");
        page_escape(t, f->gpu_reason);
        text_printf(t, "</li>");
    }
    if (s->recording.lost_bytes)
        text_printf(t, "<li>the recording is cut: %llu bytes at its end could not be used</li>",
                    (unsigned long long)s->recording.lost_bytes);
    text_printf(t, "</ul></section>\n");
}

void page_remedies(struct text *t, const struct report_side *s)
{
    const struct verdict *v = &s->verdict;
    text_printf(t, "<h2>What if</h2><section class=\"card\">");
    if (!v->remedies) {
        text_printf(t, "%s</section>\n",
                    v->lost_ratio < 0.05 ? "Feeding it faster would gain nothing." : "No remedy can be named from these figures.");
        return;
    }
    text_printf(t, "<table><thead><tr><th>change (present value beside it)</th>"
                   "<th class=\"n\">predicted</th><th class=\"hide\"></th></tr></thead><tbody>");
    for (int i = 0; i < v->remedies; i++) {
        const struct remedy *r = &v->remedy[i];
        text_printf(t, "<tr><td>");
        page_escape(t, r->change);
        if (isnan(r->predicted_gain))
            text_printf(t, "</td><td class=\"n\">n/a</td><td class=\"hide\"></td></tr>");
        else
            text_printf(
                t,
                "</td><td class=\"n\">%.2f&times;</td><td class=\"hide\" style=\"width:22%%\"><span class=\"bar\" style=\"width:%.0f%%\">"
                "</span></td></tr>",
                r->predicted_gain, 100 * (r->predicted_gain - 1) / fmax(0.01, v->gain_bound - 1));
    }
    text_printf(t, "</tbody></table></section>\n");
}
