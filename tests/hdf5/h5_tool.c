/* Describes HDF5 files and prints rows, for test_*.py to compare with h5py.
 *
 * Commands on standard input, one a line:
 *   open ALLOWS_EXTERNAL PATH   "arrays N RECORD_BYTES", then a line for each: storage, dtype, code, shape, chunk shape, chunks, filters,
 * straight,
 *                               name and reason, with tabs between
 *   rows INDEX FIRST ROWS       "rows BYTES", then the bytes as stored
 * A failure is "error CODE" and the formatted error. Every description goes through its record before it is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text/text.h"
#include "codec/array/array_format.h"
#include "codec/array/array_rows.h"
#include "codec/array/hdf5/decompress.h"

static struct array_file file;
static struct array_source source;
static int fd = -1;
static char path[4096];
static struct decompress work;

static void fail(const struct fb_error *e)
{
    char line[2400];
    fb_format_error(e, line, sizeof(line));
    printf("error %d %s\n", e->code, line);
    fflush(stdout);
}

static int read_at(uint64_t offset, uint64_t length, void *out, struct fb_error *e)
{
    ssize_t n = pread(fd, out, length, (off_t)offset);
    return n == (ssize_t)length ? 0 : error_set(e, FB_E_IO, "read", "%zd of %llu bytes", n, (unsigned long long)length);
}

static void print_sides(const uint64_t *side, int ndim)
{
    for (int d = 0; d < ndim; d++)
        printf("%s%llu", d ? "," : "", (unsigned long long)side[d]);
    putchar('\t');
}

static void print_array(const struct array_layout *a)
{
    static const char *const storages[] = {"contiguous", "chunked", "inline", "opaque"};
    printf("%s\t%s\t%d\t", storages[a->storage], fb_dtype_name(a->dtype), a->code);
    print_sides(a->shape, a->ndim);
    print_sides(a->chunk_shape, a->storage == ARRAY_CHUNKED ? a->ndim : 0);
    printf("%llu\t", (unsigned long long)a->chunk_count);
    for (int i = 0; i < a->filter_count; i++)
        printf("%s%u", i ? "," : "", a->filter[i].id);
    char name[4 * ARRAY_NAME_BYTES];
    printf("\t%d\t%s\t%s\n", a->storage != ARRAY_OPAQUE && array_is_straight(a), text_escape(a->name, name, sizeof(name)), a->why_opaque);
}

static int by_record(struct fb_error *e, size_t *bytes)
{
    struct array_file again;
    size_t n = array_record_write(&file, NULL, 0);
    uint8_t *record = malloc(n);
    if (!record || array_record_write(&file, record, n) != n)
        abort();
    array_file_free(&file);
    int rc = array_record_read(&again, record, n, source.size, e);
    free(record);
    file = again;
    *bytes = n;
    return rc;
}

static void open_file(const char *name, bool allows_external)
{
    struct fb_error e = {0};
    struct stat st;
    uint8_t head[4096];
    size_t record = 0;
    array_file_free(&file);
    if (fd >= 0)
        close(fd);
    snprintf(path, sizeof(path), "%s", name);
    fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0) {
        error_set_errno(&e, "read", errno, "open it");
        fail(&e);
        return;
    }
    source = (struct array_source){.path = path, .size = (uint64_t)st.st_size, .allows_external = allows_external};
    ssize_t n = pread(fd, head, sizeof(head), 0);
    const struct array_ops *ops = array_find_format(head, n > 0 ? (size_t)n : 0);
    if (!ops || strcmp(ops->name, "hdf5") != 0)
        ops = array_format_by_name("hdf5"); /* a truncated one, say: what does it answer? */
    if (ops->describe(&source, &file, &e) < 0 || by_record(&e, &record) < 0) {
        fail(&e);
        return;
    }
    printf("arrays %d %zu\n", file.count, record);
    for (int i = 0; i < file.count; i++)
        print_array(&file.array[i]);
    fflush(stdout);
}

static int straight_rows(const struct array_layout *a, uint64_t first, uint64_t rows, uint8_t *out, struct fb_error *e)
{
    struct array_runs r;
    struct array_run run;
    array_runs_start(&r, a, first, rows);
    while (array_runs_next(&r, &run))
        if (run.offset == ARRAY_NO_CHUNK)
            array_fill(a, out + run.at, run.length);
        else
            FB_TRY(read_at(run.offset, run.length, out + run.at, e));
    return 0;
}

static int chunk_rows(const struct array_layout *a, uint64_t chunk, uint64_t first, uint64_t rows, uint8_t *out, struct fb_error *e)
{
    const struct array_chunk *c = &a->chunk[chunk];
    if (c->offset == ARRAY_NO_CHUNK) {
        array_copy_from_chunk(a, chunk, NULL, first, rows, out);
        return 0;
    }
    uint8_t *stored = malloc(c->length ? c->length : 1), *data = malloc(decompressed_chunk_bytes(a));
    int rc = !stored || !data ? FB_E_NOMEM : read_at(c->offset, c->length, stored, e);
    if (rc == 0)
        rc = decompress_chunk(&work, a, c->skips, stored, c->length, data, e);
    if (rc == 0)
        array_copy_from_chunk(a, chunk, data, first, rows, out);
    free(stored);
    free(data);
    return rc;
}

static int rows_of(const struct array_layout *a, uint64_t first, uint64_t rows, uint8_t *out, struct fb_error *e)
{
    uint64_t chunk, count;
    if (a->storage == ARRAY_OPAQUE)
        return array_format_by_name("hdf5")->read_rows(&source, a, first, rows, out, e);
    if (a->storage == ARRAY_INLINE) {
        array_copy_from_whole(a, a->inline_data, first, rows, out);
        return 0;
    }
    if (array_is_straight(a))
        return straight_rows(a, first, rows, out, e);
    array_chunks_of_rows(a, first, rows, &chunk, &count);
    for (uint64_t i = 0; i < count; i++)
        FB_TRY(chunk_rows(a, chunk + i, first, rows, out, e));
    return 0;
}

static void print_rows(int index, uint64_t first, uint64_t rows)
{
    struct fb_error e = {0};
    const struct array_layout *a = &file.array[index];
    if (index >= file.count || first > array_rows(a) || rows > array_rows(a) - first)
        abort();
    uint64_t bytes = rows * array_row_bytes(a);
    uint8_t *out = malloc(bytes + 1);
    if (!out)
        abort();
    if (rows_of(a, first, rows, out, &e) < 0) {
        fail(&e);
    } else {
        printf("rows %llu\n", (unsigned long long)bytes);
        fwrite(out, 1, bytes, stdout);
        fflush(stdout);
    }
    free(out);
}

int main(void)
{
    char line[5000], name[4096];
    int index, allows;
    unsigned long long first, rows;
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "open %d %4095[^\n]", &allows, name) == 2)
            open_file(name, allows);
        else if (sscanf(line, "rows %d %llu %llu", &index, &first, &rows) == 3)
            print_rows(index, first, rows);
        else
            return 2;
    }
    array_file_free(&file);
    decompress_free(&work);
    return 0;
}
