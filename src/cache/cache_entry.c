/* An entry: one unit's bytes in a file, with everything that says what they are.
 *
 *     head (fixed) | data set's name | path | identity | checksums of the data, one per 64 KiB | zeros to 64 bytes | data
 *
 * The head has a checksum of its own over all that precedes the data. Each chunk's checksum covers the key (name, path, extent), the
 * identity, the chunk's place and its bytes: an entry that was moved, cut, flipped or belongs to another version is refused. A reader knows
 * the key, the identity and the size beforehand, so it knows how long the head is and gets head and data in one call. Nothing is fsynced:
 * what a power failure tears is found by checksum and read again from the source.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/rng.h"
#include "base/round_up.h"
#include "cache/cache_internal.h"

struct head {
    char magic[8];
    uint32_t head_bytes; /* up to the data */
    uint32_t name_bytes, path_bytes, identity_bytes;
    uint64_t offset, length; /* of the unit */
    uint64_t bytes;          /* of data */
    uint64_t object_size;
    int64_t mtime_ns;
    uint64_t checksum; /* of the head, with this as 0 */
};

static const char magic[8] = {'F', 'B', 'C', 'A', 'C', 'H', 'E', '1'};

static uint64_t chunk_count(uint64_t bytes)
{
    return (bytes + CACHE_CHUNK - 1) / CACHE_CHUNK;
}

static uint64_t head_bytes(const struct cache_dir *d, const struct cache_unit *u, const struct cache_identity *id, uint64_t bytes)
{
    uint64_t n = sizeof(struct head) + strlen(d->name) + strlen(u->path) + id->length;
    return round_up(round_up(n, 8) + 8 * chunk_count(bytes), 64);
}

bool entry_fits(const struct cache_dir *d, const struct cache_unit *u, const struct cache_identity *id, uint64_t bytes)
{
    return bytes <= CACHE_UNIT_MOST && head_bytes(d, u, id, bytes) <= CACHE_HEAD_MOST;
}

uint64_t entry_file_bytes(const struct cache_dir *d, const struct cache_unit *u, const struct cache_identity *id, uint64_t bytes)
{
    return round_up(head_bytes(d, u, id, bytes) + bytes, 4096);
}

/* Everything that the reader knows, too; returns where the checksums go. Zeroed before. */
static size_t put_key(uint8_t *to, const struct cache_dir *d, const struct cache_unit *u, const struct cache_identity *id, uint64_t bytes)
{
    struct head h = {.head_bytes = (uint32_t)head_bytes(d, u, id, bytes),
                     .name_bytes = (uint32_t)strlen(d->name),
                     .path_bytes = (uint32_t)strlen(u->path),
                     .identity_bytes = id->length,
                     .offset = u->offset,
                     .length = u->length,
                     .bytes = bytes};
    memcpy(h.magic, magic, sizeof(magic));
    memcpy(to, &h, sizeof(h));
    size_t at = sizeof(h);
    memcpy(to + at, d->name, h.name_bytes);
    memcpy(to + (at += h.name_bytes), u->path, h.path_bytes);
    memcpy(to + (at += h.path_bytes), id->bytes, id->length);
    at += id->length;
    return round_up(at, 8);
}

static uint64_t chunk_sum(uint64_t key, uint64_t offset, const uint8_t *data, size_t n)
{
    return rng_mix(rng_mix(key, offset), checksum_of(data, n));
}

/* Both with the checksum field as 0. */
static uint64_t seal_of(const uint8_t *head, uint64_t n)
{
    return checksum_of(head, n);
}

/* ---- writing ---- */

