/* What the HDF5 helper may say: one byte for the question, then the answer, as it comes out of the socket.
 * Promises: a failure has words that are safe to show, and a record that is taken is one that array_record_read has taken: every byte lies
 * inside the file, and no size overflows, not even when its numbers become wider. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "codec/array/hdf5/hdf5_pool.h"
#include "model/array/array.h"

enum { OBJECT_SIZE = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(const struct fb_error *e, int rc)
{
    if (rc != e->code || !e->cause[0])
        abort();
    for (const char *p = e->cause; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            abort();
}

static void check_inside(uint64_t offset, uint64_t length)
{
    if (offset > OBJECT_SIZE || length > OBJECT_SIZE - offset)
        abort();
}

static void check_array(const struct array_layout *a)
{
    uint64_t bytes = 8;
    for (int d = 0; d < a->ndim; d++)
        if (__builtin_mul_overflow(bytes, a->shape[d] ? a->shape[d] : 1, &bytes))
            abort();
    if (a->ndim > ARRAY_MAX_DIMS)
        abort();
    if (a->storage == ARRAY_CONTIGUOUS)
        check_inside(a->offset, a->bytes);
    for (uint64_t i = 0; a->storage == ARRAY_CHUNKED && i < a->chunk_count; i++)
        if (a->chunk[i].offset != ARRAY_NO_CHUNK)
            check_inside(a->chunk[i].offset, a->chunk[i].length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    uint8_t *record = NULL, rows[256];
    size_t n = 0;
    bool is_broken;
    struct fb_error e = {0};
    struct array_file f;
    if (size < 1 || size > 60000 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        return 0;
    if (write(ends[1], data + 1, size - 1) != (ssize_t)(size - 1))
        abort();
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct hdf5_question q = {.op = data[0] & 1 ? HDF5_ROWS : HDF5_DESCRIBE, .bytes = data[0] >> 1};
    int rc = hdf5_take_answer(ends[0], clock_now_ns() + 1000000000, &q, &record, &n, rows, &is_broken, &e);
    close(ends[0]);
    if (rc < 0)
        check_words(&e, rc);
    if (rc == 0 && q.op == HDF5_DESCRIBE) {
        if (array_record_read(&f, record, n, OBJECT_SIZE, &e) < 0)
            check_words(&e, e.code);
        for (int i = 0; i < f.count; i++)
            check_array(&f.array[i]);
        array_file_free(&f);
    }
    free(record);
    return 0;
}
