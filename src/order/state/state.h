/* Where a run is, as JSON of less than 1 KB, equal on all ranks:
 *
 *     {"version":2,"seed":7,"epoch":3,"position":25600,"fingerprint":"...","samples":1200,"data":"...","data_samples":4800,"keys":"...",
 *      "labels":"...","order":"shuffled","skip":[[512,1024]],"check":"..."}
 *
 * With "order":"window" there is "window":[64,16], too: samples of a block, blocks of a window.
 * Seed, epoch, position and skip say where; the rest says of what, so that a state that does not fit can say what differs. The check is
 * over the fields above as this library would write them: how the JSON is spaced and sorted does not matter, what it says does. Version 1
 * had the first five fields; it is still read.
 */
#ifndef FB_ORDER_STATE_STATE_H
#define FB_ORDER_STATE_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/text/json_writer.h"
#include "order/state/data_identity.h"
#include "order/state/skips.h"

enum { STATE_MOST_BYTES = 1024 };

struct state {
    uint64_t seed, epoch;
    uint64_t position;  /* in samples: end of the last batch returned */
    struct skips skips; /* of this epoch: past and future */
    struct data_identity origin;
};

/* What can be wrong with a state that could be read. */
enum state_fault {
    STATE_OTHER_VERSION = 1,
    STATE_CHANGED = 2, /* it is not as it was written */
    STATE_OTHER_SEED = 4,
    STATE_OTHER_ORDER = 8,
    STATE_OTHER_DATA = 16,
    STATE_BEYOND = 32, /* the position lies outside the epoch, or the skipped ranges do */
};

/* Returns the length wanted, like snprintf. Fingerprints are written as 16 hex digits. */
int state_write(const struct state *s, char *out, size_t out_size);
/* "skip":[[first,last],...] */
void skips_json(const struct skips *s, struct json_writer *w);
/* FB_E_STATE with the field that is missing or of the wrong type. Unknown fields are ignored. *version is what it says, `faults` what is
 * wrong with it as a whole: another version, whose known fields were read as far as they are there, or a wrong check. */
int state_read(struct state *s, const char *json, uint64_t *version, uint32_t *faults, struct fb_error *e);

/* state_fit.c: does a state fit this loader? Adds to `faults`. A state of version 1 knows less of its origin. */
uint32_t state_compare(const struct state *there, uint64_t version, const struct state *here);
/* Refuses: FB_E_STATE, everything that differs in one sentence, and what to do. */
int state_refuse(uint32_t faults, const struct state *there, uint64_t version, const struct state *here, struct fb_error *e);
/* What going on regardless means, in words. */
void state_consequence(uint32_t faults, const struct state *there, uint64_t version, const struct state *here, char *out, size_t out_size);

#endif
