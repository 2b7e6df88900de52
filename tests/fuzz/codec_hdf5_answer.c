/* What the HDF5 helper may say: one byte for the question, then the answer, as it comes out of the socket.
 * Promises: a failure has words that are safe to show, and a record that is taken is one that array_record_read has taken. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "codec/hdf5_pool.h"
#include "model/array.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(const struct fb_error *e, int rc)
{
    if (rc != e->code || !e->cause[0])
        abort();
    for (const char *p = e->cause; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            abort();
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
        if (array_record_read(&f, record, n, 1 << 16, &e) < 0)
            check_words(&e, e.code);
        else
            array_file_free(&f);
    }
    free(record);
    return 0;
}
