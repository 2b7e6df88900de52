/* Read buffers: memory for bytes in flight, kept and reused by size, inside the budget and a share of it.
 *
 * Safety: all under the owning feed's lock. Only the planner takes; workers give back.
 */
#ifndef FB_FEED_READ_BUFFERS_H
#define FB_FEED_READ_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"

enum { READ_CLASSES = 48 };

struct read_buffer {
    struct read_buffer *next;
    size_t capacity; /* of data */
    int size_class;
    struct fb_error error; /* for the io request that uses it */
    _Alignas(64) uint8_t data[];
};

struct reads {
    struct budget *budget;
    uint64_t limit; /* bytes in use and kept together stay below, except for a single buffer */
    uint64_t bytes;
    struct read_buffer *kept[READ_CLASSES];
};

/* NULL: not now (wait for one to be given back), or never if *is_too_large: more than the whole budget. */
struct read_buffer *reads_take(struct reads *r, uint64_t bytes, bool *is_too_large);
void reads_give(struct reads *r, struct read_buffer *b);
/* Frees what is kept. */
void reads_trim(struct reads *r);

#endif
