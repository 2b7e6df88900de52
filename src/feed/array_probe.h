/* Where the arrays of a file lie. */
#ifndef FB_FEED_ARRAY_PROBE_H
#define FB_FEED_ARRAY_PROBE_H

#include "dataset/dataset.h"
#include "model/array_ops.h"

struct feed;
struct io;

/* From the learnt records, else by reading the file, whose structure is then kept as a record. Sound among arrays is refused, and arrays
 * among sound. */
int probe_array_file(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e);
/* The same for a file that is open already: the answer describes that open file, even if its name refers to another one by now. `s`: as
 * probe_stat saw it. */
int probe_open_array(struct feed *f, const struct catalog_sample *s, int fd, struct array_file *out, struct fb_error *e);

/* `s` with the size and time that the open file has now. Negative: fstat's error, or no regular file. */
int probe_stat(const struct catalog_sample *s, int fd, struct catalog_sample *seen, struct fb_error *e);
/* Is the open file still what it was when it was `seen`? */
int probe_check_unchanged(struct feed *f, const struct catalog_sample *seen, int fd, struct fb_error *e);
/* The same for bytes that another thread read by name: does the name still refer to the open file? */
int probe_check_named(struct feed *f, const struct catalog_sample *seen, int fd, struct fb_error *e);
/* Is the file of the data set's kind (arrays or sound)? */
int probe_check_kind(const struct feed *f, const char *key, const struct array_file *file, struct fb_error *e);

/* A file that was probed: open, or entirely in memory. */
struct probed_file {
    const struct catalog_sample *seen; /* as it was then */
    int fd;                            /* -1: it is in memory */
    const uint8_t *bytes;              /* NULL: it is not */
    const struct array_file *file;
};
/* Rows that only the format's own reader can read, as stored. */
int probe_read_rows(struct feed *f, const struct probed_file *o, const struct array_layout *l, uint64_t first, uint64_t rows, void *out,
                    struct fb_error *e);

/* Without a feed: always looks. */
int probe_file_alone(const struct dataset *d, const struct catalog_sample *s, bool allows_external, struct array_file *out,
                     struct fb_error *e);
int probe_bytes(const uint8_t *bytes, size_t n, const char *path, bool allows_external, struct array_file *out, struct fb_error *e);

enum { PROBE_AHEAD = 256 };

/* array_probe_store.c: of a sample that lies in a bucket; through a reader, or through the feed's. */
struct probe_reader {
    struct io *io;
    int (*interrupted)(void *ctx); /* may be NULL */
    void *ctx;
};
int probe_through(const struct probe_reader *l, const struct catalog_sample *s, struct array_file *out, struct fb_error *e);
int probe_in_store(struct feed *f, const struct catalog_sample *s, struct array_file *out, struct fb_error *e);
/* Looks into samples [first, first + PROBE_AHEAD) of the catalog side by side and keeps what is found. Negative: interrupted. */
int probe_ahead_in_store(struct feed *f, uint64_t first, struct fb_error *e);

/* What is known already, and keeping what was found. */
bool probe_is_known(struct feed *f, const struct catalog_sample *s);
void probe_keep(struct feed *f, const struct catalog_sample *s, const struct array_file *file);

#endif
