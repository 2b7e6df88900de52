/* Which samples take part: classes, per class, fraction, indices, split; stable by key, so that a grown data set keeps its choices. */
#ifndef FB_ORDER_SUBSET_SUBSET_H
#define FB_ORDER_SUBSET_SUBSET_H

#include "model/catalog/catalog.h"

struct subset_request {
    const char *classes; /* as in fb_options */
    uint64_t class_count, class_seed, per_class;
    double fraction;
    const uint64_t *indices;
    uint64_t index_count;
    const char *split;
    double split_share;
};

/* The selection. sample == NULL: everything. Labels of chosen classes are renumbered 0.. in the order of their names. */
struct subset {
    uint64_t count;
    uint64_t *sample;     /* catalog indices, in catalog order (in the given order for `indices`) */
    int class_count;      /* of the selection; 0: no classes */
    int *class_old;       /* new label -> label in the catalog; NULL: unchanged */
    int *class_new;       /* catalog label -> new label or -1; NULL: unchanged */
    uint64_t fingerprint; /* xxh3 over (n, keys, labels) of the selection; the catalog's own when everything is taken */
};

/* FB_E_NOT_FOUND: a class name that is not there (named, with the nearest one), or no such @FILE; FB_E_USAGE: an option out of range or an
 * empty selection; FB_E_DATA: the catalog is damaged; FB_E_NOMEM. On failure *s is empty. */
int subset_choose(struct subset *s, const struct catalog *c, const struct subset_request *r, struct fb_error *e);
void subset_free(struct subset *s);

#endif
