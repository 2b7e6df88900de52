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
#include "feed/chunk_cache.h"
#include "feed/array_probe.h"
#include "feed/feed.h"
#include "model/array_ops.h"
#include "model/catalog/catalog.h"
#include "model/io_ops.h"
#include "transform/array_steps.h"

enum arrays_unit { ARRAYS_ROWS, ARRAYS_FILES };

enum {
    ROWS_PER_LOAD = 64,
    ARRAYS_CACHE_BLOCK = 256 << 10 /* large against a row, small against a disk's or a server's latency times its speed */
};

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
    struct catalog_sample seen; /* as it was when it was opened */
    int fd;
    struct io_object kept; /* for a cache; see source_cache.h */
    uint64_t first, rows;  /* its rows among all */
    struct array_file file;
    const struct array_layout *layout[FB_MAX_FIELDS];
    struct array_conversion conversion[FB_MAX_FIELDS];
    uint64_t chunk_rows;              /* of its first field that comes out of chunks; 0: none does */
    uint8_t *resident[FB_MAX_FIELDS]; /* the whole field as it goes into the batch; NULL: it is read as it is wanted */
    _Atomic uint64_t checked_ns;      /* when it was last seen to be unchanged; relaxed: whoever looks once more does no harm */
    _Atomic uint64_t look_again_ns;   /* when to ask again whether it is in memory as a whole */
    _Atomic bool is_in_memory;        /* as it was then; relaxed: a wrong one costs time, not bytes */
};

struct arrays {
    enum arrays_unit unit;
    bool is_sound;
    enum slot_packing packing;
    int count;
    struct array_want want[FB_MAX_FIELDS];
    struct array_steps steps;
    bool is_cropped; /* sound: every sample gets `samples` frames, by a step or because all recordings have as many */
    uint64_t samples;
    bool allows_external;

    struct array_object *object; /* rows */
    uint64_t objects, rows;
    bool is_chunked;                 /* some field's rows come out of chunks that must be decompressed, in some file at least */
    uint64_t chunk_rows;             /* of the first such field of the first such file */
    bool is_resident[FB_MAX_FIELDS]; /* in all files */
    bool is_all_resident;            /* nobody looks at the files any more */
    struct chunk_cache cache;        /* of decompressed chunks; has its own lock */

    uint64_t *length; /* files: of each sample of the catalog, in rows; NULL: all alike */
    uint64_t longest;
};

static inline struct arrays *arrays_of(const struct feed *f)
{
    return f->state;
}

/* load_ops.make: the kind is load_rows or load_file, by what the files are. */
int arrays_open(struct feed *f, const fb_options *o, struct fb_error *e);
/* Its steps: what is wanted (array_open.c), then the shapes of rows (rows_open.c) or files (bag_open.c). a->want has names and dtypes;
 * `first` is the first file, which lies at `key`. */
int rows_open(struct feed *f, const struct array_file *first, const char *key, struct fb_error *e);
int bags_open(struct feed *f, const fb_options *o, const struct array_file *first, struct fb_error *e);
int arrays_no_memory(struct fb_error *e);
/* What steps that compute in float32 can write. */
static inline bool arrays_is_short_float(enum fb_dtype t)
{
    return t == FB_FLOAT32 || t == FB_FLOAT16 || t == FB_BFLOAT16;
}
int arrays_refuse_field(const struct array_file *file, const char *key, const char *name, struct fb_error *e);
void arrays_close(struct feed *f);

/* As in load_ops.h, for both kinds. */
int arrays_open_labels(struct feed *f, const fb_options *o, struct fb_error *e);
int arrays_add_fields(const struct feed *f, int label, struct slot_shape *s, struct fb_error *e);
void arrays_show_draws(const struct feed *f, const double *record, struct json_writer *w);

/* array_planes.c: the steps that run on whole samples, which are planes in the batch's first field. Not of sound. */
int arrays_shape_steps(struct arrays *a, struct fb_error *e); /* when the shapes of samples are known */
int arrays_run_steps(struct worker *w, struct feed *f, struct slot *s, uint32_t place, uint32_t attempt, struct fb_error *e);

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

int arrays_prepare_conversion(const struct arrays *a, int field, const struct array_layout *l, struct array_conversion *out,
                              struct fb_error *e);

#endif
