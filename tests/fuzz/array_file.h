/* One array format over one input: whatever it describes passes array_check, and its rows can be read and converted or are refused in
 * words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codec/array/array_bytes.h"

#define PROMISE(X)                                       \
    do {                                                 \
        if (!(X)) {                                      \
            fprintf(stderr, "broken promise: %s\n", #X); \
            abort();                                     \
        }                                                \
    } while (0)

enum { MOST_BYTES = 1 << 20 }; /* of rows that are read */

static void fuzz_rows(const struct array_source *s, const char *format, const struct array_layout *a, uint64_t first, uint64_t rows)
{
    struct fb_error e;
    struct array_conversion c;
    uint64_t row = array_row_bytes(a);
    if (!row || !rows || row > MOST_BYTES || (a->storage == ARRAY_CHUNKED && decompressed_chunk_bytes(a) > MOST_BYTES * 4))
        return;
    rows = rows < MOST_BYTES / row ? rows : MOST_BYTES / row;
    uint8_t *stored = malloc((size_t)(row * rows));
    float *out = malloc((size_t)(row * rows) * sizeof(float));
    PROMISE(stored && out);
    error_clear(&e);
    int rc = array_bytes_rows(s, format, a, first, rows, stored, &e);
    PROMISE(rc == 0 || (rc == e.code && e.cause[0]));
    if (rc == 0 && array_conversion_init(&c, a->code, a->dtype, FB_FLOAT32, NULL, NULL) == 0)
        array_convert(&c, stored, out, (size_t)(row * rows / c.from_bytes));
    free(out);
    free(stored);
}

static int fuzz_array_file(const struct array_ops *ops, const uint8_t *data, size_t size)
{
    struct array_bytes b = {data, size, UINT64_MAX, 0};
    struct array_source s = array_bytes_source(&b);
    struct array_file f;
    struct fb_error e;
    if (!ops->probe(data, size < ARRAY_PROBE_BYTES ? size : ARRAY_PROBE_BYTES))
        return 0;
    error_clear(&e);
    int rc = ops->describe(&s, &f, &e);
    PROMISE(rc == 0 || (rc == e.code && e.cause[0]));
    PROMISE(b.beyond == 0);
    if (rc < 0)
        return 0;
    PROMISE(f.count > 0 && f.count <= ARRAY_MAX_IN_FILE && f.object_size == size);
    for (int i = 0; i < f.count; i++) {
        const struct array_layout *a = &f.array[i];
        uint64_t rows = array_rows(a);
        PROMISE(array_check(a, size, NULL) == 0);
        fuzz_rows(&s, f.format, a, 0, rows);
        fuzz_rows(&s, f.format, a, rows / 2, rows - rows / 2 < 3 ? rows - rows / 2 : 3);
    }
    PROMISE(b.beyond == 0);
    array_file_free(&f);
    return 0;
}
