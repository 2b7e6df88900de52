/* Rank and world size from the environment variables of launchers. The rules are in ranks.h. It never guesses: a wrong guess would train on
 * the wrong share of the data unnoticed. */
#include "order/ranks/ranks.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

struct source {
    const char *rank_name, *world_name;
    bool may_be_half; /* SLURM: see ranks.h */
};

static const struct source sources[] = {
    {"RANK", "WORLD_SIZE", false},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", false},
    {"PMI_RANK", "PMI_SIZE", false},
    {"SLURM_PROCID", "SLURM_NTASKS", true},
};
enum { SOURCE_COUNT = sizeof(sources) / sizeof(sources[0]) };

struct claim {
    const struct source *by; /* NULL: nobody says anything */
    int rank, world;
};

typedef const char *getter(const char *name);

static const char *value_of(getter *get, const char *name)
{
    const char *v = get(name);
    return v && v[0] ? v : NULL;
}

static int parse(const char *name, const char *text, int *out, struct fb_error *e)
{
    char *end;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && !*end && !errno && v <= INT_MAX) {
        *out = (int)v;
        return 0;
    }
    char shown[64];
    error_set(e, FB_E_USAGE, "order", "the environment variable %s=%s is not a number", name, text_escape(text, shown, sizeof(shown)));
    error_remedy(e, "unset it, or pass rank= and world_size=");
    return FB_E_USAGE;
}

static int refuse_half(const char *present, const char *missing, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "order", "the environment variable %s is set but %s is not", present, missing);
    error_remedy(e, "set both or none, or pass rank= and world_size=");
    return FB_E_USAGE;
}

/* 0: *c is filled when the source says something. */
static int ask(const struct source *s, getter *get, struct claim *c, struct fb_error *e)
{
    const char *rank_text = value_of(get, s->rank_name), *world_text = value_of(get, s->world_name);
    *c = (struct claim){.rank = 0, .world = 1};
    if (rank_text)
        FB_TRY(parse(s->rank_name, rank_text, &c->rank, e));
    if (world_text)
        FB_TRY(parse(s->world_name, world_text, &c->world, e));
    if (!rank_text && !world_text)
        return 0;
    bool is_alone = s->may_be_half && c->rank == 0 && c->world == 1;
    if (!rank_text && !is_alone)
        return refuse_half(s->world_name, s->rank_name, e);
    if (!world_text && !is_alone)
        return refuse_half(s->rank_name, s->world_name, e);
    if (c->rank >= c->world) {
        error_set(e, FB_E_USAGE, "order", "the environment says %s=%d and %s=%d: ranks count from 0 to world size - 1", s->rank_name,
                  c->rank, s->world_name, c->world);
        error_remedy(e, "correct them, or pass rank= and world_size=");
        return FB_E_USAGE;
    }
    c->by = s;
    return 0;
}

static int refuse_disagreement(const struct claim *a, const struct claim *b, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "order", "the environment contradicts itself: %s=%d, %s=%d but %s=%d, %s=%d", a->by->rank_name, a->rank,
              a->by->world_name, a->world, b->by->rank_name, b->rank, b->by->world_name, b->world);
    error_remedy(e, "pass rank= and world_size=, or unset the pair that is left over from another launcher");
    return FB_E_USAGE;
}

/* A SLURM world of one: the job has one task, and whatever it started may have a world of its own. */
static bool says_nothing(const struct claim *c)
{
    return c->by->may_be_half && c->world == 1;
}

static int check_local_rank(getter *get, const struct claim *c, struct fb_error *e)
{
    const char *text = value_of(get, "LOCAL_RANK");
    int local;
    if (!text)
        return 0;
    FB_TRY(parse("LOCAL_RANK", text, &local, e));
    if (!c->by)
        error_set(e, FB_E_USAGE, "order", "the environment has LOCAL_RANK=%d but no rank: every process would read the same data", local);
    else if (local >= c->world)
        error_set(e, FB_E_USAGE, "order", "the environment contradicts itself: LOCAL_RANK=%d but %s says the world has %d", local,
                  c->by->world_name, c->world);
    else
        return 0;
    error_remedy(e, "set RANK and WORLD_SIZE, or pass rank= and world_size=");
    return FB_E_USAGE;
}

/* Under torchrun and in a worker of Ray the other variables are about whoever started those. */
static bool is_inside(getter *get)
{
    return value_of(get, "TORCHELASTIC_RUN_ID") || value_of(get, "RAY_RAYLET_PID");
}

/* A worker of Ray without a rank: what is there was inherited from the raylet, so every worker of a machine would be the same rank. */
static int check_ray(getter *get, const struct claim *c, struct fb_error *e)
{
    if (!value_of(get, "RAY_RAYLET_PID") || !c->by || c->by == &sources[0] || c->world == 1)
        return 0;
    error_set(e, FB_E_USAGE, "order",
              "this is a worker of Ray, and %s=%d, %s=%d are its raylet's: every worker here would read the same data", c->by->rank_name,
              c->rank, c->by->world_name, c->world);
    error_remedy(e, "pass rank= and world_size= from ray.train.get_context()");
    return FB_E_USAGE;
}

int ranks_from_environment(const char *(*get)(const char *name), int *rank, int *world, struct fb_error *e)
{
    struct claim best = {.by = NULL, .rank = 0, .world = 1};
    bool is_settled = is_inside(get) && value_of(get, "RANK");
    for (int i = 0; i < (is_settled ? 1 : SOURCE_COUNT); i++) {
        struct claim c;
        FB_TRY(ask(&sources[i], get, &c, e));
        if (!c.by || (best.by && says_nothing(&c)))
            continue;
        if (best.by && (best.rank != c.rank || best.world != c.world))
            return refuse_disagreement(&best, &c, e);
        if (!best.by)
            best = c;
    }
    FB_TRY(check_ray(get, &best, e));
    FB_TRY(check_local_rank(get, &best, e));
    *rank = best.rank;
    *world = best.world;
    return 0;
}
