/* floor_rows: threads that read rows of one open file in random order into batches, which are filled again and again. Nothing else.
 *
 *     floor_rows FILE ROW_BYTES OFFSETS THREADS PASSES BATCH_SIZE [BATCHES]
 *
 * BATCHES (1 unless given) are filled in turn. What is beyond the processor's caches costs more to write to; nobody who hands out one batch
 * while the next is filled can do with one.
 * OFFSETS is a file of 64-bit numbers, one for each row: where it lies in FILE. A first pass warms up. Prints one JSON object.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "floor_bare.h"

enum { AT_ONCE = 64 };

static struct {
    int fd;
    const char *path;
    uint64_t row_bytes, rows, total, batch;
    uint64_t *offset;
    uint8_t *memory;
    _Atomic uint64_t next;
} f;

static void *body(void *arg)
{
    (void)arg;
    for (uint64_t first; (first = atomic_fetch_add(&f.next, AT_ONCE)) < f.total;)
        for (uint64_t i = first; i < first + AT_ONCE && i < f.total; i++)
            read_all(f.fd, f.memory + i % f.batch * f.row_bytes, f.row_bytes, f.offset[i % f.rows], f.path);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 7 && argc != 8)
        die("usage: floor_rows FILE ROW_BYTES OFFSETS THREADS PASSES BATCH_SIZE [BATCHES]");
    struct stat st;
    int list = open(argv[3], O_RDONLY);
    f.path = argv[1];
    f.fd = open(f.path, O_RDONLY);
    if (f.fd < 0 || list < 0 || fstat(list, &st) < 0)
        die("%s or %s: %s", argv[1], argv[3], strerror(errno));
    f.row_bytes = strtoull(argv[2], NULL, 10);
    f.rows = (uint64_t)st.st_size / 8;
    f.batch = strtoull(argv[6], NULL, 10) * (argc > 7 ? strtoull(argv[7], NULL, 10) : 1);
    f.offset = need((size_t)st.st_size);
    f.memory = need(f.batch * f.row_bytes);
    read_all(list, f.offset, (uint64_t)st.st_size, 0, argv[3]);
    shuffle(f.offset, f.rows);
    f.total = f.rows;
    body(NULL);
    f.total = f.rows * strtoull(argv[5], NULL, 10);
    atomic_store(&f.next, 0);
    run_and_print(body, NULL, atoi(argv[4]), f.total);
    return 0;
}
