#include "order/state/data_identity.h"

#include <string.h>

#include "base/checksum.h"
#include "model/catalog/fingerprint.h"

enum { ALL_UP_TO = 4096, PROBES = 256 };

static const char *const kinds[ORDER_KINDS] = {"plain", "shuffled", "weighted", "given", "window"};

const char *order_kind_name(enum order_kind k)
{
    return k < ORDER_KINDS ? kinds[k] : "unknown";
}

enum order_kind order_kind_named(const char *name)
{
    int k = 0;
    while (k < ORDER_KINDS && strcmp(kinds[k], name) != 0)
        k++;
    return (enum order_kind)k;
}

static int probe(struct data_identity *o, const struct catalog *c, const struct subset *s, struct checksum *keys, struct fingerprint *both,
                 struct fb_error *e)
{
    uint64_t probes = s->count <= ALL_UP_TO ? s->count : PROBES;
    for (uint64_t i = 0; i < probes; i++) {
        uint64_t at = (uint64_t)((unsigned __int128)s->count * i / probes), sample = s->sample ? s->sample[at] : at;
        const char *key = catalog_key(c, sample, e);
        if (!key)
            return FB_E_DATA;
        checksum_add(keys, key, strlen(key) + 1);
        FB_TRY(fingerprint_add(both, sample, e));
    }
    o->keys = checksum_value(keys);
    o->labels = fingerprint_value(both);
    return 0;
}

int data_identity_find(struct data_identity *o, const struct catalog *c, const struct subset *s, enum order_kind order, struct fb_error *e)
{
    *o = (struct data_identity){.fingerprint = s->fingerprint,
                                .samples = s->count,
                                .data_fingerprint = catalog_fingerprint(c),
                                .data_samples = catalog_count(c),
                                .order = order};
    struct fingerprint *both = NULL;
    struct checksum *keys = checksum_open();
    int rc = keys ? fingerprint_open(&both, c, e) : error_set(e, FB_E_NOMEM, "order", "no memory for a fingerprint");
    if (rc == 0)
        rc = probe(o, c, s, keys, both, e);
    fingerprint_close(both);
    checksum_close(keys);
    return rc;
}
