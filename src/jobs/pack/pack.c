#include "jobs/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "host/host.h"
#include "io/io.h"
#include "jobs/pack/pack_internal.h"

static const uint64_t close_ns = 1000000000;
enum { SKIPPED_NAMED = 1000, LEAST_THREADS = 2, MOST_THREADS = 16, STORE_THREADS = 48, LEAST_SHARD = 64 << 10 };

static struct dataset_request request_of(const fb_options *o)
{
    return (struct dataset_request){.source = o->source,
                                    .catalog_dir = o->catalog_dir,
                                    .progress = o->progress,
                                    .interrupted = o->interrupted,
                                    .ctx = o->ctx,
                                    .log = {o->log, o->ctx},
                                    .stores = io_stores};
}

/* ---- before ---- */

static int check_request(const struct pack_request *q, struct fb_error *e)
{
    if (q->shard_bytes && q->shard_bytes < LEAST_SHARD)
        return error_set(e, FB_E_USAGE, "pack", "a shard must have at least %d bytes", LEAST_SHARD);
    if (q->shorter && (q->shorter < 1 || q->shorter > 65500 || q->quality < 1 || q->quality > 100))
        return error_set(e, FB_E_USAGE, "pack", "pictures have 1 to 65500 pixels and a quality of 1 to 100");
    return 0;
}

static int sum_bytes(struct packing *p, struct fb_error *e)
{
    for (uint64_t i = 0; i < catalog_count(p->dataset.catalog); i++) {
        struct catalog_sample s;
        FB_TRY(catalog_sample(p->dataset.catalog, i, &s, e));
        p->bytes_total += s.length;
    }
    return 0;
}

/* Better now than after an hour. The estimate leaves out padding and index, so it refuses only what cannot work. */
static int check_space(const struct packing *p, struct fb_error *e)
{
    struct statvfs v;
    if (fstatvfs(p->files.dir_fd, &v) < 0 || p->q->shorter || p->out->bytes >= p->bytes_total)
        return 0;
    uint64_t free_bytes = (uint64_t)v.f_bavail * v.f_frsize, need = p->bytes_total - p->out->bytes;
    if (free_bytes >= need)
        return 0;
    char a[32], b[32];
    error_set(e, FB_E_IO, "pack", "the pack needs at least %s, but only %s are free there", text_size(need, a, sizeof(a)),
              text_size(free_bytes, b, sizeof(b)));
    if (e)
        e->sys_errno = ENOSPC;
    error_remedy(e, "free some space, or choose another place for it");
    error_at(e, p->files.path, -1);
    return FB_E_IO;
}

static int prepare(struct packing *p, struct fb_error *e)
{
    const fb_options *o = &p->q->options;
    struct dataset_request r = request_of(o);
    FB_TRY(check_request(p->q, e));
    FB_TRY(pack_files_open(&p->files, p->q->output, ".tar", p->q->shard_bytes != 0, p->q->overwrites, e));
    FB_TRY(pack_files_check(&p->files, o->source, NULL, e));
    FB_TRY(dataset_open(&p->dataset, &r, e));
    FB_TRY(dataset_refuse_files(&p->dataset, "pack", e));
    p->out->fingerprint = catalog_fingerprint(p->dataset.catalog);
    FB_TRY(sum_bytes(p, e));
    FB_TRY(pack_names_open(&p->names, p->dataset.catalog, e));
    p->source = (struct pack_source){&p->dataset, &p->names, p->q->skips_bad, {p->q->shorter, p->q->quality}, NULL};
    if (p->dataset.root_fd < 0)
        FB_TRY(io_open(&p->source.io, p->dataset.io, STORE_THREADS, &r.log, e));
    atomic_store(&p->budget.limit, UINT64_C(1) << 30);
    struct stat st;
    if (!p->q->shorter && p->dataset.learnt_dir && stat(p->dataset.learnt_dir, &st) == 0)
        learnt_open(&p->learnt, p->dataset.learnt_dir, &p->budget, &r.log);
    FB_TRY(packing_begin(p, e));
    return check_space(p, e);
}

/* ---- all records ---- */

static void tell(struct packing *p)
{
    struct pack_progress now = {p->next, catalog_count(p->dataset.catalog), p->out->bytes, p->bytes_total,
                                (double)(clock_now_ns() - p->started_ns) / 1e9};
    if (p->q->progress)
        p->q->progress(p->q->ctx, &now);
}

