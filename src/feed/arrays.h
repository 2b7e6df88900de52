/* Feeds of arrays and sound. A sample is a row of every wanted array (all files laid end to end), or a whole file.
 *
 *   rows    the files stay open; their layouts are known from the start; a load is a group of rows (rows.c)
 *   files   a load is one file: a bag of instances, a clip of sound, an array (bag.c)
 *
 * What is known of a file's structure is a learnt record, so that only the first start looks into every file.
 * Constant after arrays_open, but for what says so.
 */
#ifndef FB_FEED_ARRAYS_H
#define FB_FEED_ARRAYS_H

#include "batch/slot.h"
#include "codec/array/convert/array_convert.h"
#include "feed/array_steps.h"
#include "feed/chunk_cache.h"
#include "feed/array_probe.h"
#include "model/array_ops.h"
#include "model/catalog/catalog.h"
#include "model/io_ops.h"

struct feed;
struct load;
struct worker;

enum arrays_unit { ARRAYS_ROWS, ARRAYS_FILES };

enum { ROWS_PER_LOAD = 64 };

/* A field of the batch that comes from the files. */
struct array_want {
    char name[64];                 /* in the batch */
    char source[ARRAY_NAME_BYTES]; /* in the file; "": its only array */
    enum fb_dtype stored, dtype;   /* in the files; in the batch */
    int ndim;
    int64_t shape[FB_MAX_DIMS]; /* of a sample; of one row if the length varies */
    bool is_variable;
    bool is_instance; /* files: has a row for each instance of the bag: as many as the first field */
    size_t row_bytes; /* in the batch: of one row (ARRAYS_ROWS: of the sample) */
};

/* ARRAYS_ROWS: a file, open. */
struct array_object {
    const char *key, *path;
    int fd;
    struct io_object kept; /* for a cache; see source_cache.h */
    uint64_t first, rows;  /* its rows among all */
    uint64_t size;
    int64_t mtime_ns;
    struct array_file file;
    const struct array_layout *layout[FB_MAX_FIELDS];
    struct array_conversion conversion[FB_MAX_FIELDS];
    uint64_t stored_bytes[FB_MAX_FIELDS]; /* of a row in the file */
    bool is_straight[FB_MAX_FIELDS];      /* its rows are runs of bytes; else they come out of chunks, or as a whole */
    bool is_copied[FB_MAX_FIELDS];        /* a row goes into the batch as it is stored */
    bool has_gaps[FB_MAX_FIELDS];         /* some chunks were never written */
    uint64_t chunk_rows;                  /* of its first field that comes out of chunks; 0: none does */
    uint8_t *resident[FB_MAX_FIELDS];     /* the whole field as it goes into the batch; NULL: it is read as it is wanted */
    _Atomic uint64_t checked_ns;          /* when it was last seen to be unchanged; relaxed: whoever looks once more does no harm */
    _Atomic uint64_t look_again_ns;       /* when to ask again whether it is in memory as a whole */
    _Atomic bool is_in_memory;            /* as it was then; relaxed: a wrong one costs time, not bytes */
};

struct arrays {
    enum arrays_unit unit;
    bool is_sound;
    enum slot_packing packing;
    int count;
    struct array_want want[FB_MAX_FIELDS];
    struct array_steps steps;
    bool allows_external;
    const char *root; /* the data set's */

    struct array_object *object; /* rows */
    uint64_t objects, rows;
    bool is_chunked;                      /* some field's rows come out of chunks that must be unfiltered, in some file at least */
    uint64_t chunk_rows;                  /* of the first such field of the first such file */
    bool is_resident[FB_MAX_FIELDS];      /* in all files */
    bool needs_take[FB_MAX_FIELDS];       /* reading does not put rows where they belong, in some file at least */
    uint64_t staged_bytes[FB_MAX_FIELDS]; /* of a row that waits on the stage, in the file where it is largest; 0: none does */
    bool is_all_resident;                 /* nobody looks at the files any more */
    struct chunk_cache cache;             /* of unfiltered chunks; has its own lock */

    uint64_t *length; /* files: of each sample of the catalog, in rows; NULL: all alike */
    uint64_t longest;
};

/* After the data set is open and the crew joined, before samples are chosen. */
int arrays_open(struct feed *f, const fb_options *o, struct fb_error *e);
/* After samples were chosen: reads what is to be kept in memory. */
int arrays_preload(struct feed *f, bool is_everything, struct fb_error *e);
void arrays_close(struct feed *f);
/* Somebody needs memory: an idle feed gives back all unfiltered chunks, a live one half of them. Any thread. */
void arrays_give_back(struct feed *f, bool is_live);

/* The names in fields= that are arrays of the files are the arrays' business; the others are labels. */
bool arrays_has_field(const struct arrays *a, const char *name, size_t length);

int arrays_add_fields(const struct arrays *a, struct slot_shape *s, struct fb_error *e);
/* Rows that a sample of the catalog puts into a field of variable length. */
uint64_t arrays_length_of(const struct arrays *a, uint64_t sample);

/* The object that row `row` lies in. */
static inline const struct array_object *arrays_object_of(const struct arrays *a, uint64_t row)
{
    uint64_t low = 0, high = a->objects;
    while (high - low > 1) {
        uint64_t middle = (low + high) / 2;
        *(a->object[middle].first <= row ? &low : &high) = middle;
    }
    return &a->object[low];
}
/* "train.h5#12"; returns the length wanted. */
int arrays_row_key(const struct arrays *a, uint64_t row, char *out, size_t out_size);

/* Does the worker find the bytes by itself (true), or are they brought as a whole file? */
bool arrays_reads_itself(const struct feed *f, const struct load *l);
/* Sound: is it a large recording of which only a part is read? */
bool arrays_reads_part(const struct arrays *a, const struct catalog_sample *s);

int arrays_prepare_conversion(const struct arrays *a, int field, const struct array_layout *l, struct array_conversion *out,
                              struct fb_error *e);

/* rows_plan.c: the loads of a batch of rows, whose places know their positions; `given` says which samples instead of the order. */
struct order;
struct load *rows_plan(struct feed *f, struct slot *s, const struct order *o, const uint64_t *given);

/* The loads: as load_run. */
void rows_run(struct worker *w, struct feed *f, struct load *l);
/* Whole files that were brought: bytes -> place. */
int bag_place(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes, size_t n, struct fb_error *e);
/* Files that the worker reads by itself. 1: the load is on its way (io has it). */
int bag_run(struct worker *w, struct feed *f, struct load *l, struct fb_error *e);

#endif
