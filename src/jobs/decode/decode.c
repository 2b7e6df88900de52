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
#include "base/file/file.h"
#include "base/text/text.h"
#include "feed/feed.h"
#include "host/host.h"
#include "io/io.h"
#include "jobs/decode/decode_internal.h"

enum { MEASURE_NS = 700000000, COPY_BYTES = 64 << 20, SKIPPED_NAMED = 1000 };

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
    o.batch_size = DECODE_BATCH;
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
    f.bytes = DECODE_HEADER + f.samples * d->row_bytes;
    f.disk_free = fstatvfs(d->files.dir_fd, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
    f.memory_free = host_memory_available();
    f.threads = d->q->options.threads ? d->q->options.threads : host_cores();
    FB_TRY(decode_rate(d, &f.decode_rate, e));
    if (d->q->foretell)
        d->q->foretell(d->q->ctx, &f);
    if (f.disk_free + d->rows * d->row_bytes >= f.bytes)
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
    char header[DECODE_HEADER];
    if (!catalog_decoded_header(d->rows, d->q->height, d->q->width, header))
        return error_set(e, FB_E_DATA, "pack", "more samples than a header can describe");
    return file_write_all_at(d->fd, header, DECODE_HEADER, 0, e);
}

/* ---- the work ---- */

static int write_row(struct decoding *d, uint64_t sample, const uint8_t *row, struct fb_error *e)
{
    FB_TRY(file_write_all_at(d->fd, row, d->row_bytes, decode_row_at(d, d->rows), e));
    FB_TRY(decode_note(d, sample, row, e));
    return decode_table_add(d, sample, e);
}

/* What the loader found wrong with a file; `path` as its errors have it. */
static void name_left_out(struct decoding *d, const char *path)
{
    struct feed *f = (struct feed *)d->loader;
    const char *cause = f ? "it could not be decoded" : "the run that was interrupted could not decode it";
    if (f)
        pthread_mutex_lock(&f->bad_lock);
    for (uint32_t i = 0; f && i < f->bad_listed; i++)
        if (strcmp(f->bad_list[i].path, path) == 0)
            cause = f->bad_list[i].cause;
    text_printf(&d->skipped, "%s: %s\n", path, cause);
    if (f)
        pthread_mutex_unlock(&f->bad_lock);
}

int decode_leave_out(struct decoding *d, uint64_t sample, struct fb_error *e)
{
    char path[sizeof(e->path)];
    if (d->out->skipped++ >= SKIPPED_NAMED)
        return 0;
    const char *key = catalog_key(d->dataset.catalog, sample, e);
    if (!key)
        return e->code;
    name_left_out(d, text_escape(key, path, sizeof(path)));
    return 0;
}

static int write_batch(struct decoding *d, const fb_batch *b, struct fb_error *e)
{
    const uint8_t *pixels = fb_batch_array(b, 0)->data;
    for (int i = 0; i < fb_batch_size(b); i++) {
        uint64_t sample = d->next + (uint64_t)i;
        if (fb_batch_sample(b, i) != sample) /* a stand-in for a bad one */
            FB_TRY(decode_leave_out(d, sample, e));
        else
            FB_TRY(write_row(d, sample, pixels + (size_t)i * d->row_bytes, e));
    }
    d->next += (uint64_t)fb_batch_size(b);
    return 0;
}

static void tell(struct decoding *d)
{
    uint64_t total = catalog_count(d->dataset.catalog);
    struct pack_progress p = {d->next, total, d->rows * d->row_bytes, total * d->row_bytes, (double)(clock_now_ns() - d->started_ns) / 1e9};
    if (d->q->progress)
        d->q->progress(d->q->ctx, &p);
}

static int write_rows(struct decoding *d, struct fb_error *e)
{
    const fb_options *o = &d->q->options;
    if (fb_start_epoch(d->loader, 1, e) < 0)
        return e->code;
    for (fb_batch *b;;) {
        int rc = fb_next_batch(d->loader, &b, e);
        if (rc <= 0)
            return rc;
        rc = write_batch(d, b, e);
        fb_release_batch(b);
        FB_TRY(rc);
        tell(d);
        if (o->interrupted && o->interrupted(o->ctx))
            return error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
    }
}

