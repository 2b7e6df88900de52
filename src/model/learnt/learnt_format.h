/* How learnt records lie on disk. Little-endian; see learnt.h for the idea.
 *
 *   segment NAME.rec   head | record ...                     appended by one process, which holds a flock on it
 *   index   NAME.idx   entry ...                             one per record, written after it
 *   merged             head | record ... | entry ... | foot  entries sorted by key; replaced by rename
 */
#ifndef FB_MODEL_LEARNT_LEARNT_FORMAT_H
#define FB_MODEL_LEARNT_LEARNT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "model/learnt/learnt.h"

#define LEARNT_HEAD_MAGIC 0x31305245544C4246u /* "FBLTER01" */
#define LEARNT_FOOT_MAGIC 0x3130444E454C4246u /* "FBLEND01" */
enum { LEARNT_RECORD_MAGIC = 0x64724C66, LEARNT_MAX_RECORD = 64 << 20 };

struct learnt_head {
    uint64_t magic;
    uint64_t reserved;
};

struct learnt_record {
    uint32_t magic;
    uint32_t length; /* of the payload that follows, padded to 8 bytes */
    uint64_t key;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t checksum; /* over the fields above and the payload */
};

struct learnt_entry {
    uint64_t key;
    uint64_t offset; /* of the record in its segment */
};

struct learnt_foot {
    uint64_t index_offset, index_count;
    uint64_t index_checksum;
    uint64_t magic;
};

/* Checksum of a record; `payload` is head->length bytes. */
uint64_t learnt_checksum(const struct learnt_record *head, const void *payload);

/* Reads and verifies the record at `offset`. Returns the payload's length, 0: damaged, stale (id given and different) or not `key`.
 * *is_stale says which. */
size_t learnt_read(int fd, uint64_t offset, uint64_t key, const struct learnt_identity *id, struct learnt_record *head, struct scratch *out,
                   bool *is_stale);

/* learnt_merge, unless another process is at it. Keeps what may be out of date, since nobody says what is not. */
int learnt_merge_if_free(const char *dir, struct fb_error *e);

/* ---- where records lie: a table in memory for segments, the sorted index for the merged one ---- */

struct learnt_table { /* open addressing; key 0 is free */
    struct learnt_spot *spot;
    uint64_t capacity, count;
    struct budget *budget;
};

struct learnt_spot {
    uint64_t key;
    uint64_t offset;
    uint32_t segment;
};

/* False: no memory; the record is then simply not known. */
bool learnt_table_set(struct learnt_table *t, uint64_t key, uint32_t segment, uint64_t offset);
const struct learnt_spot *learnt_table_find(const struct learnt_table *t, uint64_t key);
void learnt_table_free(struct learnt_table *t);

struct learnt_merged {
    int fd; /* -1: none */
    uint64_t bytes, count;
    const struct learnt_entry *entry; /* mapped; read, where other machines may write to the file */
    void *map, *read;
    size_t map_bytes, read_bytes;
    struct budget *budget; /* of what is read; may be NULL */
};

/* Opens dir's merged segment; a damaged or missing one leaves fd -1. */
void learnt_merged_open(struct learnt_merged *m, int dir_fd, struct budget *budget);
/* The same, with another opinion on which files are remote. */
void learnt_merged_open_as(struct learnt_merged *m, int dir_fd, bool (*is_remote)(int fd), struct budget *budget);
/* Offset of the record, or 0: none. */
uint64_t learnt_merged_find(const struct learnt_merged *m, uint64_t key);
void learnt_merged_close(struct learnt_merged *m);

#endif