static int meet_bad(struct packing *p, const struct pack_item *item, struct fb_error *e)
{
    if (!p->q->skips_bad || error_is_systemic(&item->error)) {
        if (e && e->code == 0)
            *e = item->error;
        return item->error.code;
    }
    p->next = item->sample + 1;
    if (p->out->skipped++ < SKIPPED_NAMED)
        text_printf(&p->skipped, "%s: %s\n", item->error.path, item->error.cause);
    return 0;
}

static int copy_all(struct packing *p, struct pack_reader *r, struct fb_error *e)
{
    const fb_options *o = &p->q->options;
    struct pack_item *item;
    while ((item = pack_reader_take(r, o->interrupted, o->ctx, e))) {
        int rc = item->error.code ? meet_bad(p, item, e) : packing_write(p, item, e);
        if (rc < 0) {
            error_at(e, item->error.code || item->is_large ? item->where.key : p->files.path, -1);
            return rc;
        }
        tell(p);
    }
    return p->next < catalog_count(p->dataset.catalog) ? FB_E_INTERRUPTED : 0;
}

/* Those that read from a store wait for most of their time. */
static int threads_of(const fb_options *o, bool is_store)
{
    int n = o->threads > 0 ? o->threads : host_cores();
    if (is_store && o->threads <= 0)
        return STORE_THREADS;
    return o->threads > 0 ? n : n < LEAST_THREADS ? LEAST_THREADS : n > MOST_THREADS ? MOST_THREADS : n;
}

static int pack_records(struct packing *p, struct fb_error *e)
{
    struct pack_reader *r;
    FB_TRY(pack_reader_open(&r, &p->source, p->next, threads_of(&p->q->options, p->source.io != NULL), e));
    int rc = copy_all(p, r, e);
    pack_reader_close(r);
    if (rc == 0 && p->out->samples == 0)
        rc = error_set(e, FB_E_DATA, "pack", "every sample is bad, so there is nothing to pack");
    return rc;
}

/* ---- after ---- */

/* Files that came or went while the others were copied. */
static int check_source(struct packing *p, struct fb_error *e)
{
    struct dataset_request r = request_of(&p->q->options);
    struct dataset now;
    r.progress = NULL;
    FB_TRY(dataset_open(&now, &r, e));
    bool is_same = catalog_fingerprint(now.catalog) == p->out->fingerprint;
    dataset_close(&now);
    if (is_same)
        return 0;
    error_set(e, FB_E_STATE, "pack", "the source changed while it was packed: samples came, went or have other labels");
    error_remedy(e, "leave it alone while it is packed, then pack again");
    error_at(e, p->q->options.source, -1);
    p->is_useless = true;
    return FB_E_STATE;
}

static int run(struct packing *p, struct fb_error *e)
{
    FB_TRY(prepare(p, e));
    FB_TRY(pack_records(p, e));
    int rc = packing_finish_shard(p, true, e);
    if (rc == 0)
        rc = check_source(p, e);
    struct log log = {p->q->options.log, p->q->options.ctx};
    if (rc == 0)
        rc = pack_files_place(&p->files, p->out->shards, e);
    if (rc < 0)
        error_at(e, p->files.path, -1);
    else
        pack_files_clean(&p->files, p->out->shards, &log);
    return rc;
}

/* Records that were written stay for --resume, unless there are none or they are of no use. */
static void clean_up(struct packing *p, int rc)
{
    bool is_useful = p->out->samples > 0 && !p->is_useless;
    p->out->is_kept = rc < 0 && is_useful && p->files.journal_fd >= 0;
    if (rc < 0 && !is_useful)
        pack_files_drop(&p->files);
    pack_shard_close(&p->shard);
    learnt_close(p->learnt);
    pack_names_close(&p->names);
    if (p->source.io)
        p->source.io->ops->close(p->source.io, close_ns);
    dataset_close(&p->dataset);
    pack_files_close(&p->files);
}

int pack_run(const struct pack_request *q, struct pack_result *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    struct packing p = {.q = q, .out = out, .started_ns = clock_now_ns(), .skipped = {.limit = 4 << 20}};
    p.shard.fd = p.dataset.root_fd = -1;
    p.files.dir_fd = p.files.journal_fd = -1;
    int rc = run(&p, e);
    if (rc == 0)
        pack_files_name(&p.files, out->shards, out->name, sizeof(out->name));
    out->skipped_list = p.skipped.data;
    clean_up(&p, rc);
    out->seconds = (double)(clock_now_ns() - p.started_ns) / 1e9;
    return rc;
}

void pack_result_free(struct pack_result *r)
{
    free(r->skipped_list);
}
