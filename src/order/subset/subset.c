/* The steps of a selection, in their fixed order: classes, per class, fraction, indices, split. Each works on what the one before left, and
 * each says when it leaves nothing. Only names decide (see hash_choice.h), so a selection does not depend on how the data set is stored.
 */
#include "order/subset/subset.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "model/catalog/fingerprint.h"
#include "order/subset/hash_choice.h"
#include "order/subset/subset_classes.h"

struct job {
    struct subset *s; /* s->sample is the selection so far */
    const struct catalog *c;
    const struct subset_request *r;
    struct fb_error *e;
};

static int no_memory(const struct job *j)
{
    return error_set_errno(j->e, "order", ENOMEM, "select from %llu samples", (unsigned long long)j->s->count);
}

static int refuse(const struct job *j, const char *remedy)
{
    error_remedy(j->e, "%s", remedy);
    return FB_E_USAGE;
}

/* ---- the request ---- */

static bool is_share(double v, bool is_one_allowed)
{
    return v > 0 && (v < 1 || (is_one_allowed && v == 1));
}

static int check_request(const struct job *j)
{
    const struct subset_request *r = j->r;
    bool wants_classes = r->classes || r->class_count || r->per_class;
    if (wants_classes && catalog_class_field(j->c) < 0) {
        error_set(j->e, FB_E_USAGE, "order", "classes are asked for, but this data set has no classes");
        return refuse(j, "leave classes= and per_class= out, or put the files into one folder per class");
    }
    if (!is_share(r->fraction, true)) {
        error_set(j->e, FB_E_USAGE, "order", "fraction=%g is not a share", r->fraction);
        return refuse(j, "use a number above 0, up to 1");
    }
    if (!r->split)
        return 0;
    if (strcmp(r->split, "train") != 0 && strcmp(r->split, "val") != 0) {
        char shown[64];
        error_set(j->e, FB_E_USAGE, "order", "there is no split called '%s'", text_escape(r->split, shown, sizeof(shown)));
        return refuse(j, "use \"train\" or \"val\"");
    }
    if (!is_share(r->split_share, false)) {
        error_set(j->e, FB_E_USAGE, "order", "the share of split=\"train\" is %g", r->split_share);
        return refuse(j, "use a number above 0 and below 1, the same for both sides");
    }
    return 0;
}

static int check_left(const struct job *j, const char *step)
{
    if (j->s->count > 0)
        return 0;
    error_set(j->e, FB_E_USAGE, "order", "no sample is left after %s", step);
    return refuse(j, "widen the selection");
}

/* ---- steps ---- */

static bool is_unrestricted(const struct subset_request *r)
{
    return !r->classes && !r->class_count && !r->per_class && r->fraction == 1 && !r->indices && !r->split;
}

static int take_all(const struct job *j)
{
    uint64_t n = catalog_count(j->c);
    j->s->count = n;
    if (n == 0)
        return check_left(j, "opening the data set: it is empty");
    if (is_unrestricted(j->r))
        return 0;
    j->s->sample = n <= SIZE_MAX / sizeof(struct hash_choice) ? malloc(n * sizeof(uint64_t)) : NULL;
    if (!j->s->sample)
        return no_memory(j);
    for (uint64_t i = 0; i < n; i++)
        j->s->sample[i] = i;
    return 0;
}

/* The class of a catalog's sample, -1 for none, below -1 for an error. */
static int label_of(const struct job *j, uint64_t sample)
{
    int64_t label;
    const void *value = catalog_value(j->c, sample, catalog_class_field(j->c), j->e);
    if (!value)
        return FB_E_DATA;
    memcpy(&label, value, sizeof(label));
    return label >= 0 && label < catalog_class_count(j->c) ? (int)label : -1;
}

