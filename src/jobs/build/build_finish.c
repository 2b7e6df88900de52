/* The end of a build: the small columns behind the features, then fullbore-hdf5, which puts HDF5's structure around everything. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/round_up.h"
#include "codec/array/hdf5/hdf5_run.h"
#include "jobs/build/build_internal.h"
#include "model/hdf5/hdf5_adopt.h"

enum { KEY_CHUNK = 4096, COLUMN_LEVEL = 6, COLUMN_BYTES = 1 << 18, SAID = 400 };

/* ---- the description ---- */

struct ending {
    const struct build_plan *p;
    struct build_files *f;
    const struct build_table *t;
    struct build_result *out;
    uint64_t end; /* of the data */
    struct text datasets, attributes;
    uint32_t dataset_count, attribute_count;
};

static const struct build_row *rows_of(const struct ending *x)
{
    return x->t->row.data;
}

static struct hdf5_adopt_dataset dataset_named(const char *name, enum fb_dtype dtype, size_t element, uint64_t rows)
{
    struct hdf5_adopt_dataset d = {.dtype = (uint32_t)dtype, .element_bytes = (uint32_t)element, .ndim = 1, .shape = {rows}};
    snprintf(d.name, sizeof(d.name), "%.63s", name);
    return d;
}

static void add_dataset(struct ending *x, const struct hdf5_adopt_dataset *d)
{
    text_append(&x->datasets, (const char *)d, sizeof(*d));
    x->dataset_count++;
}

static void add_attribute(struct ending *x, uint32_t dataset, const char *name, enum hdf5_adopt_kind kind, const void *value, size_t n)
{
    struct hdf5_adopt_attribute a = {.dataset = dataset, .kind = kind, .value_bytes = (uint32_t)n};
    snprintf(a.name, sizeof(a.name), "%.63s", name);
    text_append(&x->attributes, (const char *)&a, sizeof(a));
    text_append(&x->attributes, value, n);
    x->attribute_count++;
}

static void add_text(struct ending *x, uint32_t dataset, const char *name, const char *value)
{
    size_t n = strlen(value);
    add_attribute(x, dataset, name, HDF5_ADOPT_STRING, value, n < HDF5_ADOPT_TEXT ? n : HDF5_ADOPT_TEXT);
}

static void add_number(struct ending *x, uint32_t dataset, const char *name, int64_t value)
{
    add_attribute(x, dataset, name, HDF5_ADOPT_INT64, &value, sizeof(value));
}

static void add_real(struct ending *x, uint32_t dataset, const char *name, double value)
{
    add_attribute(x, dataset, name, HDF5_ADOPT_FLOAT64, &value, sizeof(value));
}

/* ---- columns ---- */

static void add_features(struct ending *x)
{
    const struct build_plan *p = x->p;
    struct hdf5_adopt_dataset d = dataset_named("features", p->dtype, fb_dtype_size(p->dtype), x->t->rows);
    const struct build_piece *piece = x->t->piece.data;
    for (int i = 0; i < p->ndim; i++)
        d.shape[d.ndim++] = p->shape[i];
    d.chunk_rows = p->chunk_rows;
    d.deflate = (uint32_t)p->q->deflate;
    d.offset = HDF5_ADOPT_FIRST;
    d.chunks = p->chunk_rows ? x->t->pieces : 0;
    add_dataset(x, &d);
    for (uint64_t i = 0; i < d.chunks; i++) {
        struct hdf5_adopt_chunk c = {piece[i].offset, piece[i].length};
        text_append(&x->datasets, (const char *)&c, sizeof(c));
    }
    x->end = x->t->pieces ? piece[x->t->pieces - 1].offset + piece[x->t->pieces - 1].length : HDF5_ADOPT_FIRST;
}

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "build", "no memory for a column");
}

/* A column is written some rows at a time; `last` is the value of the row before, or NULL. */
struct column {
    size_t bytes; /* of a row */
    int number;
    int (*fill)(const struct ending *x, const struct column *c, uint64_t row, const uint8_t *last, uint8_t *out, struct fb_error *e);
};

static int write_column(struct ending *x, const struct column *c, uint8_t *some, uint64_t at_once, struct fb_error *e)
{
    for (uint64_t first = 0, n; first < x->t->rows; first += n) {
        n = x->t->rows - first < at_once ? x->t->rows - first : at_once;
        for (uint64_t i = 0; i < n; i++)
            FB_TRY(c->fill(x, c, first + i, i ? some + (i - 1) * c->bytes : NULL, some + i * c->bytes, e));
        FB_TRY(file_write_all_at(x->f->data_fd, some, n * c->bytes, x->end, e));
        x->end += n * c->bytes;
    }
    return 0;
}

