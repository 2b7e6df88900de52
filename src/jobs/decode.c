#include "jobs/decode.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "dataset/dataset.h"
#include "host/host.h"
#include "jobs/write_all.h"

enum { BATCH = 64, HEADER_BYTES = 128, MEASURE_NS = 700000000, COPY_BYTES = 64 << 20, NAMED = 1000 };

struct decoding {
    const struct decode_request *q;
    struct pack_result *out;
    struct dataset dataset;
    fb_loader *loader;
    size_t row_bytes;
    char *part, *csv_part, *catalog;  /* paths */
    int fd;
    struct text csv;
    struct catalog_writer *w;
    uint64_t started_ns, rows;
};

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "pack", "no memory");
}

/* ---- the pictures ---- */

static void spec_of(const struct decode_request *q, char *out, size_t out_size)
{
    const char *fit = q->fit == DECODE_CROP ? " fit=cover" : q->fit == DECODE_PAD ? " fit=inside" : "";
    int n = snprintf(out, out_size, "resize size=%u,%u%s", q->height, q->width, fit);
    if (q->fit != DECODE_STRETCH)
        snprintf(out + n, out_size - (size_t)n, "; center_crop size=%u,%u", q->height, q->width);
}

static int open_loader(struct decoding *d, struct fb_error *e)
{
    char spec[200];
    spec_of(d->q, spec, sizeof(spec));
    fb_options o = d->q->options;
    o.batch_size = BATCH;
    o.transforms = spec;
    o.dtype = FB_UINT8;
    o.layout = FB_NHWC;
    o.shuffle = 0;
    o.rank = 0;
    o.world_size = 1;
    o.on_error = d->q->skips_bad ? FB_SKIP : FB_RAISE;
    return fb_open(&o, &d->loader, e);
}

/* ---- what it will cost and buy ---- */

static double copy_rate(size_t row_bytes)
{
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    double rate = 0;
    if (from && to) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_BYTES);
        uint64_t since = clock_now_ns();
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" : : "r"(to) : "memory"); /* or nobody would copy */
        rate = (double)COPY_BYTES / (double)row_bytes / ((double)(clock_now_ns() - since + 1) / 1e9);
    }
    free(from);
    free(to);
    return rate;
}

/* A part of a shuffled epoch: what a training loop would get now. */
static int decode_rate(struct decoding *d, double *rate, struct fb_error *e)
{
    uint64_t first_ns = 0, samples = 0, now = 0;
    fb_batch *b;
    FB_TRY((int)fb_start_epoch(d->loader, 0, e) < 0 ? e->code : 0);
    for (int rc; (rc = fb_next_batch(d->loader, &b, e)) != 0;) {
        if (rc < 0)
            return rc;
        now = clock_now_ns();
        samples += first_ns ? (uint64_t)fb_batch_size(b) : 0;
        first_ns = first_ns ? first_ns : now;
        fb_release_batch(b);
        if (now - first_ns > MEASURE_NS)
            break;
    }
    *rate = now > first_ns ? (double)samples / ((double)(now - first_ns) / 1e9) : 0;
    return 0;
}