static int keep_classes(const struct job *j)
{
    struct subset *s = j->s;
    FB_TRY(subset_choose_classes(s, j->c, j->r, j->e));
    if (!s->class_new)
        return 0;
    uint64_t kept = 0;
    for (uint64_t i = 0; i < s->count; i++) {
        int label = label_of(j, s->sample[i]);
        if (label < -1)
            return label;
        if (label >= 0 && s->class_new[label] >= 0)
            s->sample[kept++] = s->sample[i];
    }
    s->count = kept;
    return check_left(j, "choosing classes");
}

/* Working memory of keep_smallest: the selection's samples sorted into groups. */
struct groups {
    int *group;    /* of each sample; -1: of none, not kept */
    uint64_t *end; /* where group g ends in `picks`; while filling, where it goes on */
    struct hash_choice *picks;
    bool *is_kept; /* of each sample */
    int count;
};

static bool groups_open(struct groups *g, uint64_t samples, int count)
{
    g->count = count;
    g->group = calloc(samples, sizeof(*g->group));
    g->end = calloc((size_t)count, sizeof(*g->end));
    g->picks = malloc(samples * sizeof(*g->picks));
    g->is_kept = calloc(samples, sizeof(*g->is_kept));
    return g->group && g->end && g->picks && g->is_kept;
}

static void groups_close(struct groups *g)
{
    free(g->group);
    free(g->end);
    free(g->picks);
    free(g->is_kept);
}

/* Sorts all samples into their groups by counting. */
static int groups_fill(struct groups *g, const struct job *j, enum choice_purpose purpose)
{
    uint64_t begin = 0;
    for (uint64_t i = 0; i < j->s->count; i++)
        if (g->group[i] >= 0)
            g->end[g->group[i]]++;
    for (int k = 0; k < g->count; k++) {
        uint64_t size = g->end[k];
        g->end[k] = begin;
        begin += size;
    }
    for (uint64_t i = 0; i < j->s->count; i++) {
        if (g->group[i] < 0)
            continue;
        const char *key = catalog_key(j->c, j->s->sample[i], j->e);
        if (!key)
            return FB_E_DATA;
        g->picks[g->end[g->group[i]]++] = (struct hash_choice){hash_choice_of(purpose, j->r->class_seed, key), i};
    }
    return 0;
}

/* Keeps `wanted` samples of each group, those with the smallest hashes, in the order they had. */
static void groups_keep(struct groups *g, struct subset *s, uint64_t wanted)
{
    uint64_t begin = 0, kept = 0;
    for (int k = 0; k < g->count; begin = g->end[k++]) {
        uint64_t size = g->end[k] - begin;
        hash_choice_smallest(g->picks + begin, size, wanted);
        for (uint64_t i = 0; i < size && i < wanted; i++)
            g->is_kept[g->picks[begin + i].index] = true;
    }
    for (uint64_t i = 0; i < s->count; i++)
        if (g->is_kept[i])
            s->sample[kept++] = s->sample[i];
    s->count = kept;
}

static int keep_per_class(const struct job *j)
{
    if (j->r->per_class == 0)
        return 0;
    struct groups g;
    int rc = groups_open(&g, j->s->count, catalog_class_count(j->c)) ? 0 : no_memory(j);
    for (uint64_t i = 0; rc == 0 && i < j->s->count; i++) {
        g.group[i] = label_of(j, j->s->sample[i]);
        rc = g.group[i] < -1 ? g.group[i] : 0;
    }
    if (rc == 0)
        rc = groups_fill(&g, j, CHOICE_PER_CLASS);
    if (rc == 0)
        groups_keep(&g, j->s, j->r->per_class);
    groups_close(&g);
    return rc ? rc : check_left(j, "per_class=");
}

static int keep_fraction(const struct job *j)
{
    if (j->r->fraction == 1)
        return 0;
    struct groups g; /* one group, all zeros */
    int rc = groups_open(&g, j->s->count, 1) ? groups_fill(&g, j, CHOICE_FRACTION) : no_memory(j);
    if (rc == 0)
        groups_keep(&g, j->s, (uint64_t)floor(j->r->fraction * (double)j->s->count + 0.5));
    groups_close(&g);
    return rc ? rc : check_left(j, "fraction=");
}

