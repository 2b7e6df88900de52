#include "model/catalog/name_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"

#define MOST_NAMES (UINT32_C(1) << 31)
#define MOST_BYTES ((size_t)1 << 40)

const char *name_table_name(const struct name_table *t, uint32_t number)
{
    assert(number < t->count);
    return t->names.data + t->start[number];
}

/* The slot where the name is or would be. */
static uint32_t seek(const struct name_table *t, const char *name)
{
    uint32_t mask = t->slot_count - 1, at = (uint32_t)checksum_of(name, strlen(name)) & mask;
    while (t->slot[at] && strcmp(name_table_name(t, t->slot[at] - 1), name) != 0)
        at = (at + 1) & mask;
    return at;
}

static bool grow(struct name_table *t)
{
    if (t->slot_count >= MOST_NAMES)
        return false;
    uint32_t slot_count = t->slot_count ? t->slot_count * 2 : 64;
    uint32_t *slot = calloc(slot_count, sizeof(*slot));
    uint64_t *start = slot ? realloc(t->start, slot_count / 2 * sizeof(*start)) : NULL;
    if (!start) {
        free(slot);
        return false;
    }
    free(t->slot);
    t->slot = slot;
    t->start = start;
    t->slot_count = slot_count;
    for (uint32_t i = 0; i < t->count; i++)
        t->slot[seek(t, name_table_name(t, i))] = i + 1;
    return true;
}

int64_t name_table_find(const struct name_table *t, const char *name)
{
    return t->slot_count ? (int64_t)t->slot[seek(t, name)] - 1 : -1;
}

int64_t name_table_add(struct name_table *t, const char *name, bool *is_new)
{
    int64_t number = name_table_find(t, name);
    if (is_new)
        *is_new = number < 0;
    if (number >= 0)
        return number;
    if (t->count == t->slot_count / 2 && !grow(t))
        return -1;
    t->names.limit = MOST_BYTES;
    uint64_t start = t->names.length;
    text_append(&t->names, name, strlen(name) + 1);
    if (t->names.failed)
        return -1;
    t->start[t->count] = start;
    t->slot[seek(t, name)] = t->count + 1;
    return t->count++;
}

void name_table_free(struct name_table *t)
{
    text_free(&t->names);
    free(t->start);
    free(t->slot);
    *t = (struct name_table){0};
}
