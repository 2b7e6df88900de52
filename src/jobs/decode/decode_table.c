/* Names and labels of decoded pictures: a CSV for people, a catalog for fullbore. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "jobs/decode/decode_internal.h"
#include "model/catalog/catalog_writer.h"

/* CSV's quoting, for every field that could need it. */
static void put_cell(struct text *t, const char *cell)
{
    if (!strpbrk(cell, ",\"\r\n")) {
        text_append(t, cell, strlen(cell));
        return;
    }
    text_append(t, "\"", 1);
    for (; *cell; cell++)
        text_append(t, *cell == '"' ? "\"\"" : cell, *cell == '"' ? 2 : 1);
    text_append(t, "\"", 1);
}

static double number_at(const void *value, enum fb_dtype dtype, int64_t i)
{
    const char *at = (const char *)value + (size_t)i * fb_dtype_size(dtype);
    float f32;
    double f64;
    int64_t i64 = 0;
    switch (dtype) {
    case FB_FLOAT32: memcpy(&f32, at, 4); return (double)f32;
    case FB_FLOAT64: memcpy(&f64, at, 8); return f64;
    default: memcpy(&i64, at, fb_dtype_size(dtype)); return (double)i64;
    }
}

static void put_label(struct text *t, const struct catalog *c, const struct catalog_field *f, const void *value)
{
    int64_t count = f->ndim ? f->shape[0] : 1;
    if (f->is_class) {
        int64_t label;
        memcpy(&label, value, sizeof(label));
        put_cell(t, catalog_class_name(c, (int)label));
        return;
    }
    for (int64_t i = 0; i < count; i++)
        text_printf(t, "%s%.17g", i ? " " : "", number_at(value, f->dtype, i));
}

static void put_names(struct decoding *d)
{
    const struct catalog *c = d->dataset.catalog;
    text_printf(&d->csv, "path");
    for (int i = 0; i < catalog_field_count(c); i++) {
        text_append(&d->csv, ",", 1);
        put_cell(&d->csv, catalog_field(c, i)->name);
    }
    text_append(&d->csv, "\n", 1);
}

int decode_table_add(struct decoding *d, uint64_t sample, struct fb_error *e)
{
    const struct catalog *c = d->dataset.catalog;
    struct catalog_sample s;
    const void *value[FB_MAX_FIELDS];
    FB_TRY(catalog_sample(c, sample, &s, e));
    put_cell(&d->csv, s.key);
    for (int i = 0; i < catalog_field_count(c); i++) {
        value[i] = catalog_value(c, sample, i, e);
        if (!value[i])
            return FB_E_DATA;
        text_append(&d->csv, ",", 1);
        put_label(&d->csv, c, catalog_field(c, i), value[i]);
    }
    text_append(&d->csv, "\n", 1);
    struct catalog_sample row = {
        .key = s.key, .object = "pixels", .offset = decode_row_at(d, d->rows), .length = d->row_bytes, .object_size = UINT64_MAX / 2};
    d->rows++;
    return catalog_add_sample(d->w, &row, value, e);
}

int decode_table_start(struct decoding *d, struct fb_error *e)
{
    const struct catalog *c = d->dataset.catalog;
    char size[64];
    put_names(d);
    FB_TRY(catalog_writer_open(&d->w, e));
    d->w->made_ns = 0; /* equal data gives equal files */
    snprintf(size, sizeof(size), "%u %u", d->q->height, d->q->width);
    FB_TRY(catalog_add_note(d->w, "decoded", size, e));
    return catalog_add_fields_of(d->w, c, e);
}

/* ---- the files ---- */

/* Beginning and end like the shards of the run, so that whoever cleans up after it finds it. */
static void partial_name(const struct decoding *d, char *out, size_t out_size)
{
    snprintf(out, out_size, ".%s.csv.%s.partial", d->files.stem, d->files.run);
}

int decode_table_write(struct decoding *d, struct fb_error *e)
{
    char name[300];
    partial_name(d, name, sizeof(name));
    if (d->csv.failed)
        return error_set(e, FB_E_NOMEM, "pack", "no memory for the table of names");
    int fd = openat(d->files.dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return error_set_errno(e, "pack", errno, "make the table of names");
    int rc = file_write_all(fd, d->csv.data, d->csv.length, e);
    if (rc == 0)
        rc = file_sync(fd, e);
    close(fd);
    return rc;
}

int decode_table_finish(struct decoding *d, struct fb_error *e)
{
    char from[300], to[300], *catalog = NULL;
    partial_name(d, from, sizeof(from));
    snprintf(to, sizeof(to), "%s.csv", d->files.stem);
    FB_TRY(pack_files_rename(&d->files, from, to, e));
    if (asprintf(&catalog, "%s.catalog", d->q->output) < 0)
        return error_set(e, FB_E_NOMEM, "pack", "no memory");
    int rc = catalog_finish(d->w, catalog, NULL, e); /* syncs the folder as well */
    d->w = NULL;
    struct stat st;
    if (rc == 0 && fstat(d->fd, &st) == 0)
        chmod(catalog, st.st_mode & 0777); /* whoever may read the pixels may read their names */
    free(catalog);
    return rc;
}