static int add_column(struct ending *x, struct hdf5_adopt_dataset *d, const struct column *c, struct fb_error *e)
{
    uint64_t at_once = c->bytes < COLUMN_BYTES ? COLUMN_BYTES / c->bytes : 1;
    uint8_t *some = malloc(at_once * c->bytes);
    d->offset = x->end = round_up(x->end, 64);
    add_dataset(x, d);
    int rc = some ? write_column(x, c, some, at_once, e) : no_memory(e);
    free(some);
    return rc;
}

static int fill_label(const struct ending *x, const struct column *c, uint64_t row, const uint8_t *last, uint8_t *out, struct fb_error *e)
{
    const struct build_row *r = &rows_of(x)[row];
    if (!last || r->file != r[-1].file)
        return build_labels_get(x->p->labels, c->number, x->p->file[r->file], out, e);
    memcpy(out, last, c->bytes);
    return 0;
}

static int add_labels(struct ending *x, int field, struct fb_error *e)
{
    const struct build_field *f = build_labels_field(x->p->labels, field);
    struct hdf5_adopt_dataset d = dataset_named(f->name, f->dtype, fb_dtype_size(f->dtype), x->t->rows);
    if (f->width)
        d.shape[d.ndim++] = (uint64_t)f->width;
    return add_column(x, &d, &(struct column){.bytes = f->bytes, .number = field, .fill = fill_label}, e);
}

static int fill_segment(const struct ending *x, const struct column *c, uint64_t row, const uint8_t *last, uint8_t *out, struct fb_error *e)
{
    (void)last, (void)e;
    memcpy(out, &rows_of(x)[row].segment, c->bytes); /* little-endian, as everything here */
    return 0;
}

/* As int16 if that will do: small rows should not be outweighed by what is said about them. */
static int add_segments(struct ending *x, struct fb_error *e)
{
    uint64_t rows = x->t->rows;
    uint32_t most = 0;
    for (uint64_t i = 0; i < rows; i++)
        most = rows_of(x)[i].segment > most ? rows_of(x)[i].segment : most;
    size_t element = most <= INT16_MAX ? sizeof(int16_t) : sizeof(int32_t);
    struct hdf5_adopt_dataset d = dataset_named("segment", element == sizeof(int16_t) ? FB_INT16 : FB_INT32, element, rows);
    return add_column(x, &d, &(struct column){.bytes = element, .fill = fill_segment}, e);
}

static int fill_split(const struct ending *x, const struct column *c, uint64_t row, const uint8_t *last, uint8_t *out, struct fb_error *e)
{
    (void)c, (void)last, (void)e;
    *out = (uint8_t)build_split_of(x->p, rows_of(x)[row].file);
    return 0;
}

static int add_splits(struct ending *x, struct fb_error *e)
{
    uint64_t rows = x->t->rows, first = 0;
    struct hdf5_adopt_dataset d = dataset_named("split", FB_UINT8, 1, rows);
    FB_TRY(add_column(x, &d, &(struct column){.bytes = 1, .fill = fill_split}, e));
    for (int s = 0; s < x->p->splits; s++) {
        uint64_t last = first;
        while (last < rows && build_split_of(x->p, rows_of(x)[last].file) == s)
            last++;
        int64_t range[2] = {(int64_t)first, (int64_t)last};
        char name[32];
        snprintf(name, sizeof(name), "rows_%s", build_split_names[s]);
        add_attribute(x, UINT32_MAX, name, HDF5_ADOPT_INT64, range, sizeof(range));
        first = last;
    }
    return 0;
}

/* Texts of one width, deflated: a recording's key stands there for each of its rows. */
struct texts {
    uint64_t count, chunk;
    size_t width;
    const char *(*at)(const struct ending *x, uint64_t i, struct fb_error *e);
};

static const char *key_at(const struct ending *x, uint64_t i, struct fb_error *e)
{
    return catalog_key(x->p->dataset.catalog, x->p->file[rows_of(x)[i].file], e);
}

static const char *class_at(const struct ending *x, uint64_t i, struct fb_error *e)
{
    const char *name = build_labels_class(x->p->labels, (int)i);
    if (!name)
        error_set(e, FB_E_DATA, "build", "the catalog is damaged");
    return name;
}

static int find_width(const struct ending *x, struct texts *t, struct fb_error *e)
{
    const char *last = NULL;
    for (uint64_t i = 0; i < t->count; i++) {
        const char *text = t->at(x, i, e);
        if (!text)
            return FB_E_DATA;
        size_t n = text == last ? 0 : strlen(text);
        t->width = n > t->width ? n : t->width;
        last = text;
    }
    t->width = t->width ? t->width : 1;
    return 0;
}

