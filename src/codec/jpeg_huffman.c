#include "codec/jpeg_huffman.h"

#include <string.h>

enum { SHELF = 16 };

static uint32_t entry_of(uint32_t length, uint32_t run, int32_t value)
{
    return length | run << 8 | (uint32_t)value << 16;
}

/* The value that `bits`, `size` of them, stand for: the upper half is positive, the lower counts up to -1. */
static int32_t extend(uint32_t bits, uint32_t size)
{
    return bits >> (size - 1) ? (int32_t)bits : (int32_t)bits - (1 << size) + 1;
}

/* Fills the entries that begin with a code of `length` bits. */
static void fill(uint32_t *entry, uint32_t length, uint8_t symbol, bool is_dc)
{
    uint32_t spare = JPEG_LOOK_BITS - length, size = is_dc ? symbol : symbol & 15u, run = is_dc ? 0 : symbol >> 4;
    if (size > spare) {
        for (uint32_t i = 0; i < 1u << spare; i++)
            entry[i] = entry_of(0, length, symbol);
        return;
    }
    if (size == 0 && !is_dc && run != 15) /* any short run of zeros without a value ends the block */
        run = JPEG_END_RUN;
    for (uint32_t v = 0; v < 1u << size; v++) {
        uint32_t e = entry_of(length + size, run, size ? extend(v, size) : 0), same = 1u << (spare - size);
        for (uint32_t i = 0; i < same; i++)
            *entry++ = e;
    }
}

bool jpeg_huffman_make(struct jpeg_huffman *h, const struct jpeg_code *code, bool is_dc)
{
    const uint8_t *counts = code->bytes, *symbols = code->bytes + 16;
    uint32_t next = 0, k = 0;
    memset(h->entry, 0, sizeof(h->entry));
    memset(h->symbols, 0, sizeof(h->symbols));
    h->is_dc = is_dc;
    for (uint32_t length = 1; length <= 16; length++, next <<= 1) {
        h->symbol[length] = (int32_t)k - (int32_t)next;
        for (int i = 0; i < counts[length - 1]; i++, k++, next++) {
            if (next + 1 >= 1u << length || (is_dc && symbols[k] > 15)) /* no code is all ones */
                return false;
            h->symbols[k] = symbols[k];
            if (length <= JPEG_LOOK_BITS)
                fill(h->entry + (next << (JPEG_LOOK_BITS - length)), length, symbols[k], is_dc);
        }
        h->most[length] = counts[length - 1] ? (int32_t)next - 1 : -1;
    }
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