int entry_write(const struct cache_dir *d, int fd, const struct cache_unit *u, const struct blob *b)
{
    _Alignas(8) uint8_t head[CACHE_HEAD_MOST] = {0};
    size_t n = head_bytes(d, u, &b->identity, b->bytes), at = put_key(head, d, u, &b->identity, b->bytes);
    uint64_t key = checksum_of(head, at);
    for (uint64_t i = 0; i < chunk_count(b->bytes); i++) {
        size_t from = i * CACHE_CHUNK, size = b->bytes - from < CACHE_CHUNK ? b->bytes - from : CACHE_CHUNK;
        uint64_t sum = chunk_sum(key, from, b->data + from, size);
        memcpy(head + at + 8 * i, &sum, 8);
    }
    struct head *h = (struct head *)(void *)head;
    h->object_size = b->object_size;
    h->mtime_ns = b->mtime_ns;
    h->checksum = seal_of(head, n);
    struct stat st;
    /* what a killed writer left; only then, for ext4 writes out at once what was cut to nothing */
    if (fstat(fd, &st) < 0 || (st.st_size > 0 && ftruncate(fd, 0) < 0))
        return errno;
    struct iovec v[2] = {{head, n}, {(void *)(uintptr_t)b->data, b->bytes}};
    return file_write_parts_at(fd, v, 2, 0, NULL) < 0 ? errno : 0;
}

/* ---- reading ---- */

struct reading {
    int fd;
    bool may_block;
    int sys_errno;
    uint64_t head_bytes, sums_at, key;
    const struct cache_unit *unit;
    _Alignas(8) uint8_t head[CACHE_HEAD_MOST];
};

static int open_entry(const struct cache_dir *d, const char *name, bool may_block)
{
    if (may_block)
        return openat(d->place_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW, .resolve = RESOLVE_CACHED};
    return (int)syscall(SYS_openat2, d->place_fd, name, &how, sizeof(how));
}