static int foretell(struct decoding *d, struct fb_error *e)
{
    struct decode_forecast f = {.samples = catalog_count(d->dataset.catalog), .copy_rate = copy_rate(d->row_bytes)};
    struct statvfs v;
    f.bytes = HEADER_BYTES + f.samples * d->row_bytes;
    f.disk_free = fstatvfs(d->fd, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
    f.memory_free = host_memory_available();
    f.threads = d->q->options.threads ? d->q->options.threads : host_cores();
    FB_TRY(decode_rate(d, &f.decode_rate, e));
    if (d->q->foretell)
        d->q->foretell(d->q->ctx, &f);
    if (f.disk_free >= f.bytes)
        return 0;
    char need[32], there[32];
    error_set(e, FB_E_IO, "pack", "the decoded pictures need %s, but only %s are free there", text_size(f.bytes, need, sizeof(need)),
              text_size(f.disk_free, there, sizeof(there)));
    error_remedy(e, "free some space, choose a smaller size, or another place");
    error_at(e, d->q->output, -1);
    if (e)
        e->sys_errno = ENOSPC;
    return FB_E_IO;
}

/* ---- the files ---- */

static int write_header(struct decoding *d, struct fb_error *e)
{
    char header[HEADER_BYTES + 1], dict[112];
    int n = snprintf(dict, sizeof(dict), "{'descr': '|u1', 'fortran_order': False, 'shape': (%llu, %u, %u, 3), }", (unsigned long long)d->rows,
                     d->q->height, d->q->width);
    snprintf(header, sizeof(header), "%c%s%c%c%c%c%-*s\n", 0x93, "NUMPY", 1, 0, HEADER_BYTES - 10, 0, HEADER_BYTES - 11, dict);
    header[7] = 0;
    header[9] = 0;
    if (n >= HEADER_BYTES - 10)
        return error_set(e, FB_E_DATA, "pack", "more samples than a header can say");
    return write_all_at(d->fd, header, HEADER_BYTES, 0, e);
}

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

/* A row that was written: its name and labels. */
static int note_row(struct decoding *d, uint64_t sample, struct fb_error *e)
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
    struct catalog_sample row = {.key = s.key, .object = "pixels", .offset = HEADER_BYTES + d->rows * d->row_bytes, .length = d->row_bytes,
                                 .object_size = UINT64_MAX / 2};
    d->rows++;
    return catalog_add_sample(d->w, &row, value, e);
}

static int start_catalog(struct decoding *d, struct fb_error *e)
{
    const struct catalog *c = d->dataset.catalog;
    char size[64];
    FB_TRY(catalog_writer_open(&d->w, e));
    snprintf(size, sizeof(size), "%u %u", d->q->height, d->q->width);
    FB_TRY(catalog_add_note(d->w, "decoded", size, e));
    for (int i = 0; i < catalog_field_count(c); i++)
        FB_TRY(catalog_add_field(d->w, catalog_field(c, i), e));
    for (int i = 0; i < catalog_class_count(c); i++)
        FB_TRY(catalog_add_class(d->w, catalog_class_name(c, i), e) < 0 ? e->code : 0);
    return 0;
}

/* ---- the work ---- */

static int write_batch(struct decoding *d, const fb_batch *b, uint64_t first, struct fb_error *e)
{
    const uint8_t *pixels = fb_batch_array(b, 0)->data;
    for (int i = 0; i < fb_batch_size(b); i++) {
        uint64_t sample = first + (uint64_t)i;
        if (fb_batch_sample(b, i) != sample) { /* a stand-in for a bad one */
            d->out->skipped++;
            continue;
        }
        FB_TRY(write_all_at(d->fd, pixels + (size_t)i * d->row_bytes, d->row_bytes, HEADER_BYTES + d->rows * d->row_bytes, e));
        FB_TRY(note_row(d, sample, e));
    }
    return 0;
}

static void tell(struct decoding *d)
{
    uint64_t total = catalog_count(d->dataset.catalog);
    struct pack_progress p = {d->rows, total, d->rows * d->row_bytes, total * d->row_bytes, (double)(clock_now_ns() - d->started_ns) / 1e9};
    if (d->q->progress)
        d->q->progress(d->q->ctx, &p);
}

static int write_rows(struct decoding *d, struct fb_error *e)
{
    if (fb_start_epoch(d->loader, 1, e) < 0)
        return e->code;
    put_names(d);
    uint64_t first = 0;
    for (fb_batch *b;;) {
        int rc = fb_next_batch(d->loader, &b, e);
        if (rc <= 0)
            return rc;
        rc = write_batch(d, b, first, e);
        first += (uint64_t)fb_batch_size(b);
        fb_release_batch(b);
        FB_TRY(rc);
        tell(d);
        const fb_options *o = &d->q->options;
        if (o->interrupted && o->interrupted(o->ctx))
            return error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
    }
}

