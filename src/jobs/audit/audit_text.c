#include "jobs/audit_text.h"

#include <string.h>

typedef unsigned long long ull;

static const char *const verdicts[] = {"proved", "unfinished", "left", "NOT PROVED"};

/* ---- for people ---- */

static const char *plural(uint64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_head(const struct audit_stream *s, struct text *t)
{
    text_show(t, "%llu samples (%016llx), seed %llu, %s: %llu log%s of up to %llu rank%s", (ull)s->samples, (ull)s->fingerprint,
              (ull)s->seed, order_kind_name(s->order), (ull)s->logs, plural(s->logs), (ull)s->ranks, plural(s->ranks));
    if (s->restarts)
        text_show(t, ", started again %llu time%s", (ull)s->restarts, plural(s->restarts));
    text_show(t, "\n");
    if (s->has_many_configs)
        text_show(t, "  the transforms changed between starts, so bytes from different starts are not compared\n");
}

static void print_reach(const struct audit_stream *s, const struct audit_epoch *e, struct text *t)
{
    if (e->verdict == AUDIT_ABANDONED && e->furthest == 0) {
        text_show(t, "repeated from the beginning after a restart");
        return;
    }
    text_show(t, "up to position %llu of %llu, each once", (ull)e->reached, (ull)s->samples);
    if (e->furthest > e->reached)
        text_show(t, " (rank %u is the last; others came to %llu)", e->slowest_rank, (ull)e->furthest);
}

static void print_what(const struct audit_stream *s, const struct audit_epoch *e, struct text *t)
{
    bool is_part = e->verdict == AUDIT_UNFINISHED || e->verdict == AUDIT_ABANDONED;
    if (is_part)
        print_reach(s, e, t);
    else if (s->order == ORDER_GIVEN)
        text_show(t, "%llu samples, in an order given by the program", (ull)e->handed_out);
    else if (s->order == ORDER_WEIGHTED)
        text_show(t, "%llu draws by weight, each position once", (ull)e->handed_out);
    else if (e->verdict == AUDIT_PROVED)
        text_show(t, "%llu samples, each once", (ull)(e->handed_out - e->redraws));
    else
        text_show(t, "%llu of %llu positions handed out, %llu missing", (ull)e->handed_out, (ull)s->samples, (ull)e->missing);
}

static void print_epoch(const struct audit_stream *s, const struct audit_epoch *e, struct text *t)
{
    bool is_whole = e->verdict == AUDIT_PROVED || e->verdict == AUDIT_BROKEN;
    text_show(t, "  epoch %-4llu %-11s ", (ull)e->epoch, verdicts[e->verdict]);
    print_what(s, e, t);
    if (e->redraws)
        text_show(t, "; %llu bad sample%s replaced", (ull)e->redraws, plural(e->redraws));
    if (e->replayed)
        text_show(t, "; %llu came again after restarts%s", (ull)e->replayed,
                  e->verdict == AUDIT_BROKEN || s->has_many_configs ? "" : ", with the same bytes");
    if (e->repeats)
        text_show(t, "; %llu repeat%s fill up the last batch", (ull)e->repeats, e->repeats == 1 ? "" : "s");
    if (e->skipped)
        text_show(t, "; %llu skipped by the program", (ull)e->skipped);
    if (e->dropped && is_whole)
        text_show(t, "; %llu dropped by drop_last", (ull)e->dropped);
    text_show(t, "\n");
}

static void print_redraws(const struct audit_set *s, struct text *t)
{
    for (uint64_t i = 0; i < s->redraws; i++) {
        const struct audit_redraw *r = &s->redraw[i];
        text_show(t, "replaced: epoch %llu, position %llu: ", (ull)r->epoch, (ull)r->position);
        if (r->key)
            text_show(t, "%s (sample %llu)", r->key, (ull)r->sample);
        else
            text_show(t, "sample %llu", (ull)r->sample);
        text_show(t, " by sample %llu\n", (ull)r->stand_in);
    }
    if (s->redraws == AUDIT_MOST_REDRAWS)
        text_show(t, "... and perhaps more\n");
}

static void print_problems(const struct audit_set *s, struct text *t)
{
    for (uint64_t i = 0; i < s->problems && i < AUDIT_MOST_PROBLEMS; i++) {
        const struct audit_problem *p = &s->problem[i];
        bool is_of_log = p->position < 0 && strstr(p->what, " is damaged at byte ");
        if (!is_of_log)
            text_show(t, "epoch %llu", (ull)p->epoch);
        if (p->position >= 0)
            text_show(t, ", position %lld", (long long)p->position);
        text_show(t, "%s%s\n", is_of_log ? "" : ": ", p->what);
    }
    if (s->problems > AUDIT_MOST_PROBLEMS)
        text_show(t, "... and %llu more\n", (ull)(s->problems - AUDIT_MOST_PROBLEMS));
}

static bool is_under_way(const struct audit_set *s)
{
    for (uint64_t i = 0; i < s->streams; i++)
        for (uint64_t k = 0; k < s->stream[i].epochs; k++)
            if (s->stream[i].epoch[k].verdict == AUDIT_UNFINISHED)
                return true;
    return false;
}

void audit_print(const struct audit_set *s, struct text *t)
{
    for (uint64_t i = 0; i < s->streams; i++) {
        print_head(&s->stream[i], t);
        for (uint64_t k = 0; k < s->stream[i].epochs; k++)
            print_epoch(&s->stream[i], &s->stream[i].epoch[k], t);
    }
    print_redraws(s, t);
    print_problems(s, t);
    if (s->torn)
        text_show(t, "%llu log%s in a record that is not whole: the process was killed while writing it\n", (ull)s->torn,
                  s->torn == 1 ? " ends" : "s end");
    const char *good = s->streams == 0 ? "nothing was handed out" : is_under_way(s) ? "proved so far" : "proved";
    text_show(t, "%s\n", s->problems ? "NOT PROVED" : good);
}

void audit_print_difference(const struct audit_difference *d, struct text *t)
{
    if (d->is_different)
        text_show(t, "DIFFERENT: %s (%llu samples before it are the same)\n", d->what, (ull)d->compared);
    else
        text_show(t, "the same: %llu samples, byte for byte\n", (ull)d->compared);
}

/* ---- for programs ---- */

static void put_epoch(struct json_writer *w, const struct audit_epoch *e)
{
    static const char *const names[] = {"proved", "unfinished", "left", "not proved"};
    json_put(w, J_OBJECT(NULL, J("epoch", e->epoch), J("verdict", names[e->verdict]), J("handed_out", e->handed_out),
                         J("replayed", e->replayed), J("repeats", e->repeats), J("redraws", e->redraws), J("skipped", e->skipped),
                         J("dropped", e->dropped), J("missing", e->missing), J("reached", e->reached), J("problems", e->problems),
                         J_HEX("digest", e->digest)));
}

static void put_streams(struct json_writer *w, const struct audit_set *s)
{
    json_begin_array(w, "streams");
    for (uint64_t i = 0; i < s->streams; i++) {
        const struct audit_stream *m = &s->stream[i];
        json_begin_object(w, NULL);
        json_put(w, J_HEX("fingerprint", m->fingerprint), J("samples", m->samples), J_QUOTED("seed", m->seed),
                 J("order", order_kind_name(m->order)), J("logs", m->logs), J("ranks", m->ranks), J("restarts", m->restarts));
        json_begin_array(w, "epochs");
        for (uint64_t k = 0; k < m->epochs; k++)
            put_epoch(w, &m->epoch[k]);
        json_end(w);
        json_end(w);
    }
    json_end(w);
}

static void put_redraws(struct json_writer *w, const struct audit_set *s)
{
    json_begin_array(w, "redraws");
    for (uint64_t i = 0; i < s->redraws; i++) {
        const struct audit_redraw *r = &s->redraw[i];
        json_put(w, J_OBJECT(NULL, J("stream", r->stream), J("epoch", r->epoch), J("position", r->position), J("sample", r->sample),
                             J("stand_in", r->stand_in), J("key", r->key)));
    }
    json_end(w);
}

static void put_set(struct json_writer *w, const char *key, const struct audit_set *s)
{
    json_begin_object(w, key);
    json_put(w, J_BOOL("is_proved", !s->problems), J("logs", s->logs), J("logs_torn", s->torn), J("logs_damaged", s->damaged));
    put_streams(w, s);
    put_redraws(w, s);
    json_put(w, J("problem_count", s->problems));
    json_begin_array(w, "problems");
    for (uint64_t i = 0; i < s->problems && i < AUDIT_MOST_PROBLEMS; i++) {
        const struct audit_problem *p = &s->problem[i];
        json_put(w, J_OBJECT(NULL, J("stream", p->stream), J("epoch", p->epoch), J("position", p->position), J("what", p->what)));
    }
    json_end(w);
    json_end(w);
}

void audit_json(const struct audit_set *s, const struct audit_set *other, const struct audit_difference *d, struct text *t)
{
    struct json_writer w = {.out = t};
    if (!other) {
        put_set(&w, NULL, s);
    } else {
        json_begin_object(&w, NULL);
        put_set(&w, "first", s);
        put_set(&w, "second", other);
        json_put(&w, J_BOOL("is_different", d->is_different), J("samples_equal", d->compared), J("difference", d->what));
        json_end(&w);
    }
    text_append(t, "\n", 1);
}