/* Bytes there are of what is asked for, or -errno. Without blocking: tmpfs knows no NOWAIT and cannot block. */
static ssize_t read_parts(struct reading *g, const struct iovec *v, int count, uint64_t offset)
{
    ssize_t n;
    do
        n = preadv2(g->fd, v, count, (off_t)offset, g->may_block ? 0 : RWF_NOWAIT);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

static enum entry_state failed_read(struct reading *g, ssize_t n)
{
    if (n == -EAGAIN || n == -EOPNOTSUPP)
        return ENTRY_BLOCKED;
    if (n >= 0)
        return g->may_block ? ENTRY_DAMAGED : ENTRY_BLOCKED; /* short: cut off, or the rest is not in memory */
    g->sys_errno = (int)-n;
    return ENTRY_FAILED;
}

/* Is the head what was expected? */
static enum entry_state check_head(struct reading *g, const struct cache_dir *d, const struct cache_identity *id, struct head *out)
{
    _Alignas(8) uint8_t expected[CACHE_HEAD_MOST];
    memset(expected, 0, g->head_bytes);
    g->sums_at = put_key(expected, d, g->unit, id, g->unit->size);
    g->key = checksum_of(expected, g->sums_at);
    struct head *h = (struct head *)(void *)g->head;
    *out = *h;
    h->checksum = 0;
    if (memcmp(out->magic, magic, sizeof(magic)) != 0)
        return ENTRY_DAMAGED;
    if (out->head_bytes != g->head_bytes)
        return ENTRY_OTHER;
    if (seal_of(g->head, g->head_bytes) != out->checksum)
        return ENTRY_DAMAGED;
    h->object_size = 0;
    h->mtime_ns = 0;
    return memcmp(g->head, expected, g->sums_at) == 0 ? ENTRY_HIT : ENTRY_OTHER;
}

static bool is_chunk_right(const struct reading *g, uint64_t from, const uint8_t *data, size_t n)
{
    uint64_t sum;
    memcpy(&sum, g->head + g->sums_at + 8 * (from / CACHE_CHUNK), 8);
    return chunk_sum(g->key, from, data, n) == sum;
}

/* All of the unit in one call. */
static enum entry_state read_whole(struct reading *g, const struct cache_dir *d, struct io_request *r, const struct cache_identity *id,
                                   struct head *h)
{
    uint64_t bytes = g->unit->size;
    struct iovec v[2] = {{g->head, g->head_bytes}, {r->buffer, bytes + (r->capacity > bytes)}}; /* one more: is it too long? */
    ssize_t n = read_parts(g, v, 2, 0);
    if (n < 0 || (uint64_t)n < sizeof(struct head))
        return failed_read(g, n);
    bool is_all = (uint64_t)n == g->head_bytes + bytes;
    if ((uint64_t)n < g->head_bytes && ((struct head *)(void *)g->head)->head_bytes == g->head_bytes)
        return failed_read(g, n);
    enum entry_state s = check_head(g, d, id, h);
    if (s != ENTRY_HIT || !is_all)
        return s != ENTRY_HIT ? s : (uint64_t)n < g->head_bytes + bytes ? failed_read(g, n) : ENTRY_DAMAGED;
    for (uint64_t from = 0; from < bytes; from += CACHE_CHUNK)
        if (!is_chunk_right(g, from, r->buffer + from, bytes - from < CACHE_CHUNK ? bytes - from : CACHE_CHUNK))
            return ENTRY_DAMAGED;
    return ENTRY_HIT;
}

/* [first, end) of the unit, to r->buffer: chunk by chunk, because a chunk is only right as a whole. */
static enum entry_state read_range(struct reading *g, const struct cache_dir *d, struct io_request *r, const struct cache_identity *id,
                                   uint64_t first, uint64_t end, struct head *h)
{
    uint8_t chunk[CACHE_CHUNK];
    struct iovec head = {g->head, g->head_bytes};
    ssize_t n = read_parts(g, &head, 1, 0);
    if (n < 0 || (uint64_t)n < g->head_bytes)
        return failed_read(g, n);
    enum entry_state s = check_head(g, d, id, h);
    for (uint64_t from = first / CACHE_CHUNK * CACHE_CHUNK; s == ENTRY_HIT && from < end; from += CACHE_CHUNK) {
        uint64_t size = g->unit->size - from < CACHE_CHUNK ? g->unit->size - from : CACHE_CHUNK;
        struct iovec v = {chunk, size};
        n = read_parts(g, &v, 1, g->head_bytes + from);
        if (n < 0 || (uint64_t)n < size)
            return failed_read(g, n);
        uint64_t a = first > from ? first - from : 0, b = end - from < size ? end - from : size;
        memcpy(r->buffer + (from + a - first), chunk + a, b - a);
        s = is_chunk_right(g, from, chunk, size) ? ENTRY_HIT : ENTRY_DAMAGED;
    }
    return s;
}

/* Which bytes of the unit the request wants; false: it is not inside. */
static bool range_of(const struct io_request *r, const struct cache_unit *u, uint64_t *first, uint64_t *end)
{
    *first = r->length == IO_WHOLE ? 0 : r->offset - u->offset;
    *end = r->length == IO_WHOLE ? u->size : *first + r->length;
    if (r->length != IO_WHOLE && r->offset < u->offset)
        return false;
    if (*end > u->size && u->length == IO_WHOLE) /* a range that reaches past the object's end */
        *end = u->size > *first ? u->size : *first;
    return *end <= u->size;
}

enum entry_state entry_read(const struct cache_dir *d, struct io_request *r, const struct cache_unit *u, uint64_t hash,
                            const struct cache_identity *id, bool may_block, int *sys_errno)
{
    char name[DIR_NAME_BYTES];
    uint64_t first, end;
    struct head h = {0};
    struct reading g = {.may_block = may_block, .unit = u};
    if (!entry_fits(d, u, id, u->size) || !range_of(r, u, &first, &end) || r->capacity < end - first + (r->has_fd ? 0 : IO_TAIL))
        return ENTRY_NONE;
    g.head_bytes = head_bytes(d, u, id, u->size);
    g.fd = open_entry(d, dir_entry_name(hash, name), may_block);
    if (g.fd < 0) {
        *sys_errno = errno;
        return errno == ENOENT || errno == ENOTDIR ? ENTRY_NONE : may_block ? ENTRY_FAILED : ENTRY_BLOCKED;
    }
    bool is_all = first == 0 && end == u->size;
    enum entry_state s = is_all ? read_whole(&g, d, r, id, &h) : read_range(&g, d, r, id, first, end, &h);
    close(g.fd);
    *sys_errno = g.sys_errno;
    if (s != ENTRY_HIT)
        return s;
    r->got = end - first;
    r->object_size = h.object_size;
    r->object_mtime_ns = h.mtime_ns;
    r->status = 0;
    return ENTRY_HIT;
}
