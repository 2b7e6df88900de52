/* How an audit log lies on disk: what one loader of one process really put into its batches. Little-endian.
 *
 *     log     record ...                              one file per loader, NAME.audit, appended by one process
 *     record  type | length | frame check | payload | check       1, 4, 4, length and 4 bytes
 *
 * The check is the lower half of a rolling digest: xxh3 over (the digest before, everything of the record before the check). So a record
 * that was left out, moved or changed is noticed at the next one. The frame check is the same over (the digest before, type, length): a
 * length is believed only if it fits, so that a record that reaches beyond the end of the file is one that was not written to its end, by
 * a process that was killed, and never one whose length was damaged. All records but AUDIT_BATCH are JSON:
 *
 *     AUDIT_HEAD   {"format":2,"fullbore":"0.1.0","pid":7,"fingerprint":"hex","samples":n,"seed":"7","order":"shuffled","window":[0,0],
 *                  "config":"hex"}: first of all; window as in a state; config is over transforms, dtype, layout and labels: with
 *                  another one other pixels are to be expected
 *     AUDIT_RUN    {"began_ns":unix time,"epoch":e,"start":position,"rank":r,"world":w,"global_batch":B,"drop_last":false,"skip":[[a,b]]}
 *                  a stretch of batches begins; the following records belong to it
 *     AUDIT_BAD    {"epoch":e,"sample":s,"key":"a/b.jpg","cause":"..."}: a sample that could not be used
 *     AUDIT_END    {"why":"done"|"left"|"failed"|"closed"}: all of the epoch was taken, or the program went elsewhere, ...
 *
 * AUDIT_BATCH is written as the batch is handed out. Numbers are LEB128 varints, differences zigzagged:
 *
 *     number in the run | places | places whose content was compared once more | first position
 *     per place:  sample: (difference to the one before) x 2 + has_note | [note | attempt | difference to the position expected]
 *                 content, 4 bytes: lower half of a digest of the place's arrays, taken when the place was filled
 *                 source, 2 bytes: of a digest of the first 4096 bytes that were decoded and of their number; 0: not known
 *
 * Samples are indices in the selection. A note is there when something is not as usual; see enum audit_note.
 */
#ifndef FB_MODEL_AUDIT_FORMAT_H
#define FB_MODEL_AUDIT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/checksum.h"

#define AUDIT_SUFFIX ".audit"

enum {
    AUDIT_FORMAT = 2,
    AUDIT_FRAME_BYTES = 9, /* type, length, frame check */
    AUDIT_CHECK_BYTES = 4,
    AUDIT_PLACE_BYTES = 6, /* content and source */
    AUDIT_VARINT_BYTES = 10,
    AUDIT_MAX_RECORD = 1 << 30
};

enum audit_type { AUDIT_HEAD = 'H', AUDIT_RUN = 'R', AUDIT_BATCH = 'B', AUDIT_BAD = 'X', AUDIT_END = 'E' };

enum audit_note {
    AUDIT_EMPTY = 1,   /* nothing was decoded into this place */
    AUDIT_CHANGED = 2, /* what was handed out is not what had been decoded */
};

/* Of a frame's type and length. */
static inline uint32_t audit_frame_check(uint64_t before, const uint8_t *frame)
{
    uint64_t both[2] = {before, checksum_of(frame, AUDIT_FRAME_BYTES - AUDIT_CHECK_BYTES)};
    return (uint32_t)(checksum_of(both, sizeof(both)) >> 32); /* not the half that is the record's check */
}

/* The digest after a record; frame and payload lie together. */
static inline uint64_t audit_digest(uint64_t before, const uint8_t *record, size_t n)
{
    uint64_t both[2] = {before, checksum_of(record, n)};
    return checksum_of(both, sizeof(both));
}

static inline uint8_t *audit_put_varint(uint8_t *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *at++ = (uint8_t)(v | 0x80);
    *at++ = (uint8_t)v;
    return at;
}

/* False: it does not end before `end`, or is no 64-bit number. */
static inline bool audit_get_varint(const uint8_t **at, const uint8_t *end, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;
        if (shift == 63 && byte > 1)
            return false;
        *v |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return true;
    }
    return false;
}

static inline uint64_t audit_zigzag(uint64_t from, uint64_t to)
{
    int64_t d = (int64_t)(to - from);
    return (uint64_t)d << 1 ^ (uint64_t)(d >> 63);
}

static inline uint64_t audit_unzigzag(uint64_t from, uint64_t z)
{
    return from + (z >> 1 ^ (0 - (z & 1)));
}

static inline void audit_put_le(uint8_t *at, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(v >> (8 * i));
}

static inline uint64_t audit_get_le(const uint8_t *at, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)at[i] << (8 * i);
    return v;
}

#endif
