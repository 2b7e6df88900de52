/* One decoding run under way, as the files that do the work (decode.c), keep names and labels (decode_table.c) and go on after an
 * interruption (decode_resume.c) see it. */
#ifndef FB_JOBS_DECODE_DECODE_INTERNAL_H
#define FB_JOBS_DECODE_DECODE_INTERNAL_H

#include "base/text/text.h"
#include "dataset/dataset.h"
#include "jobs/decode.h"
#include "jobs/output/pack_files.h"

enum { DECODE_BATCH = 64, DECODE_HEADER = DECODED_HEADER_BYTES };

struct decoding {
    const struct decode_request *q;
    struct pack_result *out;
    struct dataset dataset;
    fb_loader *loader;
    size_t row_bytes;
    struct pack_files files;
    int fd;                   /* of the pixels */
    struct text csv, skipped; /* skipped: "key: cause" lines */
    struct catalog_writer *w;
    uint64_t started_ns;
    uint64_t rows, next; /* written; sample to be decoded: always the first of a batch */
};

static inline uint64_t decode_row_at(const struct decoding *d, uint64_t row)
{
    return DECODE_HEADER + row * d->row_bytes;
}

/* ---- decode.c ---- */

/* A picture that could not be decoded is counted, and named if it is one of the first. */
int decode_leave_out(struct decoding *d, uint64_t sample, struct fb_error *e);

/* ---- decode_table.c: names and labels of the rows ---- */

int decode_table_start(struct decoding *d, struct fb_error *e);
/* A row that was written: its name and labels. */
int decode_table_add(struct decoding *d, uint64_t sample, struct fb_error *e);
/* Writes the table under a temporary name. */
int decode_table_write(struct decoding *d, struct fb_error *e);
/* The pixels are in place: puts table and catalog beside them. */
int decode_table_finish(struct decoding *d, struct fb_error *e);

/* ---- decode_resume.c ---- */

/* Goes on where an interrupted run stopped, if there is one; else starts anew. */
int decode_begin(struct decoding *d, struct fb_error *e);
/* A row was written: into the journal. */
int decode_note(struct decoding *d, uint64_t sample, const void *row, struct fb_error *e);

#endif