static int refuse_index(const struct job *j, uint64_t i, bool is_outside)
{
    unsigned long long at = i, value = j->r->indices[i], count = j->s->count;
    if (is_outside)
        error_set(j->e, FB_E_USAGE, "order", "indices[%llu] is %llu, but there are %llu samples to choose from", at, value, count);
    else
        error_set(j->e, FB_E_USAGE, "order", "indices[%llu] names sample %llu a second time", at, value);
    return refuse(j, is_outside ? "indices= counts from 0 in what classes=, per_class= and fraction= left"
                                : "name each sample once; to draw some more often use weights=");
}

static int keep_indices(const struct job *j)
{
    const uint64_t *indices = j->r->indices;
    uint64_t n = j->r->index_count;
    if (!indices)
        return 0;
    if (n > j->s->count) /* more than there are: one of the first count + 1 is outside or a repeat */
        n = j->s->count + 1;
    bool *is_taken = calloc(j->s->count, sizeof(bool));
    uint64_t *chosen = malloc((n + 1) * sizeof(*chosen));
    int rc = is_taken && chosen ? 0 : no_memory(j);
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        bool is_outside = indices[i] >= j->s->count;
        if (is_outside || is_taken[indices[i]]) {
            rc = refuse_index(j, i, is_outside);
        } else {
            is_taken[indices[i]] = true;
            chosen[i] = j->s->sample[indices[i]];
        }
    }
    free(is_taken);
    if (rc < 0) {
        free(chosen);
        return rc;
    }
    free(j->s->sample);
    j->s->sample = chosen;
    j->s->count = n;
    return check_left(j, "indices=");
}

/* The side is a matter of each key alone: hash below the share is train. */
static int keep_split(const struct job *j)
{
    if (!j->r->split)
        return 0;
    uint64_t threshold = (uint64_t)(j->r->split_share * 0x1p64), kept = 0;
    bool wants_train = strcmp(j->r->split, "train") == 0;
    for (uint64_t i = 0; i < j->s->count; i++) {
        const char *key = catalog_key(j->c, j->s->sample[i], j->e);
        if (!key)
            return FB_E_DATA;
        if ((hash_choice_of(CHOICE_SPLIT, j->r->class_seed, key) < threshold) == wants_train)
            j->s->sample[kept++] = j->s->sample[i];
    }
    j->s->count = kept;
    return check_left(j, "split=");
}

/* ---- the whole ---- */

static bool is_everything(const struct job *j)
{
    if (j->s->count != catalog_count(j->c))
        return false;
    for (uint64_t i = 0; j->s->sample && i < j->s->count; i++)
        if (j->s->sample[i] != i)
            return false;
    return true;
}

static int find_fingerprint(const struct job *j)
{
    struct subset *s = j->s;
    if (is_everything(j)) {
        free(s->sample);
        s->sample = NULL;
        s->fingerprint = catalog_fingerprint(j->c);
        return 0;
    }
    struct fingerprint *f = NULL;
    int rc = fingerprint_open(&f, j->c, j->e);
    for (uint64_t i = 0; rc == 0 && i < s->count; i++)
        rc = fingerprint_add(f, s->sample[i], j->e);
    if (rc == 0)
        s->fingerprint = fingerprint_value(f);
    fingerprint_close(f);
    return rc;
}

int subset_choose(struct subset *s, const struct catalog *c, const struct subset_request *r, struct fb_error *e)
{
    static int (*const steps[])(const struct job *) = {
        check_request, take_all, keep_classes, keep_per_class, keep_fraction, keep_indices, keep_split, find_fingerprint,
    };
    *s = (struct subset){0};
    const struct job j = {s, c, r, e};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        int rc = steps[i](&j);
        if (rc < 0) {
            subset_free(s);
            return rc;
        }
    }
    return 0;
}

void subset_free(struct subset *s)
{
    free(s->sample);
    free(s->class_old);
    free(s->class_new);
    *s = (struct subset){0};
}
