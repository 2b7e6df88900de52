/* Which classes take part: by name, from a file, or a number of them drawn by seed. */
#ifndef FB_ORDER_SUBSET_SUBSET_CLASSES_H
#define FB_ORDER_SUBSET_SUBSET_CLASSES_H

#include "order/subset/subset.h"

/* Fills class_count, class_old and class_new of `s` when `r` names or counts classes; otherwise only class_count. */
int subset_choose_classes(struct subset *s, const struct catalog *c, const struct subset_request *r, struct fb_error *e);

#endif
