/* Warm-up ends when the trainers have mapped their libraries (imports done) and the first loaders have delivered; the end begins when the
 * last loader is gone. What lies between is the steady part; p5, p50 and p95 are taken there and nowhere else.
 */
#include <string.h>

#include "diagnose/findings.h"

/* Libraries that come late (a plug-in at the first image) are not an import phase. */
static const double code_share = 0.97;

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

static int end_of_startup(const struct series *s)
{
    int from = 0;
    for (int i = 0; i < s->count; i++)
        if (s->row[i].startup_ns > 0 && s->row[i].pause_ns == 0)
            from = i + 1;
    return from;
}

static bool has_loader_processes(const struct snapshot *r)
{
    return r->role[ROLE_LOADER].processes > 0;
}

static int begin_of_end(const struct series *s)
{
    int last = s->count;
    bool has_any = false;
    for (int i = 0; i < s->count; i++)
        has_any |= has_loader_processes(&s->row[i]);
    if (!has_any)
        return s->count;
    while (last > 0 && !has_loader_processes(&s->row[last - 1]))
        last--;
    return last;
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
    int imports = end_of_imports(s), startup = end_of_startup(s);
    w->from = imports > startup ? imports : startup;
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
    int first = end_of_imports(s), startup = end_of_startup(s);
    first = startup > first ? startup : first;
    w->to = w->from = s->count;
    while (w->from > first && wall < seconds)
        wall += s->row[--w->from].wall_s;
    add_up(s, w);
}
