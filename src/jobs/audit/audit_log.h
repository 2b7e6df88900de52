/* One audit log, read: the format is in model/audit_format.h.
 *
 * A log may be hostile or damaged: lengths are checked before anything is allocated, numbers before they are used. Reading stops at the
 * first record with a check that does not fit. A last record whose length is certain and whose end is not there is what a killed process
 * leaves; anything else is damage. Batches stay in the file and are decoded one at a time.
 */
#ifndef FB_JOBS_AUDIT_AUDIT_LOG_H
#define FB_JOBS_AUDIT_AUDIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "order/state/data_identity.h"
#include "order/ranks/ranks.h"

enum audit_why { AUDIT_STOPPED, AUDIT_DONE, AUDIT_LEFT, AUDIT_FAILED, AUDIT_CLOSED }; /* stopped: the log ends without a word */

struct audit_stretch {
    int64_t began_ns;
    uint64_t epoch, start;
    struct rank_layout layout; /* count: the samples of an epoch; 0 for a given order */
    struct skips skips;
    enum audit_why why;
    uint64_t first_batch, batches; /* which of the log's */
};

struct audit_batch_at {
    uint64_t offset; /* of the payload in the file */
    uint32_t bytes;
};

struct audit_bad_sample {
    uint64_t epoch, sample;
    char *key, *cause;
};

struct audit_log {
    char *path;
    int fd;
    uint64_t fingerprint, samples, seed, config; /* what it is a log of */
    enum order_kind order;
    uint64_t block, window;     /* of ORDER_WINDOW */
    uint64_t bytes, torn_bytes; /* in all; of the last record, which is not whole */
    bool has_head, is_damaged;
    uint64_t damaged_at;
    uint64_t digest; /* rolling, over everything read */
    struct audit_stretch *stretch;
    uint64_t stretches;
    struct audit_batch_at *batch;
    uint64_t batches;
    struct audit_bad_sample *bad;
    uint64_t bads;
};

struct audit_place {
    uint64_t position, sample;
    uint64_t attempt;
    uint32_t content;
    uint16_t source;
    uint8_t note; /* enum audit_note */
};

/* One batch, decoded; memory is reused from batch to batch. */
struct audit_batch {
    uint64_t number; /* in its stretch */
    uint64_t count, compared;
    struct audit_place *place;
    uint64_t capacity;
    uint8_t *bytes;
    size_t bytes_capacity;
};

/* FB_E_IO, FB_E_NOT_FOUND, FB_E_NOMEM: it cannot be read. Damage is no failure: is_damaged says it. */
int audit_log_open(struct audit_log *l, const char *path, struct fb_error *e);
void audit_log_close(struct audit_log *l);
/* FB_E_DATA: batch i of the log does not make sense, although its check fits. */
int audit_log_batch(const struct audit_log *l, uint64_t i, struct audit_batch *b, struct fb_error *e);
void audit_batch_free(struct audit_batch *b);

#endif
