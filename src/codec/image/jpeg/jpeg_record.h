/* What a decode learns about a JPEG file: checkpoints, from which any later decode can begin. A learnt record, opaque to everyone else.
 *
 *   header (fixed) | rows, one after the other, as a stream of bits
 *
 * For each MCU row that was passed there is the position of its first MCU and of every `spacing`-th after it: byte, bit and DC predictors,
 * as differences to the one before. A row begins with the widths of its fields, so that rows are skipped without reading them. Spacing is
 * chosen by the size of the file so that a record of all rows stays below JPEG_RECORD_SHARE 0.012of it.
 *
 * A record holds the rows from the top that any decode has passed; a decode that goes further appends. It is made only of files whose coded
 * data runs up to an end marker.
 *
 * Trust: the record carries a checksum of itself, the file's size and a checksum of the whole file. When the whole file is at hand all are
 * checked, so that a record of other bytes is not used. Beyond that every checkpoint that decoding passes is compared. What is read from a
 * record is checked so that no content of it can do more than give wrong positions; a record made on purpose, with a right checksum and
 * consistent lies about brightness, is believed.
 */
#ifndef FB_CODEC_IMAGE_JPEG_JPEG_RECORD_H
#define FB_CODEC_IMAGE_JPEG_JPEG_RECORD_H

#include "codec/image/jpeg/jpeg_plan.h"
#include "codec/image/jpeg/jpeg_stream.h"

enum { JPEG_RECORD_HEADER = 48, JPEG_MAX_SPACING = 255 };
#define JPEG_RECORD_SHARE 0.015

/* ---- for readers of files ---- */

/* Which bytes of the file decoding `r` needs, besides its header [0, *header): [*first, *last). False: not a record, or one that does not
 * know all rows of the region. */
bool jpeg_record_range(const uint8_t *record, size_t n, const struct region *r, uint32_t *header, uint32_t *first, uint32_t *last);

/* ---- for the decoder ---- */

/* A record that is being read, row by row. */
struct jpeg_record {
    const uint8_t *bits;
    uint64_t bit_count, at; /* of the rows; where the next row is read */
    uint32_t spacing;       /* MCUs */
    uint32_t rows;          /* that it knows */
    uint32_t columns;       /* in MCUs */
    int components;
    uint32_t row;           /* the next one */
    struct jpeg_mark start; /* where that row begins */
};

/* False: not a record of this file. `whole_file`: all bytes are there and are checked. */
bool jpeg_record_open(struct jpeg_record *r, const uint8_t *record, size_t n, const struct jpeg_plan *p, const uint8_t *file,
                      size_t file_bytes, bool whole_file);

/* The marks of the next row: of its columns 0, spacing, 2 * spacing, ... and of the next row's start. `marks` has room for
 * jpeg_marks_in_row. False: there is no such row, or it is damaged. */
bool jpeg_record_row(struct jpeg_record *r, struct jpeg_mark *marks);
/* Passes rows until `row` is the next. False: damaged. */
bool jpeg_record_skip(struct jpeg_record *r, uint32_t row);

static inline uint32_t jpeg_marks_in_row(uint32_t columns, uint32_t spacing)
{
    return (columns + spacing - 1) / spacing + 1;
}

/* The spacing for a file of that size. */
uint32_t jpeg_record_spacing(const struct jpeg_plan *p, size_t file_bytes);

/* A record that is being written into memory of `room` bytes. */
struct jpeg_writing {
    uint8_t *bytes;
    size_t room;
    uint64_t at; /* bits of the rows */
    uint32_t rows, columns, spacing;
    int components;
    bool is_full; /* it did not fit */
};

/* The most bytes that a record of all rows can have. */
size_t jpeg_record_most(const struct jpeg_plan *p, uint32_t spacing);
/* `known` (of `rows` rows, read by jpeg_record_open) is copied first; NULL: nothing is known. */
void jpeg_record_begin(struct jpeg_writing *w, uint8_t *bytes, size_t room, const struct jpeg_plan *p, uint32_t spacing,
                       const struct jpeg_record *known);
void jpeg_record_add(struct jpeg_writing *w, const struct jpeg_mark *marks);
/* Writes the header; the record's size, or 0: it did not fit. */
size_t jpeg_record_end(struct jpeg_writing *w, const struct jpeg_plan *p, const uint8_t *file, size_t file_bytes);

/* For tests and fuzzing: makes the record's checksum right, and before that (unless `file` is NULL) the file's size and checksum in it. */
void jpeg_record_seal(uint8_t *record, size_t n, const uint8_t *file, size_t file_bytes);

#endif
