/* The identity of the data that a state's positions refer to: the data set, the selection from it and the kind of order.
 *
 * The fingerprint decides whether two loaders have the same samples; the rest is there to say what differs when they do not. Names and
 * labels are probed: all of up to 4,096 samples, else 256 evenly spread ones, so that it costs the same for a billion samples.
 */
#ifndef FB_ORDER_STATE_DATA_IDENTITY_H
#define FB_ORDER_STATE_DATA_IDENTITY_H

#include <stdint.h>

#include "order/subset/subset.h"

enum order_kind { ORDER_PLAIN, ORDER_SHUFFLED, ORDER_WEIGHTED, ORDER_GIVEN, ORDER_WINDOW, ORDER_KINDS };

struct data_identity {
    uint64_t fingerprint, samples;           /* of the selection */
    uint64_t data_fingerprint, data_samples; /* of what it was selected from */
    uint64_t keys, labels;                   /* digests of the probed names; of the probed names and labels */
    enum order_kind order;
    uint64_t block, window; /* ORDER_WINDOW: as in order.h */
};

/* FB_E_DATA: the catalog is damaged; FB_E_NOMEM. */
int data_identity_find(struct data_identity *o, const struct catalog *c, const struct subset *s, enum order_kind order, struct fb_error *e);
/* "plain", "shuffled", "weighted", "given", "window" */
const char *order_kind_name(enum order_kind k);
/* ORDER_KINDS: there is none of that name. */
enum order_kind order_kind_named(const char *name);

#endif