/* The old catalog goes first and the new one comes last: at no time does one lie beside pixels that are not its own. */
static int put_in_place(struct decoding *d, struct fb_error *e)
{
    struct log log = {d->q->options.log, d->q->options.ctx};
    char catalog[300];
    snprintf(catalog, sizeof(catalog), "%s.npy.catalog", d->files.stem);
    if (unlinkat(d->files.dir_fd, catalog, 0) < 0 && errno != ENOENT)
        return error_set_errno(e, "pack", errno, "remove the catalog of an older pack");
    FB_TRY(pack_files_place(&d->files, 1, e));
    FB_TRY(decode_table_finish(d, e));
    pack_files_clean(&d->files, 1, &log);
    return 0;
}

static int finish(struct decoding *d, struct fb_error *e)
{
    if (d->rows == 0)
        return error_set(e, FB_E_DATA, "pack", "no picture could be decoded");
    if (ftruncate(d->fd, (off_t)decode_row_at(d, d->rows)) < 0) /* what an interrupted run wrote further behind */
        return error_set_errno(e, "pack", errno, "cut the file");
    FB_TRY(write_header(d, e));
    FB_TRY(file_sync(d->fd, e));
    FB_TRY(decode_table_write(d, e));
    return put_in_place(d, e);
}

static int prepare(struct decoding *d, struct fb_error *e)
{
    const fb_options *o = &d->q->options;
    struct dataset_request r = dataset_request_of(o, io_stores);
    static const char *const beside[] = {".csv", ".npy.catalog", NULL};
    FB_TRY(pack_files_open(&d->files, d->q->output, ".npy", false, d->q->overwrites, e));
    FB_TRY(pack_files_check(&d->files, o->source, beside, e));
    FB_TRY(dataset_open(&d->dataset, &r, e));
    FB_TRY(dataset_refuse_files(&d->dataset, "pack --decode", e));
    if (d->dataset.family != FAMILY_IMAGE)
        return error_set(e, FB_E_USAGE, "pack", "--decode is for pictures");
    d->out->fingerprint = catalog_fingerprint(d->dataset.catalog);
    d->row_bytes = (size_t)d->q->height * d->q->width * 3;
    FB_TRY(decode_table_start(d, e));
    FB_TRY(decode_begin(d, e));
    return open_loader(d, e);
}

/* Rows that were written stay for a later --resume, unless there are none. */
static void end(struct decoding *d, int rc)
{
    d->out->is_kept = rc < 0 && d->rows > 0 && d->files.journal_fd >= 0;
    if (rc < 0 && !d->out->is_kept)
        pack_files_drop(&d->files);
    if (d->fd >= 0)
        close(d->fd);
    if (d->w)
        catalog_writer_discard(d->w);
    fb_close(d->loader);
    dataset_close(&d->dataset);
    pack_files_close(&d->files);
    text_free(&d->csv);
}

int decode_run(const struct decode_request *q, struct pack_result *out, struct fb_error *e)
{
    *out = (struct pack_result){.shards = 1};
    struct decoding d = {.q = q,
                         .out = out,
                         .fd = -1,
                         .csv.limit = UINT64_C(1) << 34,
                         .skipped.limit = 4 << 20,
                         .dataset.root_fd = -1,
                         .started_ns = clock_now_ns()};
    d.files.dir_fd = d.files.journal_fd = -1;
    int rc = prepare(&d, e);
    if (rc == 0)
        rc = foretell(&d, e);
    d.started_ns = clock_now_ns();
    if (rc == 0 && d.next && fb_skip_range(d.loader, 0, d.next / DECODE_BATCH, e) < 0)
        rc = e->code;
    if (rc == 0)
        rc = write_rows(&d, e);
    if (rc == 0)
        rc = finish(&d, e);
    out->skipped_list = d.skipped.data;
    out->samples = d.rows;
    out->bytes = d.rows * d.row_bytes;
    out->pack_bytes = out->bytes + DECODE_HEADER;
    out->seconds = (double)(clock_now_ns() - d.started_ns) / 1e9;
    snprintf(out->name, sizeof(out->name), "%s", q->output);
    end(&d, rc);
    return rc;
}
