#include "host/python/py_memory.h"

#include <string.h>

/* Where a 64-bit process may have anything at all. */
static const uint64_t address_least = 65536, address_most = (uint64_t)1 << 57;

void memory_refresh(struct memory_view *v)
{
    memset(v->page_at, 0, sizeof(v->page_at));
    v->pages_read = v->next = 0;
}

static const uint8_t *page_of(struct memory_view *v, uint64_t at)
{
    for (int i = 0; i < MEMORY_PAGES_KEPT; i++)
        if (v->page_at[i] == at)
            return v->page[i];
    int slot = v->next;
    if (v->pages_read++ >= MEMORY_PAGES_MOST)
        return NULL;
    v->page_at[slot] = 0;
    if (!v->read(v->ctx, at, v->page[slot], MEMORY_PAGE))
        return NULL;
    v->page_at[slot] = at;
    v->next = (slot + 1) % MEMORY_PAGES_KEPT;
    return v->page[slot];
}

bool memory_copy(struct memory_view *v, uint64_t address, void *out, size_t size)
{
    uint8_t *to = out;
    if (address < address_least || address >= address_most || size > MEMORY_PAGE)
        return false;
    while (size > 0) {
        uint64_t inside = address % MEMORY_PAGE;
        size_t part = size < MEMORY_PAGE - inside ? size : (size_t)(MEMORY_PAGE - inside);
        const uint8_t *page = page_of(v, address - inside);
        if (!page)
            return false;
        memcpy(to, page + inside, part);
        to += part;
        address += part;
        size -= part;
    }
    return true;
}

bool memory_pointer(struct memory_view *v, uint64_t address, uint64_t *value)
{
    return memory_copy(v, address, value, sizeof(*value));
}
