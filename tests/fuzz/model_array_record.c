/* Records of arrays, any bytes at all: four bytes of file size, then the record.
 *
 * Promises checked, beyond the sanitizers': what is accepted passes array_check, and written again it reads the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/array/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROMISE(condition)                                       \
    do {                                                         \
        if (!(condition)) {                                      \
            fprintf(stderr, "broken promise: %s\n", #condition); \
            abort();                                             \
        }                                                        \
    } while (0)

static uint64_t touch(const struct array_layout *a)
{
    uint64_t sum = array_rows(a) * array_row_bytes(a);
    for (uint64_t i = 0; i < (a->storage == ARRAY_CHUNKED ? a->chunk_count : 0); i++)
        sum += a->chunk[i].offset + a->chunk[i].length;
    for (uint64_t i = 0; i < (a->storage == ARRAY_INLINE ? a->bytes : 0); i++)
        sum += a->inline_data[i];
    return sum;
}

static uint64_t check_all(const struct array_file *f, uint64_t object_size)
{
    uint64_t sum = 0;
    for (int i = 0; i < f->count; i++) {
        PROMISE(array_check(&f->array[i], object_size, NULL) == 0);
        sum = sum * 31 + touch(&f->array[i]);
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct array_file f, again;
    struct fb_error e = {0};
    if (size < 4)
        return 0;
    uint64_t object_size = (uint64_t)data[0] | (uint64_t)data[1] << 8 | (uint64_t)data[2] << 16; /* small: larger ones only cost memory */
    int rc = array_record_read(&f, data + 4, size - 4, object_size, &e);
    PROMISE(rc == 0 ? !e.code : rc == e.code && e.cause[0] && !f.memory && !f.count);
    if (rc < 0)
        return 0;
    uint64_t sum = check_all(&f, object_size);
    size_t n = array_record_write(&f, NULL, 0);
    uint8_t *record = malloc(n);
    PROMISE(record && array_record_write(&f, record, n) == n);
    array_file_free(&f);
    PROMISE(array_record_read(&again, record, n, object_size, &e) == 0);
    PROMISE(check_all(&again, object_size) == sum);
    array_file_free(&again);
    free(record);
    return 0;
}
