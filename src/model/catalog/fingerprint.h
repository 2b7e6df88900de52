/* The fingerprint of a data set or of a selection of it: xxh3 over the keys and labels of its samples, in order, and their number.
 *
 * Places, sizes, times and field names do not enter. A class label enters as its name, so that renumbering classes changes nothing; any
 * other value enters as its dtype and bytes. Adding all samples of a catalog in order gives catalog_fingerprint of it. Frozen: the value of
 * a data set is kept in saved states and must be the same in every version.
 */
#ifndef FB_MODEL_CATALOG_FINGERPRINT_H
#define FB_MODEL_CATALOG_FINGERPRINT_H

#include "model/catalog/catalog.h"

struct fingerprint;

/* FB_E_NOMEM. The catalog must outlive it. One thread at a time. */
int fingerprint_open(struct fingerprint **out, const struct catalog *c, struct fb_error *e);
/* Adds the sample with that index in the catalog. FB_E_DATA: the catalog is damaged there. */
int fingerprint_add(struct fingerprint *f, uint64_t sample, struct fb_error *e);
/* Of what was added so far. */
uint64_t fingerprint_value(const struct fingerprint *f);
void fingerprint_close(struct fingerprint *f); /* NULL is allowed */

#endif
