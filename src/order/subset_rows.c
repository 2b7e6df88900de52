#include "order/subset_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/compare.h"
#include "base/rng.h"
#include "order/pick.h"

static uint64_t hash_of(enum pick_purpose purpose, uint64_t seed, uint64_t row)
{
    return rng_mix(rng_mix(rng_mix(seed, RNG_SUBSET), purpose), row);
}

static int refuse(struct fb_error *e, const char *cause, const char *remedy)
{
    return error_advise(e, error_set(e, FB_E_USAGE, "order", "%s", cause), "%s", remedy);
}

static int check(const struct subset_request *r, struct fb_error *e)
{
    if (r->classes || r->class_count || r->per_class)
        return refuse(e, "rows of an array have no classes to choose from", "choose rows with indices=, fraction= or split=");
    if (!(r->fraction > 0 && r->fraction <= 1))
        return refuse(e, "fraction= is not a share", "it is more than 0 and at most 1");
    if (r->split && strcmp(r->split, "train") != 0 && strcmp(r->split, "val") != 0)
        return refuse(e, "there is no such split", "it is \"train\" or \"val\"");
    if (r->split && !(r->split_share > 0 && r->split_share < 1))
        return refuse(e, "the share of split= is not between 0 and 1", "split=(\"train\", 0.85)");
    return 0;
}

static bool is_all(const struct subset_request *r)
{
    return r->fraction == 1 && !r->indices && !r->split;
}

static int keep_fraction(struct subset *s, const struct subset_request *r, struct fb_error *e)
{
    if (r->fraction == 1)
        return 0;
    struct pick *p = malloc(s->count * sizeof(*p));
    if (!p)
        return error_set(e, FB_E_NOMEM, "order", "no memory to choose among %llu rows", (unsigned long long)s->count);
    uint64_t wanted = (uint64_t)floor(r->fraction * (double)s->count + 0.5);
    for (uint64_t i = 0; i < s->count; i++)
        p[i] = (struct pick){hash_of(PICK_FRACTION, r->class_seed, s->sample[i]), s->sample[i]};
    pick_smallest(p, s->count, wanted);
    for (uint64_t i = 0; i < wanted; i++)
        s->sample[i] = p[i].index;
    s->count = wanted;
    qsort(s->sample, wanted, sizeof(*s->sample), compare_u64);
    free(p);
    return 0;
}

static int keep_indices(struct subset *s, const struct subset_request *r, struct fb_error *e)
{
    if (!r->indices)
        return 0;
    uint64_t *chosen = malloc(r->index_count * sizeof(*chosen) + 1);
    if (!chosen)
        return error_set(e, FB_E_NOMEM, "order", "no memory for %llu indices", (unsigned long long)r->index_count);
    for (uint64_t i = 0; i < r->index_count; i++) {
        if (r->indices[i] >= s->count) {
            free(chosen);
            return error_set(e, FB_E_USAGE, "order", "indices= names row %llu of %llu", (unsigned long long)r->indices[i],
                             (unsigned long long)s->count);
        }
        chosen[i] = s->sample[r->indices[i]];
    }
    free(s->sample);
    s->sample = chosen;
    s->count = r->index_count;
    return 0;
}

static void keep_split(struct subset *s, const struct subset_request *r)
{
    if (!r->split)
        return;
    uint64_t threshold = (uint64_t)(r->split_share * 0x1p64), kept = 0;
    bool wants_train = strcmp(r->split, "train") == 0;
    for (uint64_t i = 0; i < s->count; i++)
        if ((hash_of(PICK_SPLIT, r->class_seed, s->sample[i]) < threshold) == wants_train)
            s->sample[kept++] = s->sample[i];
    s->count = kept;
}

int subset_choose_rows(struct subset *s, uint64_t rows, uint64_t fingerprint, const struct subset_request *r, struct fb_error *e)
{
    *s = (struct subset){.count = rows, .fingerprint = fingerprint};
    FB_TRY(check(r, e));
    if (is_all(r))
        return 0;
    s->sample = rows <= SIZE_MAX / 16 ? malloc(rows * sizeof(*s->sample) + 1) : NULL;
    if (!s->sample)
        return error_set(e, FB_E_NOMEM, "order", "no memory to choose among %llu rows", (unsigned long long)rows);
    for (uint64_t i = 0; i < rows; i++)
        s->sample[i] = i;
    int rc = keep_fraction(s, r, e);
    if (rc == 0)
        rc = keep_indices(s, r, e);
    if (rc == 0)
        keep_split(s, r);
    if (rc == 0 && s->count == 0)
        rc = refuse(e, "no row is left of the selection", "choose a larger fraction= or split=");
    if (rc == 0)
        s->fingerprint = rng_mix(fingerprint, checksum_of(s->sample, s->count * sizeof(*s->sample)));
    else
        subset_free(s);
    return rc;
}
