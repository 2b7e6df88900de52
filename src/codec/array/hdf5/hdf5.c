/* HDF5: a helper program opens the file with libhdf5 and reports where its arrays lie; everything else is done here.
 *
 * The report is a record as array_record_write makes it, and is checked like the file itself. Arrays that only libhdf5 can read
 * (ARRAY_OPAQUE) are read by the helper too, in pieces of at most 16 MiB.
 */
#include <stdlib.h>
#include <string.h>

#include "codec/array/array_format.h"
#include "codec/array/hdf5/hdf5_pool.h"
#include "model/hdf5/hdf5_signature.h"

enum { PIECE_BYTES = 1 << 24 };
static const char matlab[] = "MATLAB 7.3 MAT-f"; /* the user block of such a file, which the signature follows at 512 */

/* Files with other user blocks are found in array_list.c, when no format knows their first bytes. */
static bool is_hdf5(const uint8_t *bytes, size_t n)
{
    return (n >= HDF5_SIGNATURE_BYTES && hdf5_is_signature(bytes)) ||
           (n >= sizeof(matlab) - 1 && memcmp(bytes, matlab, sizeof(matlab) - 1) == 0);
}

static int needs_path(struct fb_error *e)
{
    return error_advise(e, error_set(e, FB_E_UNSUPPORTED, "decode", "HDF5 is read from files only, not from inside archives"),
                        "unpack the archive");
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    uint8_t *record = NULL;
    size_t n = 0;
    memset(out, 0, sizeof(*out));
    if (!s->path)
        return needs_path(e);
    const struct hdf5_question q = {.op = HDF5_DESCRIBE, .path = s->path, .allows_external = s->allows_external};
    int rc = hdf5_ask(&q, &record, &n, NULL, e);
    if (rc == 0)
        rc = array_record_read(out, record, n, s->size, e);
    free(record);
    if (rc == 0 && strcmp(out->format, "hdf5") != 0) {
        array_file_free(out);
        rc = error_set(e, FB_E_DATA, "decode", "the HDF5 helper reports another format");
    }
    if (rc < 0)
        error_at(e, s->path, -1);
    return rc;
}

static int read_rows(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows, void *out,
                     struct fb_error *e)
{
    uint64_t row_bytes = array_row_bytes(a), step = row_bytes ? PIECE_BYTES / row_bytes : rows;
    if (!s->path)
        return needs_path(e);
    if (first > array_rows(a) || rows > array_rows(a) - first)
        return error_set(e, FB_E_USAGE, "decode", "rows beyond the end of the array were asked for");
    if (row_bytes > HDF5_MAX_ROWS)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "rows of %llu bytes are more than the HDF5 helper may send",
                         (unsigned long long)row_bytes);
    for (uint64_t done = 0, some; done < rows && row_bytes; done += some) {
        some = step < 1 ? 1 : step < rows - done ? step : rows - done;
        const struct hdf5_question q = {.op = HDF5_ROWS,
                                        .path = s->path,
                                        .name = a->name,
                                        .allows_external = s->allows_external,
                                        .first = first + done,
                                        .rows = some,
                                        .bytes = some * row_bytes};
        int rc = hdf5_ask(&q, NULL, NULL, (uint8_t *)out + done * row_bytes, e);
        if (rc < 0) {
            error_at(e, s->path, -1);
            return rc;
        }
    }
    return 0;
}

const struct array_ops array_hdf5 = {.name = "hdf5", .probe = is_hdf5, .describe = describe, .read_rows = read_rows};
