#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/audit.h"
#include "model/audit_format.h"

void audit_note_problem(struct audit_set *s, uint64_t stream, uint64_t epoch, int64_t position, const char *format, ...)
{
    if (s->problems++ >= AUDIT_MOST_PROBLEMS)
        return;
    struct audit_problem *p = &s->problem[s->problems - 1];
    *p = (struct audit_problem){.stream = stream, .epoch = epoch, .position = position};
    va_list ap;
    va_start(ap, format);
    text_vwords(p->what, sizeof(p->what), format, ap);
    va_end(ap);
}

/* ---- the directory ---- */

static int is_log(const struct dirent *d)
{
    size_t n = strlen(d->d_name), suffix = sizeof(AUDIT_SUFFIX) - 1;
    return n > suffix && strcmp(d->d_name + n - suffix, AUDIT_SUFFIX) == 0;
}

static int open_logs(struct audit_set *s, const char *dir, struct dirent **names, int count, struct fb_error *e)
{
    char path[8192];
    s->log = calloc((size_t)count, sizeof(*s->log));
    if (!s->log)
        return error_set_errno(e, "audit", ENOMEM, "join %d logs", count);
    for (int i = 0; i < count; i++) {
        int n = snprintf(path, sizeof(path), "%s/%s", dir, names[i]->d_name);
        if (n < 0 || (size_t)n >= sizeof(path))
            return error_set(e, FB_E_USAGE, "audit", "the path is too long");
        FB_TRY(audit_log_open(&s->log[i], path, e));
        s->logs++;
    }
    return 0;
}

/* ---- streams ---- */

static bool is_of(const struct audit_stream *s, const struct audit_log *l)
{
    return s->fingerprint == l->fingerprint && s->samples == l->samples && s->seed == l->seed && s->order == l->order &&
           s->block == l->block && s->window == l->window;
}

static struct audit_stream *stream_of(struct audit_set *s, const struct audit_log *l)
{
    for (uint64_t i = 0; i < s->streams; i++)
        if (is_of(&s->stream[i], l))
            return &s->stream[i];
    struct audit_stream *new = &s->stream[s->streams++];
    *new = (struct audit_stream){.fingerprint = l->fingerprint, .samples = l->samples, .seed = l->seed, .order = l->order};
    new->block = l->block;
    new->window = l->window;
    return new;
}

static int by_time(const void *a, const void *b)
{
    const struct audit_stretch *x = ((const struct audit_part *)a)->stretch, *y = ((const struct audit_part *)b)->stretch;
    if (x->began_ns != y->began_ns)
        return x->began_ns < y->began_ns ? -1 : 1;
    if (x->layout.rank != y->layout.rank)
        return x->layout.rank < y->layout.rank ? -1 : 1;
    return x < y ? -1 : x > y; /* one log's are in order */
}

/* Every stream gets the stretches of its logs. */
static bool collect_parts(struct audit_stream *s, struct audit_set *set)
{
    uint64_t count = 0, config = 0;
    for (uint64_t i = 0; i < set->logs; i++)
        count += set->log[i].has_head && is_of(s, &set->log[i]) ? set->log[i].stretches : 0;
    s->part = calloc(count + 1, sizeof(*s->part));
    if (!s->part)
        return false;
    for (uint64_t i = 0; i < set->logs; i++) {
        const struct audit_log *l = &set->log[i];
        if (!l->has_head || !is_of(s, l))
            continue;
        s->has_many_configs |= s->logs > 0 && config != l->config;
        config = l->config;
        s->logs++;
        s->restarts += l->stretches > 0 && l->stretch[0].layout.rank == 0;
        for (uint64_t k = 0; k < l->stretches; k++) {
            const struct audit_stretch *stretch = &l->stretch[k];
            s->part[s->parts++] = (struct audit_part){.log = l, .stretch = stretch};
            s->has_skips |= stretch->skips.count > 0;
            s->ranks = stretch->layout.world > s->ranks ? stretch->layout.world : s->ranks;
        }
    }
    s->restarts -= s->restarts > 0;
    qsort(s->part, s->parts, sizeof(*s->part), by_time);
    return true;
}

/* ---- what was taken back ---- */

struct limit {
    uint64_t epoch, position;
};

static bool is_before(struct limit a, struct limit b)
{
    return a.epoch < b.epoch || (a.epoch == b.epoch && a.position < b.position);
}

static const struct limit no_limit = {UINT64_MAX, UINT64_MAX};

static struct limit earlier(struct limit a, struct limit b)
{
    return is_before(a, b) ? a : b;
}

/* From the last stretch to the first: the earliest beginning of those after it, of the same rank, or of a world of another size. For the
 * latter the two worlds with the earliest beginnings are enough: one of them is another one. */
