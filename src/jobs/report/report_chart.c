/* A chart is a stretched SVG (0..1000 by 0..100) with its words beside it in HTML, so that it fits any width and letters stay letters.
 * Series are thinned to at most CHART_POINTS by merging neighbours; sums stay sums.
 */
#include "jobs/report/report_chart.h"

#include <stdlib.h>
#include <string.h>

enum { CHART_POINTS = 240 };

static int thin(const struct series *s, struct snapshot *out)
{
    int group = (s->count + CHART_POINTS - 1) / CHART_POINTS, n = 0;
    for (int i = 0; i < s->count; i += group, n++) {
        out[n] = s->row[i];
        for (int k = i + 1; k < i + group && k < s->count; k++)
            snapshot_merge(&out[n], &s->row[k]);
    }
    return n;
}

static double value_of(const struct chart *c, int layer, const struct snapshot *row)
{
    double x = c->layer[layer].value(row) * c->scale;
    return isfinite(x) ? x : NAN;
}

/* 1, 2, 5 times a power of ten. */
static double round_number(double x)
{
    if (x <= 0)
        return 1;
    double power = pow(10, floor(log10(x)));
    double step[] = {1, 2, 5, 10};
    for (int i = 0; i < 4; i++)
        if (x <= step[i] * power * 1.0001)
            return step[i] * power;
    return x;
}

static double top_of(const struct chart *c, const struct snapshot *row, int n, bool *has_any)
{
    double most = 0;
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int k = 0; k < c->layers; k++) {
            double x = value_of(c, k, &row[i]);
            *has_any |= !isnan(x);
            sum = isnan(x) ? sum : c->is_stacked ? sum + x : fmax(sum, x);
        }
        most = fmax(most, sum);
    }
    return c->top > 0 ? c->top : round_number(most);
}

struct plot {
    const struct snapshot *row;
    int n;
    double top, end_s;
    double base[CHART_POINTS];
};

static double x_of(const struct plot *p, int i)
{
    return 1000 * (i == 0 ? fmax(0, p->row[0].at_s - p->row[0].wall_s) : p->row[i].at_s) / p->end_s;
}

static double y_of(const struct plot *p, double value)
{
    return 100 - 100 * fmin(1, fmax(0, value / p->top));
}

static void draw_area(struct text *t, const struct chart *c, int layer, struct plot *p)
{
    double upper[CHART_POINTS];
    text_printf(t, "<path class=\"c%d a\" d=\"", c->layer[layer].colour);
    for (int i = 0; i < p->n; i++) {
        double x = value_of(c, layer, &p->row[i]);
        upper[i] = p->base[i] + (isnan(x) ? 0 : x);
        text_printf(t, "%s%.1f %.1f", i ? "L" : "M", x_of(p, i), y_of(p, upper[i]));
    }
    for (int i = p->n - 1; i >= 0; i--)
        text_printf(t, "L%.1f %.1f", x_of(p, i), y_of(p, p->base[i]));
    text_printf(t, "Z\"/>");
    memcpy(p->base, upper, sizeof(upper[0]) * (size_t)p->n);
}

static void draw_line(struct text *t, const struct chart *c, int layer, struct plot *p)
{
    bool is_open = false;
    text_printf(t, "<path class=\"c%d l\" d=\"", c->layer[layer].colour);
    for (int i = 0; i < p->n; i++) {
        double x = value_of(c, layer, &p->row[i]);
        if (!isnan(x))
            text_printf(t, "%s%.1f %.1f", is_open ? "L" : "M", x_of(p, i), y_of(p, x));
        is_open = !isnan(x);
    }
    text_printf(t, "\"/>");
}

/* Where the program said that an epoch begins; more of them would be a hatching. */
static void draw_epochs(struct text *t, const struct plot *p)
{
    enum { EPOCHS_MOST = 40 };
    int epochs = 0;
    for (int i = 0; i < p->n; i++)
        epochs += p->row[i].loop_epochs > 0;
    for (int i = 1; i < p->n && epochs > 1 && epochs <= EPOCHS_MOST; i++)
        if (p->row[i].loop_epochs > 0)
            text_printf(t, "<path class=\"e\" d=\"M%.1f 0V100\"/>", x_of(p, i));
}

static void draw_frame(struct text *t, const struct plot *p, double from_s, double to_s)
{
    if (from_s > 0)
        text_printf(t, "<rect class=\"off\" x=\"0\" y=\"0\" width=\"%.1f\" height=\"100\"/>", 1000 * from_s / p->end_s);
    if (to_s < p->end_s)
        text_printf(t, "<rect class=\"off\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"100\"/>", 1000 * to_s / p->end_s,
                    1000 * (1 - to_s / p->end_s));
    for (int i = 1; i < 4; i++)
        text_printf(t, "<path class=\"g\" d=\"M0 %d H1000\"/>", 25 * i);
    draw_epochs(t, p);
}

static void put_values(struct text *t, const struct chart *c, const struct plot *p)
{
    struct json_writer w = {.out = t};
    text_printf(t, "<script type=\"application/json\" class=\"v\">");
    json_begin_object(&w, NULL);
    json_begin_array(&w, "t");
    for (int i = 0; i < p->n; i++)
        json_put(&w, J_FIXED(NULL, 1, p->row[i].at_s));
    json_end(&w);
    json_begin_array(&w, "v");
    for (int k = 0; k < c->layers; k++) {
        json_begin_array(&w, NULL);
        for (int i = 0; i < p->n; i++)
            json_put(&w, J_DIGITS(NULL, 3, value_of(c, k, &p->row[i])));
        json_end(&w);
    }
    json_end(&w);
    json_end(&w);
    text_printf(t, "</script>");
}

static void draw_words(struct text *t, const struct chart *c, const struct plot *p)
{
    text_printf(t, "<div class=\"x\"><span>0 s</span><span>%.0f s</span><span>%.0f s</span></div><div class=\"k\">", p->end_s / 2,
                p->end_s);
    for (int k = 0; k < c->layers; k++)
        text_printf(t, "<span><i class=\"c%d\"></i>%s <b></b></span>", c->layer[k].colour, c->layer[k].name);
    text_printf(t, "</div>");
}

bool chart_draw(struct text *t, const struct chart *c, const struct series *s, double from_s, double to_s)
{
    struct snapshot *row = malloc((CHART_POINTS + 1) * sizeof(*row));
    bool has_any = false;
    if (!row || !s->count) {
        free(row);
        return false;
    }
    struct plot p = {.row = row, .n = thin(s, row), .end_s = s->row[s->count - 1].at_s};
    p.top = top_of(c, row, p.n, &has_any);
    if (has_any && p.end_s > 0) {
        text_printf(
            t, "<figure class=\"chart\" id=\"%s\" data-unit=\"%s\"><figcaption>%s<span class=\"y\">0&ndash;%.3g %s</span></figcaption>",
            c->id, c->unit, c->title, p.top, c->unit);
        text_printf(t, "<svg viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"%s\">", c->title);
        for (int k = 0; k < c->layers; k++)
            (c->is_stacked ? draw_area : draw_line)(t, c, k, &p);
        draw_frame(t, &p, from_s, to_s);
        text_printf(t, "<path class=\"h\" d=\"M0 0V100\"/></svg>");
        draw_words(t, c, &p);
        put_values(t, c, &p);
        text_printf(t, "</figure>\n");
    }
    free(row);
    return has_any;
}