static int write_texts(struct ending *x, const struct texts *t, struct build_deflate *z, struct hdf5_adopt_chunk *chunk, uint8_t *rows,
                       struct fb_error *e)
{
    size_t bytes = t->chunk * t->width;
    const uint8_t *packed;
    x->end = round_up(x->end, 64);
    for (uint64_t i = 0, c = 0; i < t->count; i += t->chunk, c++) {
        memset(rows, 0, bytes);
        for (uint64_t k = 0; k < t->chunk && i + k < t->count; k++) {
            const char *text = t->at(x, i + k, e);
            if (!text)
                return FB_E_DATA;
            memcpy(rows + k * t->width, text, strlen(text));
        }
        chunk[c] = (struct hdf5_adopt_chunk){x->end, 0};
        FB_TRY(build_deflate_run(z, COLUMN_LEVEL, rows, bytes, t->width, &packed, &chunk[c].length, e));
        FB_TRY(file_write_all_at(x->f->data_fd, packed, chunk[c].length, chunk[c].offset, e));
        x->end += chunk[c].length;
    }
    return 0;
}

static int add_texts(struct ending *x, const char *name, struct texts *t, struct fb_error *e)
{
    FB_TRY(find_width(x, t, e));
    t->chunk = t->count < KEY_CHUNK ? t->count : KEY_CHUNK;
    size_t bytes = t->chunk * t->width;
    uint64_t chunks = (t->count + t->chunk - 1) / t->chunk;
    struct hdf5_adopt_chunk *chunk = malloc(chunks * sizeof(*chunk));
    uint8_t *room = malloc(bytes);
    struct build_deflate z = {0};
    int rc = chunk && room ? write_texts(x, t, &z, chunk, room, e) : no_memory(e);
    build_deflate_free(&z);
    struct hdf5_adopt_dataset d = dataset_named(name, 0, t->width, t->count);
    d.chunk_rows = t->chunk;
    d.deflate = COLUMN_LEVEL;
    d.chunks = chunks;
    if (rc == 0) {
        add_dataset(x, &d);
        text_append(&x->datasets, (const char *)chunk, chunks * sizeof(*chunk));
    }
    free(room);
    free(chunk);
    return rc;
}

static int add_columns(struct ending *x, struct fb_error *e)
{
    struct texts keys = {.count = x->t->rows, .at = key_at};
    struct texts classes = {.count = (uint64_t)build_labels_classes(x->p->labels), .at = class_at};
    add_features(x);
    for (int i = 0; i < build_labels_count(x->p->labels); i++)
        FB_TRY(add_labels(x, i, e));
    FB_TRY(add_segments(x, e));
    if (x->p->splits)
        FB_TRY(add_splits(x, e));
    FB_TRY(add_texts(x, "keys", &keys, e));
    return classes.count ? add_texts(x, "classes", &classes, e) : 0;
}

/* ---- attributes ---- */

/* xxh3 over the rows' own xxh3 in their order. */
static int find_checksum(const struct ending *x, struct fb_error *e)
{
    struct checksum *sum = checksum_open();
    if (!sum)
        return no_memory(e);
    for (uint64_t i = 0; i < x->t->rows; i++)
        checksum_add(sum, &rows_of(x)[i].hash, sizeof(uint64_t));
    x->out->checksum = checksum_value(sum);
    checksum_close(sum);
    return 0;
}

static void describe_features(struct ending *x)
{
    const struct build_plan *p = x->p;
    const struct build_request *q = p->q;
    add_text(x, 0, "kind", q->is_raw ? "raw" : "log_mel");
    add_number(x, 0, "rate", p->rate);
    add_number(x, 0, "samples", (int64_t)p->window);
    add_text(x, 0, "rows", p->is_segmented ? "segments" : p->is_padded ? "beginning" : "whole");
    if (p->is_segmented)
        add_number(x, 0, "stride", (int64_t)p->stride);
    add_number(x, 0, "mono", q->is_mono);
    if (q->is_raw)
        return;
    add_number(x, 0, "n_mels", (int64_t)p->shape[0]);
    add_number(x, 0, "n_fft", q->n_fft ? q->n_fft : 1024);
    add_number(x, 0, "win_length", q->n_fft ? q->n_fft : 1024);
    add_number(x, 0, "hop_length", q->hop_length ? q->hop_length : 256);
    add_real(x, 0, "f_min", q->f_min);
    add_real(x, 0, "f_max", q->f_max > 0 ? q->f_max : p->rate / 2.0);
    add_text(x, 0, "mel_scale", q->is_htk ? "htk" : "slaney");
    add_text(x, 0, "norm", q->is_htk ? "none" : "slaney");
    add_text(x, 0, "window", "hann");
    add_number(x, 0, "center", 1);
    add_text(x, 0, "pad_mode", "constant");
    add_real(x, 0, "power", 2);
    add_text(x, 0, "log", "db");
    add_real(x, 0, "ref", 1);
    add_real(x, 0, "amin", 1e-10);
    add_real(x, 0, "top_db", q->top_db);
    add_text(x, 0, "precision", q->is_exact ? "float64" : "float32");
}

