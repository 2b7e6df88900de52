/* Names to numbers: each distinct name gets the next number from 0. Names are kept in one block of text; open addressing, never more than
 * half full. Zero-initialised it is empty and valid. One thread at a time. */
#ifndef FB_MODEL_CATALOG_NAME_TABLE_H
#define FB_MODEL_CATALOG_NAME_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/text.h"

struct name_table {
    struct text names;
    uint64_t *start; /* of each name in `names`; room for slot_count / 2 */
    uint32_t *slot;  /* number + 1, or 0 */
    uint32_t count, slot_count;
};

/* The name's number, or -1: no memory (or 2^31 names). *is_new may be NULL. */
int64_t name_table_add(struct name_table *t, const char *name, bool *is_new);
/* The name's number, or -1: not there. */
int64_t name_table_find(const struct name_table *t, const char *name);
/* number < count; valid until the next add. */
const char *name_table_name(const struct name_table *t, uint32_t number);
void name_table_free(struct name_table *t);

#endif
