/* One cell of a manifest and what it is: a whole number, a number, a vector of numbers, or text. */
#ifndef FB_DATASET_MANIFEST_CELL_H
#define FB_DATASET_MANIFEST_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

/* HUGE: a whole number beyond int64, or a vector with a number beyond float32. */
enum cell_kind { CELL_EMPTY, CELL_TEXT, CELL_INTEGER, CELL_HUGE, CELL_NUMBER, CELL_VECTOR, CELL_KINDS };

struct cell {
    enum cell_kind kind;
    const char *text; /* as written, NUL-terminated; NULL for JSON that is not text */
    size_t length;
    int64_t integer;
    double number;       /* also of an integer */
    const float *vector; /* valid once the whole row is read */
    uint32_t vector_length;
};

/* Appends one element of a vector; *is_huge is set if a finite number does not fit. */
void cell_add_float(struct text *floats, double number, bool *is_huge);
/* Finds out what `text` is; a vector's elements are appended to `floats`. False: no memory. */
bool cell_parse(struct cell *c, const char *text, size_t length, struct text *floats);
const char *cell_kind_name(enum cell_kind k); /* "text", "a whole number", ... */

#endif
