/* Makes the checksums of a catalog's bytes right again after they were changed, so that the checks behind them are reached. */
#ifndef TESTS_MODEL_SEAL_H
#define TESTS_MODEL_SEAL_H

#include <string.h>

#include "base/checksum.h"
#include "model/catalog/catalog_format.h"

/* size >= sizeof(struct catalog_header). */
static inline void seal_again(uint8_t *bytes, size_t size)
{
    struct catalog_header h;
    memcpy(&h, bytes, sizeof(h));
    if (h.body >= sizeof(h) && h.body <= size) {
        uint64_t blocks = catalog_block_count(size - h.body);
        for (uint64_t b = 0; b < blocks && sizeof(h) + (b + 1) * 8 <= h.body; b++) {
            uint64_t start = h.body + b * CATALOG_BLOCK;
            uint64_t sum = checksum_of(bytes + start, size - start < CATALOG_BLOCK ? size - start : CATALOG_BLOCK);
            memcpy(bytes + sizeof(h) + b * 8, &sum, 8);
        }
        h.table_checksum = checksum_of(bytes + sizeof(h), h.body - sizeof(h));
    }
    h.header_checksum = checksum_of(&h, catalog_header_checksum_bytes());
    memcpy(bytes, &h, sizeof(h));
}

#endif
