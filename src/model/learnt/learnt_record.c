/* One record: checksum, reading, verifying. */
#include <string.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/rng.h"
#include "model/learnt/learnt_format.h"

uint64_t learnt_key(const char *key)
{
    uint64_t hash = checksum_of(key, strlen(key));
    return hash ? hash : 1; /* 0 marks a free spot */
}

uint64_t learnt_checksum(const struct learnt_record *head, const void *payload)
{
    return rng_mix(checksum_of(head, offsetof(struct learnt_record, checksum)), checksum_of(payload, head->length));
}

size_t learnt_read(int fd, uint64_t offset, uint64_t key, const struct learnt_identity *id, struct learnt_record *head, struct scratch *out,
                   bool *is_stale)
{
    *is_stale = false;
    enum { GUESS = 4096 }; /* most records fit: one system call */
    char *data = scratch_need(out, GUESS, NULL);
    if (!data)
        return 0;
    size_t got = file_read_all_at(fd, data, GUESS, offset);
    if (got < sizeof(*head))
        return 0;
    memcpy(head, data, sizeof(*head));
    if (head->magic != LEARNT_RECORD_MAGIC || head->key != key || head->length == 0 || head->length > LEARNT_MAX_RECORD)
        return 0;
    if (id && (head->size != id->size || head->mtime_ns != id->mtime_ns)) {
        *is_stale = true;
        return 0;
    }
    if (got < sizeof(*head) + head->length) {
        data = scratch_need(out, head->length, NULL);
        if (!data || file_read_all_at(fd, data, head->length, offset + sizeof(*head)) < head->length)
            return 0;
    } else {
        memmove(data, data + sizeof(*head), head->length);
    }
    return learnt_checksum(head, data) == head->checksum ? head->length : 0;
}
