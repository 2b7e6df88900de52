#include "base/round_up.h"
#include "feed/read_buffers.h"

#include <stdlib.h>

enum { SMALLEST = 16 << 10 };

/* Two classes per power of two: at most a third of a buffer is unused. */
static int class_of(uint64_t bytes, uint64_t *capacity)
{
    uint64_t size = SMALLEST;
    int c = 0;
    for (; size < bytes && c < READ_CLASSES - 1; c++)
        size = c % 2 == 0 ? size + size / 2 : size / 3 * 4;
    *capacity = size;
    return c;
}

static size_t total_bytes(const struct read_buffer *b)
{
    return sizeof(*b) + b->capacity;
}

static void drop(struct reads *r, struct read_buffer *b)
{
    r->bytes -= total_bytes(b);
    budget_give(r->budget, MEMORY_READS, total_bytes(b));
    free(b);
}

void reads_trim(struct reads *r)
{
    for (int c = 0; c < READ_CLASSES; c++)
        while (r->kept[c]) {
            struct read_buffer *b = r->kept[c];
            r->kept[c] = b->next;
            drop(r, b);
        }
}

static struct read_buffer *make(struct reads *r, int size_class, uint64_t capacity)
{
    size_t total = sizeof(struct read_buffer) + capacity;
    if (r->bytes && r->bytes + total > r->limit)
        return NULL;
    if (!budget_take(r->budget, MEMORY_READS, total))
        return NULL;
    struct read_buffer *b = aligned_alloc(64, round_up(total, 64));
    if (!b) {
        budget_give(r->budget, MEMORY_READS, total);
        return NULL;
    }
    b->capacity = capacity;
    b->size_class = size_class;
    r->bytes += total;
    return b;
}

struct read_buffer *reads_take(struct reads *r, uint64_t bytes, bool *is_too_large)
{
    uint64_t capacity;
    int c = class_of(bytes, &capacity);
    *is_too_large = capacity < bytes || bytes > atomic_load_explicit(&r->budget->limit, memory_order_relaxed) / 2;
    if (*is_too_large)
        return NULL;
    struct read_buffer *b = r->kept[c];
    if (b) {
        r->kept[c] = b->next;
    } else {
        b = make(r, c, capacity);
        if (!b) { /* other sizes that lie idle may be in the way */
            reads_trim(r);
            b = make(r, c, capacity);
        }
    }
    if (b)
        error_clear(&b->error);
    return b;
}

void reads_give(struct reads *r, struct read_buffer *b)
{
    b->next = r->kept[b->size_class];
    r->kept[b->size_class] = b;
}
