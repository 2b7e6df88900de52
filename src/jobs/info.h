/* The info job: what a data set is, from its catalog and the headers of a sample of its files. */
#ifndef FB_JOBS_INFO_H
#define FB_JOBS_INFO_H

#include "base/error.h"
#include "model/array/array.h"

enum { INFO_MAX_FORMATS = 16, INFO_MAX_FIELDS = FB_MAX_FIELDS };

struct info_format {
    char name[16]; /* by content; "damaged" for files without a readable header */
    uint64_t files;
};

struct info_field {
    char name[64];
    enum fb_dtype dtype;
    int64_t length; /* of a vector; 1 for a number */
    int is_class;
};

enum { INFO_MAX_ARRAYS = 64, INFO_MAX_REMARKS = 16, INFO_REMARK_BYTES = 320 };

/* An array of the first file that could be read, and what the others say to it. */
struct info_array {
    char name[ARRAY_NAME_BYTES];
    enum fb_dtype dtype; /* 0: no numbers */
    int ndim;
    uint64_t shape[FB_MAX_DIMS];
    char storage[16];                  /* "contiguous", "chunked", "inline", "opaque" */
    uint64_t chunk_shape[FB_MAX_DIMS]; /* chunked */
    uint64_t chunks, missing_chunks;
    char filters[96];               /* "deflate, shuffle"; "": none */
    uint64_t bytes, stored_bytes;   /* as numbers; in the file (chunks: their sum) */
    char problem[128];              /* why it is opaque */
    uint64_t least_rows, most_rows; /* over the files examined */
    uint64_t files;                 /* that have it with this dtype and shape of a row */
};

/* Of the recordings examined. */
struct info_sound {
    uint64_t shortest, longest;     /* frames */
    uint32_t least_rate, most_rate; /* per second */
    uint32_t least_channels, most_channels;
    double seconds; /* of all */
};

struct info {
    char kind[16];
    char family[8]; /* "image", "sound", "array" */
    char *root;     /* free() */
    uint64_t samples, bytes, smallest_bytes, largest_bytes;
    int classes;
    uint64_t largest_class, smallest_class; /* samples of them */
    uint64_t fingerprint;
    int is_fresh; /* the catalog was made now */
    double open_seconds;
    char *left_out; /* what is in the source but no sample, or NULL; free() */
    int field_count;
    struct info_field field[INFO_MAX_FIELDS];
    int file_count; /* further files of every sample, by name */
    char file[INFO_MAX_FIELDS][64];
    /* from the headers of `examined` samples spread over the data set */
    uint64_t examined;
    int format_count;
    struct info_format format[INFO_MAX_FORMATS];
    uint32_t width_median, height_median, width_most, height_most;
    /* arrays and sound */
    int array_count;
    struct info_array array[INFO_MAX_ARRAYS];
    struct info_sound sound;
    bool has_rows;    /* a sample is a row, unless sample="file" is given */
    uint64_t rows;    /* of all files, if all were examined */
    int remark_count; /* what will be slow, and why */
    char remark[INFO_MAX_REMARKS][INFO_REMARK_BYTES];
    char *damaged_example; /* path and cause of the first damaged one, or NULL; free() */
};

int info_of(const fb_options *o, struct info *out, struct fb_error *e);
void info_free(struct info *i);
/* Chunks that a row lies in. */
uint64_t info_chunks_per_row(const struct info_array *a);

#endif
