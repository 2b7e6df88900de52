/* The memory of another process, as small reads see it: whole pages are copied once per look, so that neighbours cost nothing. */
#ifndef FB_HOST_PYTHON_PY_MEMORY_H
#define FB_HOST_PYTHON_PY_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MEMORY_PAGE = 4096, MEMORY_PAGES_KEPT = 16, MEMORY_PAGES_MOST = 512 };

/* MUST: fill `out` with `size` bytes from `address` of the other process, or return false. Never blocks, never stops it. */
typedef bool memory_reader(void *ctx, uint64_t address, void *out, size_t size);

/* What is read is never trusted: the process runs on, and its memory may hold anything. */
struct memory_view {
    memory_reader *read;
    void *ctx;
    int pages_read; /* since the look began; at MEMORY_PAGES_MOST reading ends */
    int next;
    uint64_t page_at[MEMORY_PAGES_KEPT]; /* 0: empty */
    uint8_t page[MEMORY_PAGES_KEPT][MEMORY_PAGE];
};

/* A new look: what was copied is forgotten. */
void memory_refresh(struct memory_view *v);
bool memory_copy(struct memory_view *v, uint64_t address, void *out, size_t size);
/* A pointer at `address`; false: not readable. */
bool memory_pointer(struct memory_view *v, uint64_t address, uint64_t *value);

#endif
