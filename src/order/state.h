/* Where a run is: {version, seed, epoch, position, fingerprint} as JSON of less than 1 KB, equal on all ranks. */
#ifndef FB_ORDER_STATE_H
#define FB_ORDER_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct state {
    uint64_t seed, epoch;
    uint64_t position; /* in samples: end of the last batch returned */
    uint64_t fingerprint;
};

/* Returns the length wanted, like snprintf. The fingerprint is written as 16 hex digits. */
int state_write(const struct state *s, char *out, size_t out_size);
/* FB_E_STATE with the field that is missing, of the wrong type or of a newer version. Unknown fields are ignored. */
int state_read(struct state *s, const char *json, struct fb_error *e);

#endif