static int write_csv(struct decoding *d, struct fb_error *e)
{
    if (d->csv.failed)
        return no_memory(e);
    int fd = open(d->csv_part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return error_set_errno(e, "pack", errno, "make the table of names");
    int rc = write_all(fd, d->csv.data, d->csv.length, e);
    if (rc == 0)
        rc = write_sync(fd, e);
    close(fd);
    return rc;
}

static int rename_to(const char *from, const char *to, struct fb_error *e)
{
    return rename(from, to) == 0 ? 0 : error_set_errno(e, "pack", errno, "put a finished file in place");
}

/* The old catalog goes first and the new one comes last: at no time does one lie beside pixels that are not its own. */
static int put_in_place(struct decoding *d, struct fb_error *e)
{
    char csv[4352];
    snprintf(csv, sizeof(csv), "%.*scsv", (int)(strlen(d->q->output) - 3), d->q->output);
    if (unlink(d->catalog) < 0 && errno != ENOENT)
        return error_set_errno(e, "pack", errno, "remove the catalog of an older pack");
    FB_TRY(rename_to(d->part, d->q->output, e));
    FB_TRY(rename_to(d->csv_part, csv, e));
    int rc = catalog_finish(d->w, d->catalog, NULL, e); /* syncs the folder as well */
    d->w = NULL;
    struct stat st;
    if (rc == 0 && fstat(d->fd, &st) == 0)
        chmod(d->catalog, st.st_mode & 0777); /* whoever may read the pixels may read their names */
    return rc;
}

static int finish(struct decoding *d, struct fb_error *e)
{
    if (d->rows == 0)
        return error_set(e, FB_E_DATA, "pack", "not one picture could be decoded");
    FB_TRY(write_header(d, e));
    FB_TRY(write_sync(d->fd, e));
    FB_TRY(write_csv(d, e));
    return put_in_place(d, e);
}

static int prepare(struct decoding *d, struct fb_error *e)
{
    const fb_options *o = &d->q->options;
    struct dataset_request r = {.source = o->source, .catalog_dir = o->catalog_dir, .progress = o->progress, .interrupted = o->interrupted,
                                .ctx = o->ctx, .log = {o->log, o->ctx}};
    size_t n = strlen(d->q->output);
    if (n < 5 || strcmp(d->q->output + n - 4, ".npy") != 0)
        return error_set(e, FB_E_USAGE, "pack", "decoded pictures go into a file that ends in .npy");
    if (asprintf(&d->part, "%s.%d.partial", d->q->output, (int)getpid()) < 0 || asprintf(&d->csv_part, "%s.csv", d->part) < 0 ||
        asprintf(&d->catalog, "%s.catalog", d->q->output) < 0)
        return no_memory(e);
    FB_TRY(dataset_open(&d->dataset, &r, e));
    if (d->dataset.family != FAMILY_IMAGE)
        return error_set(e, FB_E_USAGE, "pack", "--decode is for pictures");
    d->out->fingerprint = catalog_fingerprint(d->dataset.catalog);
    d->row_bytes = (size_t)d->q->height * d->q->width * 3;
    d->fd = open(d->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (d->fd < 0) {
        int rc = error_set_errno(e, "pack", errno, "make the file");
        error_at(e, d->q->output, -1);
        return rc;
    }
    FB_TRY(start_catalog(d, e));
    return open_loader(d, e);
}

static void end(struct decoding *d)
{
    if (d->fd >= 0)
        close(d->fd);
    if (d->part)
        unlink(d->part); /* gone already if it was put in place */
    if (d->csv_part)
        unlink(d->csv_part);
    if (d->w)
        catalog_writer_discard(d->w);
    fb_close(d->loader);
    dataset_close(&d->dataset);
    text_free(&d->csv);
    free(d->part);
    free(d->csv_part);
    free(d->catalog);
}

int decode_run(const struct decode_request *q, struct pack_result *out, struct fb_error *e)
{
    *out = (struct pack_result){.shards = 1};
    struct decoding d = {.q = q, .out = out, .fd = -1, .csv.limit = UINT64_C(1) << 34, .dataset.root_fd = -1, .started_ns = clock_now_ns()};
    int rc = prepare(&d, e);
    if (rc == 0)
        rc = foretell(&d, e);
    d.started_ns = clock_now_ns();
    if (rc == 0)
        rc = write_rows(&d, e);
    if (rc == 0)
        rc = finish(&d, e);
    out->samples = d.rows;
    out->bytes = d.rows * d.row_bytes;
    out->pack_bytes = out->bytes + HEADER_BYTES;
    out->seconds = (double)(clock_now_ns() - d.started_ns) / 1e9;
    snprintf(out->name, sizeof(out->name), "%s", q->output);
    end(&d);
    return rc;
}
