/* The table of where learnt records lie. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/file/file_kind.h"
#include "model/learnt/learnt_format.h"

/* ---- the table in memory ---- */

static struct learnt_spot *probe(const struct learnt_table *t, uint64_t key)
{
    uint64_t i = key & (t->capacity - 1);
    while (t->spot[i].key && t->spot[i].key != key)
        i = (i + 1) & (t->capacity - 1);
    return &t->spot[i];
}

static bool grow(struct learnt_table *t)
{
    struct learnt_table bigger = {.capacity = t->capacity ? 2 * t->capacity : 1024, .budget = t->budget};
    uint64_t bytes = bigger.capacity * sizeof(*bigger.spot);
    if (t->budget && !budget_take(t->budget, MEMORY_CACHE, bytes))
        return false;
    bigger.spot = memory_map(bytes);
    if (!bigger.spot) {
        if (t->budget)
            budget_give(t->budget, MEMORY_CACHE, bytes);
        return false;
    }
    for (uint64_t i = 0; i < t->capacity; i++)
        if (t->spot[i].key)
            *probe(&bigger, t->spot[i].key) = t->spot[i];
    bigger.count = t->count;
    learnt_table_free(t);
    *t = bigger;
    return true;
}

bool learnt_table_set(struct learnt_table *t, uint64_t key, uint32_t segment, uint64_t offset)
{
    if (4 * (t->count + 1) > 3 * t->capacity && !grow(t))
        return false;
    struct learnt_spot *s = probe(t, key);
    t->count += s->key == 0;
    *s = (struct learnt_spot){key, offset, segment};
    return true;
}

const struct learnt_spot *learnt_table_find(const struct learnt_table *t, uint64_t key)
{
    if (!t->capacity)
        return NULL;
    const struct learnt_spot *s = probe(t, key);
    return s->key ? s : NULL;
}

void learnt_table_free(struct learnt_table *t)
{
    uint64_t bytes = t->capacity * sizeof(*t->spot);
    if (t->spot && t->budget)
        budget_give(t->budget, MEMORY_CACHE, bytes);
    memory_unmap(t->spot, bytes);
    t->spot = NULL;
    t->capacity = t->count = 0;
}

/* ---- the merged segment's sorted index ---- */

static bool map_index(struct learnt_merged *m, const struct learnt_foot *foot)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = foot->index_offset / page * page;
    m->map_bytes = m->bytes - from;
    m->map = mmap(NULL, m->map_bytes, PROT_READ, MAP_SHARED, m->fd, (off_t)from); /* our own file, only ever replaced by rename */
    if (m->map == MAP_FAILED) {
        m->map = NULL;
        return false;
    }
    m->entry = (const void *)((const char *)m->map + (foot->index_offset - from));
    return true;
}

/* Where other machines may write: a page that cannot be read would be a signal. */
static bool read_index(struct learnt_merged *m, const struct learnt_foot *foot)
{
    uint64_t bytes = foot->index_count * sizeof(*m->entry);
    if (m->budget && !budget_take(m->budget, MEMORY_CACHE, bytes + 1))
        return false;
    m->read_bytes = bytes + 1;
    m->read = memory_map(m->read_bytes);
    m->entry = m->read;
    return m->read && file_read_all_at(m->fd, m->read, bytes, foot->index_offset) == bytes;
}

static bool take_index(struct learnt_merged *m, const struct learnt_foot *foot, bool is_remote)
{
    m->count = foot->index_count;
    return (is_remote ? read_index(m, foot) : map_index(m, foot)) &&
           checksum_of(m->entry, m->count * sizeof(*m->entry)) == foot->index_checksum;
}

static bool is_sane(const struct learnt_merged *m, const struct learnt_foot *foot)
{
    uint64_t index_end = m->bytes - sizeof(*foot);
    return foot->magic == LEARNT_FOOT_MAGIC && foot->index_offset % 8 == 0 && foot->index_offset >= sizeof(struct learnt_head) &&
           foot->index_offset <= index_end && (index_end - foot->index_offset) / sizeof(struct learnt_entry) == foot->index_count &&
           (index_end - foot->index_offset) % sizeof(struct learnt_entry) == 0;
}

static bool open_merged(struct learnt_merged *m, bool (*is_remote)(int fd), int dir_fd)
{
    struct stat st;
    struct learnt_foot foot;
    m->fd = openat(dir_fd, "merged", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (m->fd < 0 || fstat(m->fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    m->bytes = (uint64_t)st.st_size;
    if (m->bytes < sizeof(struct learnt_head) + sizeof(foot))
        return false;
    if (file_read_all_at(m->fd, &foot, sizeof(foot), m->bytes - sizeof(foot)) != sizeof(foot))
        return false;
    return is_sane(m, &foot) && take_index(m, &foot, is_remote(m->fd));
}

void learnt_merged_open_as(struct learnt_merged *m, int dir_fd, bool (*is_remote)(int fd), struct budget *budget)
{
    *m = (struct learnt_merged){.fd = -1, .budget = budget};
    if (!open_merged(m, is_remote, dir_fd))
        learnt_merged_close(m);
}

void learnt_merged_open(struct learnt_merged *m, int dir_fd, struct budget *budget)
{
    learnt_merged_open_as(m, dir_fd, file_is_remote, budget);
}

uint64_t learnt_merged_find(const struct learnt_merged *m, uint64_t key)
{
    uint64_t low = 0, high = m->count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (m->entry[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->count && m->entry[low].key == key ? m->entry[low].offset : 0;
}

void learnt_merged_close(struct learnt_merged *m)
{
    if (m->map)
        munmap(m->map, m->map_bytes);
    if (m->read)
        memory_unmap(m->read, m->read_bytes);
    if (m->read_bytes && m->budget)
        budget_give(m->budget, MEMORY_CACHE, m->read_bytes);
    if (m->fd >= 0)
        close(m->fd);
    *m = (struct learnt_merged){.fd = -1};
}
