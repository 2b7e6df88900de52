#include "codec/image/jpeg/jpeg_huffman.h"

#include <string.h>

enum { SHELF = 16 };

static uint32_t entry_of(uint32_t length, uint8_t symbol, bool is_dc)
{
    uint32_t size = is_dc ? symbol : symbol & 15u, run = is_dc ? 0 : symbol >> 4;
    if (size == 0 && !is_dc && run != 15) /* any short run of zeros without a value ends the block */
        run = JPEG_END_RUN;
    return (length + size) | run << 8 | (1u - (1u << size)) << 16;
}

static uint32_t *fill(uint32_t *to, uint32_t count, uint32_t entry)
{
    if ((entry & 63) > JPEG_QUICK_BITS)
        entry = 0;
    while (count--)
        *to++ = entry;
    return to;
}

static uint32_t size_of(uint32_t entry) /* of the value, from 1 - 2^size */
{
    return 31 - (uint32_t)__builtin_clz((uint32_t)(1 - ((int32_t)entry >> 16)));
}

/* The symbols whose codes are in the look-up bits. They pass at most the 63 coefficients that a block has besides its DC: more would be
 * symbols of the next block, and their sum could look like an end of block. */
static uint16_t skip_of(const struct jpeg_huffman *h, uint32_t bits)
{
    uint32_t used = 0, passed = 0;
    while (used < JPEG_LOOK_BITS && passed <= JPEG_END_RUN) {
        uint32_t entry = h->quick[bits << used & ((1u << JPEG_LOOK_BITS) - 1)], run = entry >> 8 & 255;
        if (!entry || used + (entry & 63) - size_of(entry) > JPEG_LOOK_BITS || (run != JPEG_END_RUN && passed + run + 1 > 63))
            break;
        used += entry & 63;
        passed += run + 1;
    }
    return (uint16_t)(passed ? used | passed << 8 : JPEG_NO_SKIP);
}

bool jpeg_huffman_make(struct jpeg_huffman *h, const struct jpeg_code *code, bool is_dc)
{
    const uint8_t *counts = code->bytes, *symbols = code->bytes + 16;
    uint32_t next = 0, k = 0, *to = h->quick;
    memset(h->quick, 0, sizeof(h->quick));
    h->is_dc = is_dc;
    for (uint32_t length = 1; length <= 16; length++, next <<= 1) {
        h->first[length] = (int32_t)k - (int32_t)next;
        for (int i = 0; i < counts[length - 1]; i++, k++, next++) {
            if (next + 1 >= 1u << length || (is_dc && symbols[k] > 15)) /* no code is all ones */
                return false;
            h->all[k] = entry_of(length, symbols[k], is_dc);
            if (length <= JPEG_LOOK_BITS)
                to = fill(to, 1u << (JPEG_LOOK_BITS - length), h->all[k]);
        }
        h->most[length] = counts[length - 1] ? (int32_t)next - 1 : -1;
    }
    for (uint32_t i = 0; !is_dc && i < 1u << JPEG_LOOK_BITS; i++)
        h->skip[i] = skip_of(h, i);
    return true;
}

static bool is_same(const struct jpeg_huffman *h, const struct jpeg_code *code, bool is_dc)
{
    return h->source_bytes == code->n && h->is_dc == is_dc && !memcmp(h->source, code->bytes, code->n);
}

const struct jpeg_huffman *jpeg_shelf_table(struct jpeg_shelf *s, const struct jpeg_code *code, bool is_dc)
{
    struct jpeg_huffman *tables = scratch_need(&s->memory, SHELF * sizeof(*tables), NULL);
    if (!tables)
        return NULL;
    struct jpeg_huffman *oldest = &tables[0];
    for (uint32_t i = 0; i < s->count; i++) {
        if (is_same(&tables[i], code, is_dc)) {
            tables[i].last_use = ++s->clock;
            return &tables[i];
        }
        if (tables[i].last_use < oldest->last_use)
            oldest = &tables[i];
    }
    struct jpeg_huffman *h = s->count < SHELF ? &tables[s->count++] : oldest;
    h->last_use = 0;
    h->source_bytes = 0;
    if (!jpeg_huffman_make(h, code, is_dc))
        return NULL;
    h->source_bytes = code->n;
    memcpy(h->source, code->bytes, code->n);
    h->last_use = ++s->clock;
    return h;
}

void jpeg_shelf_free(struct jpeg_shelf *s)
{
    scratch_free(&s->memory);
    *s = (struct jpeg_shelf){.memory.budget = s->memory.budget};
}