struct backward {
    struct limit *of_rank;
    struct limit best, second; /* second: the best of other worlds than best's */
    uint32_t best_world;
};

static void look_back(struct backward *b, struct audit_part *p)
{
    const struct audit_stretch *s = p->stretch;
    struct limit other = s->layout.world == b->best_world ? b->second : b->best, here = {s->epoch, s->start};
    struct limit limit = earlier(b->of_rank[s->layout.rank], other);
    p->limit_epoch = limit.epoch;
    p->limit_position = limit.position;
    b->of_rank[s->layout.rank] = earlier(b->of_rank[s->layout.rank], here);
    if (s->layout.world == b->best_world) {
        b->best = earlier(b->best, here);
    } else if (is_before(here, b->best)) {
        b->second = b->best;
        b->best = here;
        b->best_world = s->layout.world;
    } else {
        b->second = earlier(b->second, here);
    }
}

static bool find_limits(struct audit_stream *s)
{
    struct backward b = {.of_rank = malloc((s->ranks + 1) * sizeof(struct limit)), .best = no_limit, .second = no_limit};
    if (!b.of_rank)
        return false;
    for (uint64_t i = 0; i <= s->ranks; i++)
        b.of_rank[i] = no_limit;
    for (uint64_t i = s->parts; i > 0; i--)
        look_back(&b, &s->part[i - 1]);
    free(b.of_rank);
    return true;
}

/* ---- epochs ---- */

static int by_number(const void *a, const void *b)
{
    const struct audit_epoch *x = a, *y = b;
    return x->epoch < y->epoch ? -1 : x->epoch > y->epoch;
}

static bool list_epochs(struct audit_stream *s)
{
    s->epoch = calloc(s->parts + 1, sizeof(*s->epoch));
    if (!s->epoch)
        return false;
    for (uint64_t i = 0; i < s->parts; i++)
        s->epoch[i].epoch = s->part[i].stretch->epoch;
    qsort(s->epoch, s->parts, sizeof(*s->epoch), by_number);
    for (uint64_t i = 0; i < s->parts; i++)
        if (s->epochs == 0 || s->epoch[s->epochs - 1].epoch != s->epoch[i].epoch)
            s->epoch[s->epochs++] = s->epoch[i];
    return true;
}

/* ---- the whole ---- */

static void note_log(struct audit_set *s, const struct audit_log *l)
{
    char shown[300];
    s->torn += l->torn_bytes > 0;
    s->damaged += l->is_damaged;
    s->empty += !l->has_head && !l->is_damaged;
    if (l->is_damaged)
        audit_note_problem(s, 0, 0, -1, "%s is damaged at byte %llu: what follows is not read", text_escape(l->path, shown, sizeof(shown)),
                           (unsigned long long)l->damaged_at);
}

static int join(struct audit_set *s, struct fb_error *e)
{
    s->stream = calloc(s->logs, sizeof(*s->stream));
    bool has_memory = s->stream != NULL;
    for (uint64_t i = 0; has_memory && i < s->logs; i++) {
        note_log(s, &s->log[i]);
        if (s->log[i].has_head && s->log[i].stretches)
            stream_of(s, &s->log[i]);
    }
    for (uint64_t i = 0; has_memory && i < s->streams; i++)
        has_memory = collect_parts(&s->stream[i], s) && find_limits(&s->stream[i]) && list_epochs(&s->stream[i]);
    return has_memory ? 0 : error_set_errno(e, "audit", ENOMEM, "join the logs");
}

int audit_join(struct audit_set *s, const char *dir, struct fb_error *e)
{
    struct dirent **names = NULL;
    memset(s, 0, sizeof(*s));
    int count = scandir(dir, &names, is_log, alphasort), rc = 0;
    if (count < 0) {
        rc = error_set_errno(e, "audit", errno, "read the directory");
    } else if (count == 0) {
        rc = error_set(e, FB_E_NOT_FOUND, "audit", "no audit logs here");
        error_remedy(e, "run the program with FULLBORE_AUDIT set to this directory");
    } else {
        rc = open_logs(s, dir, names, count, e);
    }
    if (rc < 0)
        error_at(e, dir, -1);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (rc == 0)
        rc = join(s, e);
    if (rc < 0)
        audit_free(s);
    return rc;
}

void audit_free(struct audit_set *s)
{
    for (uint64_t i = 0; i < s->streams; i++) {
        free(s->stream[i].part);
        free(s->stream[i].epoch);
    }
    for (uint64_t i = 0; i < s->logs; i++)
        audit_log_close(&s->log[i]);
    free(s->stream);
    free(s->log);
    s->stream = NULL;
    s->log = NULL;
    s->streams = s->logs = 0;
}
