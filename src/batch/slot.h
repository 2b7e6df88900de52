/* Slots: the memory that a whole batch lives in.
 *
 * Life: free -> filling -> ready -> held -> free; with a device (feed/device_copy.h) it is filled -> shipping before ready, and draining
 * after held. Every place of a slot is written by exactly one worker; the last one to finish publishes the slot; the consumer takes
 * published slots in order. A slot that the user keeps never changes: when too many are kept, the user takes ownership of the oldest (they
 * leave the engine's count and budget), and new ones replace them.
 *
 * Safety: `state`, `next` and `is_given` belong to the feed's lock; what the planner sets is constant from the first issued load until the
 * slot is free again; `remaining` and `refs` are atomic.
 */
#ifndef FB_BATCH_SLOT_H
#define FB_BATCH_SLOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* How samples of different lengths lie in a field: one length for all; padded to the longest; one after another. */
enum slot_packing { SLOT_STACKED, SLOT_PADDED, SLOT_RAGGED };

/* One field of every batch: what a sample takes of it, and where it starts in the slot. */
struct slot_field {
    char name[64];
    enum slot_packing packing; /* not SLOT_STACKED: shape, strides and sample_bytes are those of one row, without the length */
    enum fb_dtype dtype;
    int ndim; /* without the batch dimension */
    int64_t shape[FB_MAX_DIMS];
    int64_t strides[FB_MAX_DIMS]; /* bytes, inside a sample */
    size_t sample_bytes;
    size_t offset;
};

struct slot_shape {
    uint32_t places;
    int field_count;
    struct slot_field field[FB_MAX_FIELDS];
    size_t bytes;          /* of the arrays, those of variable length left out; may be 0: arrays without numbers */
    bool has_rows;         /* there are fields of variable length */
    size_t row_bytes;      /* of all of these together: of one row; may be 0 */
    uint32_t draw_numbers; /* that each place keeps of what was drawn for it */
    int length_field;      /* of the array with the lengths (SLOT_PADDED) or offsets (SLOT_RAGGED), if has_rows */
};

/* Adds a field of `shape` (C order unless strides are given); image first, then labels. */
int slot_shape_add(struct slot_shape *s, const char *name, enum fb_dtype dtype, int ndim, const int64_t *shape, const int64_t *strides,
                   struct fb_error *e);

/* Adds a field of variable length: rows of `shape`. All of a batch have the same packing and lengths. */
int slot_shape_add_variable(struct slot_shape *s, const char *name, enum slot_packing packing, enum fb_dtype dtype, int ndim,
                            const int64_t *shape, struct fb_error *e);
/* After the last of these: the array of lengths or offsets. */
int slot_shape_add_lengths(struct slot_shape *s, struct fb_error *e);

struct slot_place {
    uint64_t sample;   /* index in the catalog (of rows: among all rows) of what was decoded here */
    uint64_t selected; /* the same among the selected ones */
    uint64_t position; /* in the epoch */
    const char *key;
    bool is_repeat;
};

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_FILLED, SLOT_SHIPPING, SLOT_READY, SLOT_HELD, SLOT_DRAINING };

enum { SLOT_STREAMS = 4 };

/* What a device has to do with a slot. Belongs to the thread that has the slot; events and streams to the feed's lock while it is held. */
struct slot_device {
    bool is_pinned;   /* the memory is page-locked */
    bool is_queued;   /* a copy was queued, and `copied` recorded after it */
    bool is_lost;     /* it is not known when the device will have read it */
    uintptr_t memory; /* its copy on the device; 0: none */
    size_t memory_bytes;
    struct device_event *copied, *used[SLOT_STREAMS];
    uintptr_t stream[SLOT_STREAMS]; /* of the program's, that use the batch */
    int streams;
};

struct slot {
    const struct slot_shape *shape;
    void *owner; /* the feed */
    void *memory;
    struct slot_place *place;
    double *draws;  /* shape->draw_numbers per place, written by whoever fills it */
    void *loads;    /* the feed's: one per place */
    uint32_t *turn; /* the feed's: the places in the order in which loads take them; NULL: as they are numbered */
    char *keys;     /* of places that have none of their own, made when somebody asks */

    /* set by the planner */
    uint64_t generation; /* of the plan it belongs to: an abandoned plan's slots are recycled unseen */
    uint64_t epoch, batch;
    uint64_t first; /* position of place 0 */
    uint64_t end;   /* position that the state says after this batch */
    uint32_t count; /* places used */
    struct fb_array array[FB_MAX_FIELDS];
    char state_json[1024];

    /* variable lengths */
    void *rows_memory;
    size_t rows_capacity;
    uint64_t longest, total; /* rows */
    size_t rows_at[FB_MAX_FIELDS];
    uint64_t *room;  /* rows that each place has room for */
    uint64_t *start; /* SLOT_RAGGED: first row of each place */
    uint64_t *rows;  /* in each place, as it came */

    _Atomic uint32_t remaining; /* loads not finished; the one that brings it to 0 publishes (acquire-release: it sees all places) */
    _Atomic int refs;           /* of the consumer */

    /* under the feed's lock */
    enum slot_state state;
    bool is_given;
    struct slot *next;
    uint64_t ready_ns;
    struct fb_error *error; /* of the failed place with the lowest number */
    uint32_t error_place;
    uint32_t redraws; /* bad samples replaced in it */

    struct slot_device device;

    /* under the crew's lock: loads of it that wait for a worker */
    uint64_t sequence; /* slots are served in this order */
    void *ready_first, *ready_last;
    struct slot *ready_next;
};

/* Bytes a slot takes in all: arrays, places, and `load_bytes` per place. */
size_t slot_bytes(const struct slot_shape *shape, size_t load_bytes);
/* NULL: no memory. */
struct slot *slot_new(const struct slot_shape *shape, void *owner, size_t load_bytes);
void slot_free(struct slot *s);
/* Points the arrays at the first `count` places. */
void slot_prepare(struct slot *s, uint32_t count);
/* Bytes that the rows of a batch take whose places have room for room[0..count). */
size_t slot_rows_bytes(const struct slot *s, uint32_t count);
/* The same for lengths: room is set, `count` places. If more memory is needed than there is, it becomes `bytes`, at least slot_rows_bytes.
 * False: no memory. The budget is the caller's business: rows_capacity tells. */
bool slot_prepare_rows(struct slot *s, uint32_t count, size_t bytes);
/* How many rows a place has got, at most its room. The rest of a padded place becomes zero: by the one who fills it, so that this is
 * work for many threads. */
void slot_set_rows(struct slot *s, uint32_t place, uint64_t rows);
/* After the last load: lengths and offsets as they came; closes gaps that shorter stand-ins left. */
void slot_finish_rows(struct slot *s);
static inline double *slot_draws(const struct slot *s, uint32_t place)
{
    return s->draws + (size_t)place * s->shape->draw_numbers;
}
/* Where field `field` of `place` is. */
void *slot_at(const struct slot *s, int field, uint32_t place);

#endif
