#ifndef FB_TRANSFORM_IMAGE_NORMALIZE_H
#define FB_TRANSFORM_IMAGE_NORMALIZE_H

#include "transform/image/levels.h"

/* The levels that a normalize step's checked params ask for. */
void normalize_levels(const void *params, struct levels *l);

#endif