static int describe_all(struct ending *x, struct fb_error *e)
{
    const struct build_request *q = x->p->q;
    char sum[24];
    FB_TRY(find_checksum(x, e));
    snprintf(sum, sizeof(sum), "%016llx", (unsigned long long)x->out->checksum);
    add_text(x, UINT32_MAX, "made_by", "fullbore " FB_VERSION);
    add_text(x, UINT32_MAX, "checksum", sum);
    snprintf(sum, sizeof(sum), "%016llx", (unsigned long long)catalog_fingerprint(x->p->dataset.catalog));
    add_text(x, UINT32_MAX, "source_fingerprint", sum);
    add_text(x, UINT32_MAX, "source", q->options.source); /* as they were given: no path of the machine that nobody wrote */
    add_text(x, UINT32_MAX, "labels_source", !build_labels_count(x->p->labels) ? "none" : q->labels ? q->labels : "source");
    add_number(x, UINT32_MAX, "files", (int64_t)(x->p->files - x->t->bads));
    add_number(x, UINT32_MAX, "files_left_out", (int64_t)x->t->bads);
    if (x->p->splits) {
        double share[BUILD_MAX_SPLITS];
        memcpy(share, q->share, sizeof(share));
        add_attribute(x, UINT32_MAX, "split_shares", HDF5_ADOPT_FLOAT64, share, sizeof(share));
        add_number(x, UINT32_MAX, "split_seed", (int64_t)q->seed);
    }
    describe_features(x);
    return x->datasets.failed || x->attributes.failed ? no_memory(e) : 0;
}

/* ---- the program ---- */

static int write_description(const struct ending *x, int fd, struct fb_error *e)
{
    struct hdf5_adopt h = {.magic = HDF5_ADOPT_MAGIC, .datasets = x->dataset_count, .attributes = x->attribute_count, .end = x->end};
    FB_TRY(file_write_all(fd, &h, sizeof(h), e));
    FB_TRY(file_write_all(fd, x->datasets.data, x->datasets.length, e));
    return file_write_all(fd, x->attributes.data, x->attributes.length, e);
}

/* Lines beginning with "p" are progress; the first other line is the reason why it failed. */
static void take_line(void *ctx, const char *line)
{
    char *said = ctx;
    if (!said[0] && strncmp(line, "p ", 2) != 0)
        snprintf(said, SAID, "%s", line);
}

static int run_program(const struct ending *x, int description, struct fb_error *e)
{
    char said[SAID] = "", how[40];
    const struct hdf5_run r = {.verb = "adopt",
                               .stage = "build",
                               .question_fd = description,
                               .target_fd = x->f->data_fd,
                               .file = x->p->q->output,
                               .line = take_line,
                               .ctx = said};
    int rc = hdf5_run(&r, how, sizeof(how), e);
    if (how[0]) {
        char shown[SAID];
        rc = error_set(e, FB_E_IO, "build", "fullbore-hdf5 could not make the file: %s (%s)",
                       said[0] ? text_escape(said, shown, sizeof(shown)) : "it ended without a message", how);
        error_at(e, x->p->q->output, -1);
    }
    return rc;
}

static int adopt(const struct ending *x, struct fb_error *e)
{
    int description = memfd_create("fullbore-adopt", MFD_CLOEXEC);
    if (description < 0)
        return error_set_errno(e, "build", errno, "talk to fullbore-hdf5");
    int rc = write_description(x, description, e);
    if (rc == 0)
        rc = run_program(x, description, e);
    close(description);
    return rc;
}

int build_finish(const struct build_plan *p, struct build_files *f, const struct build_table *t, struct build_result *out,
                 struct fb_error *e)
{
    struct ending x = {.p = p, .f = f, .t = t, .out = out, .datasets = {.limit = 1 << 30}, .attributes = {.limit = 1 << 20}};
    int rc = add_columns(&x, e);
    if (rc == 0)
        rc = describe_all(&x, e);
    if (rc == 0)
        rc = adopt(&x, e);
    text_free(&x.datasets);
    text_free(&x.attributes);
    return rc;
}
