/* Warm-up ends when the trainers have mapped their libraries, memory stops growing and the first loaders have delivered; the end begins
 * when the last loader is gone. What lies between is the steady part; p5, p50 and p95 are taken there and nowhere else.
 */
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "diagnose/findings.h"

/* Libraries that come late (a plug-in at the first image) are not an import phase. */
static const double code_share = 0.97, growth_share = 0.9;

static int end_of_imports(const struct series *s)
{
    double most = 0;
    int from = 0;
    for (int i = 0; i < s->count; i++)
        most = fmax(most, s->row[i].code_bytes);
    while (from < s->count && s->row[from].code_bytes < code_share * most)
        from++;
    return from + 1; /* the row in which they ended is mixed */
}

/* A program that still builds its model and its tables grows; nine tenths of what it later holds is when that is over. A run that grows for
 * ever is cut at its half. */
static int end_of_growth(const struct series *s)
{
    int half = s->count / 2, n = s->count - half, from = 0;
    double *late = n > 0 ? malloc((size_t)n * sizeof(double)) : NULL;
    if (!late)
        return 0;
    for (int i = 0; i < n; i++)
        late[i] = s->row[half + i].rss_bytes;
    qsort(late, (size_t)n, sizeof(double), compare_double);
    while (from < half && s->row[from].rss_bytes < growth_share * late[n / 2])
        from++;
    free(late);
    return from > 0 ? from + 1 : 0;
}

/* A loop that tells its batches has warmed up when the first has come. */
static int first_batch(const struct series *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->row[i].loop_batches > 0)
            return i + 1;
    return 0;
}

/* The first row that counts. */
static int end_of_startup(const struct series *s)
{
    int from = 0;
    for (int i = 0; i < s->count; i++)
        if (s->row[i].startup_ns > 0 && s->row[i].pause_ns == 0)
            from = i + 1;
    int imports = end_of_imports(s), growth = end_of_growth(s), told = first_batch(s);
    if (told)
        return told;
    from = imports > from ? imports : from;
    return growth > from ? growth : from;
}

static bool has_loader_processes(const struct snapshot *r)
{
    return r->role[ROLE_LOADER].processes > 0;
}

/* Loaders that die and are not followed by others: that is the end, not a pause between epochs. */
static int last_deaths(const struct series *s)
{
    int after = 0;
    for (int i = 0; i < s->count; i++)
        after = s->row[i].loader_births > 0 ? i + 1 : after;
    if (!s->count || has_loader_processes(&s->row[s->count - 1]))
        return s->count;
    while (after < s->count && !(s->row[after].loader_deaths > 0))
        after++;
    return after;
}

static int begin_of_end(const struct series *s)
{
    int last = s->count;
    bool has_any = false;
    for (int i = 0; i < s->count; i++)
        has_any |= has_loader_processes(&s->row[i]);
    if (first_batch(s)) {
        while (last > 0 && !(s->row[last - 1].loop_batches > 0))
            last--;
        return last;
    }
    if (!has_any)
        return s->count;
    while (last > 0 && !has_loader_processes(&s->row[last - 1]))
        last--;
    int deaths = last_deaths(s);
    return deaths < last ? deaths : last;
}

static void add_up(const struct series *s, struct window *w)
{
    memset(&w->sum, 0, sizeof(w->sum));
    w->run_s = s->count ? s->row[s->count - 1].at_s : 0;
    w->warmup_s = w->from > 0 && w->from <= s->count ? s->row[w->from - 1].at_s : 0;
    for (int i = w->from; i < w->to; i++) {
        if (i == w->from)
            w->sum = s->row[i];
        else
            snapshot_merge(&w->sum, &s->row[i]);
    }
    w->steady_s = w->to > w->from ? w->sum.wall_s : 0;
}

void window_find(const struct series *s, struct window *w)
{
    w->from = end_of_startup(s);
    w->to = begin_of_end(s);
    if (w->to == s->count && w->to > w->from + 2)
        w->to--; /* the row in which it ended */
    if (w->from > s->count)
        w->from = s->count;
    if (w->to < w->from)
        w->to = w->from;
    add_up(s, w);
}

void window_last(const struct series *s, double seconds, struct window *w)
{
    double wall = 0;
    int first = s->count && s->row[s->count - 1].at_s < 60 + seconds ? end_of_startup(s) : 0; /* later it lies behind anyway */
    w->to = w->from = s->count;
    while (w->from > first && wall < seconds)
        wall += s->row[--w->from].wall_s;
    add_up(s, w);
}
