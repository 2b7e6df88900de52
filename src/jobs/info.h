/* The info job: what a data set is, from its catalog and the headers of a sample of its files. */
#ifndef FB_JOBS_INFO_H
#define FB_JOBS_INFO_H

#include "base/error.h"

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

struct info {
    char kind[16];
    char *root;           /* free() */
    uint64_t samples, bytes, smallest_bytes, largest_bytes;
    int classes;
    uint64_t largest_class, smallest_class; /* samples of them */
    uint64_t fingerprint;
    int is_fresh;         /* the catalog was made now */
    double open_seconds;
    char *left_out;       /* what is in the source but no sample, or NULL; free() */
    int field_count;
    struct info_field field[INFO_MAX_FIELDS];
    /* from the headers of `looked` samples spread over the data set */
    uint64_t looked;
    int format_count;
    struct info_format format[INFO_MAX_FORMATS];
    uint32_t width_median, height_median, width_most, height_most;
    char *damaged_example; /* path and cause of the first damaged one, or NULL; free() */
};

int info_of(const fb_options *o, struct info *out, struct fb_error *e);
void info_free(struct info *i);

#endif
