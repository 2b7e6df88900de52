/* Which rows take part, when samples are rows of arrays and have no names: fraction, indices and split, stable by row number. */
#ifndef FB_ORDER_SUBSET_SUBSET_ROWS_H
#define FB_ORDER_SUBSET_SUBSET_ROWS_H

#include "order/subset/subset.h"

/* `fingerprint` is that of all rows. FB_E_USAGE, FB_E_NOMEM. On failure *s is empty. */
int subset_choose_rows(struct subset *s, uint64_t rows, uint64_t fingerprint, const struct subset_request *r, struct fb_error *e);

#endif
