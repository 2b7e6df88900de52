/* What holds for any table, whatever its bytes: it is refused with a line, or it reads the same twice and its values fit its columns. */
#ifndef TESTS_FUZZ_DATASET_ROWS_H
#define TESTS_FUZZ_DATASET_ROWS_H

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "dataset/manifest/columns.h"

/* Reads all rows; the sum depends on every cell. */
static inline uint64_t sum_of_rows(struct table *t, uint64_t *rows)
{
    uint64_t sum = 0;
    *rows = 0;
    while (table_next(t, NULL) == 1) {
        for (int i = 0; i < t->columns; i++) {
            const struct cell *c = &t->cell[i];
            if (c->text && (strlen(c->text) != c->length || c->length > 2 * TABLE_MAX_RECORD))
                abort();
            sum = sum * 31 + (c->text ? checksum_of(c->text, c->length) : (uint64_t)c->integer) + c->kind;
            if (c->kind == CELL_VECTOR)
                sum += checksum_of(c->vector, c->vector_length * sizeof(float));
        }
        ++*rows;
    }
    return sum;
}

static inline void add_rows(struct table *t, const struct columns *c)
{
    struct catalog_writer *w;
    if (catalog_writer_open(&w, NULL) < 0)
        return;
    struct columns_row row;
    for (int i = 0; i < c->count; i++)
        if (catalog_add_field(w, &c->field[i], NULL) < 0)
            abort();
    char key[32] = "";
    uint64_t n = 0;
    while (table_next(t, NULL) == 1 && columns_read(c, t, &row, w, NULL) == 0) {
        for (uint64_t k = n++, i = 0; i < 20; i++, k /= 10)
            key[19 - i] = (char)('0' + k % 10);
        struct catalog_sample s = {.key = key};
        if (catalog_add_sample(w, &s, row.value, NULL) < 0)
            abort();
    }
    struct catalog *catalog;
    if (catalog_finish(w, NULL, &catalog, NULL) < 0 || catalog_count(catalog) != n)
        abort();
    catalog_close(catalog);
}

static inline void check_table(const struct table_format *format, const uint8_t *data, size_t size)
{
    struct table *t = malloc(sizeof(*t));
    struct fb_error e;
    error_clear(&e);
    char *bytes = malloc(size); /* its own block, so that reading past the end shows */
    if (size)
        memcpy(bytes, data, size);
    if (table_open(t, format, bytes, size, &e) == 0) {
        uint64_t first, second, sum = sum_of_rows(t, &first);
        table_rewind(t);
        if (sum != sum_of_rows(t, &second) || first != second)
            abort();
        table_rewind(t);
        struct columns c;
        if (columns_find(&c, t, NULL, -1, NULL, &e) == 0)
            add_rows(t, &c);
        table_close(t);
    }
    if (e.code && (e.code != FB_E_DATA || !e.cause[0]))
        abort();
    free(bytes);
    free(t);
}

#endif
