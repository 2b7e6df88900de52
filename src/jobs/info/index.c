#include "jobs/index.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "jobs/bench.h"
#include "model/learnt/learnt.h"

/* ---- learning: an epoch of whole images ---- */

static int learn_batches(fb_loader *l, const fb_options *o, struct index_result *out, struct fb_error *e)
{
    uint64_t done = 0;
    FB_TRY((int)fb_start_epoch(l, 0, e));
    for (;;) {
        fb_batch *b;
        int rc = fb_next_batch(l, &b, e);
        if (rc <= 0)
            return rc;
        done += (uint64_t)fb_batch_size(b);
        fb_release_batch(b);
        struct fb_progress p = {"learning", done, out->samples};
        if (o->progress)
            o->progress(o->ctx, &p);
        if (o->interrupted && o->interrupted(o->ctx))
            return error_set(e, FB_E_INTERRUPTED, "dataset", "interrupted");
    }
}

static int learn(const struct index_request *r, struct index_result *out, struct fb_error *e)
{
    fb_options o = r->options;
    fb_loader *l;
    o.transforms = "digest"; /* decodes whole images of any size and keeps a number */
    o.batch_size = 64;
    o.on_error = FB_SKIP;
    o.rank = 0;
    o.world_size = 1;
    uint64_t since = clock_now_ns();
    FB_TRY(fb_open(&o, &l, e));
    int rc = learn_batches(l, &o, out, e);
    struct bench_result figures = {0};
    bench_read_stats(l, &figures);
    out->bad = figures.bad;
    out->bad_list = figures.bad_list;
    fb_close(l);
    out->learn_seconds = (double)(clock_now_ns() - since) / 1e9;
    return rc;
}

/* ---- merging: records of files that are still the same ---- */

struct present {
    uint64_t key;
    struct learnt_identity id;
};

struct roll {
    struct present *present;
    uint64_t count;
};

static int by_key(const void *a, const void *b)
{
    const struct present *x = a, *y = b;
    return x->key < y->key ? -1 : x->key > y->key;
}

static int call_roll(const struct dataset *d, struct roll *r, struct index_result *out, struct fb_error *e)
{
    r->present = malloc((out->samples + 1) * sizeof(*r->present));
    if (!r->present)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to list %llu samples", (unsigned long long)out->samples);
    for (uint64_t i = 0; i < out->samples; i++) {
        struct catalog_sample s;
        FB_TRY(catalog_sample(d->catalog, i, &s, e));
        r->present[r->count++] = (struct present){learnt_key(s.key), {s.length, s.mtime_ns}};
        out->bytes += s.length;
    }
    qsort(r->present, r->count, sizeof(*r->present), by_key);
    return 0;
}

static bool is_current(void *ctx, uint64_t key, const struct learnt_identity *id)
{
    const struct roll *r = ctx;
    struct present wanted = {.key = key};
    const struct present *p = bsearch(&wanted, r->present, r->count, sizeof(*p), by_key);
    return p && p->id.size == id->size && p->id.mtime_ns == id->mtime_ns;
}

static int merge(const struct dataset *d, struct index_result *out, struct fb_error *e)
{
    struct roll r = {0};
    struct learnt_figures f = {0};
    int rc = call_roll(d, &r, out, e);
    if (rc == 0 && d->learnt_dir)
        rc = learnt_merge(d->learnt_dir, is_current, &r, &f, e);
    free(r.present);
    out->records = f.records;
    out->record_bytes = f.bytes;
    return rc;
}

int index_run(const struct index_request *r, struct index_result *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    const fb_options *o = &r->options;
    struct dataset_request q = dataset_request_of(o, io_stores);
    struct dataset d;
    FB_TRY(dataset_open(&d, &q, e));
    out->samples = catalog_count(d.catalog);
    out->is_fresh = d.is_fresh;
    int rc = r->must_learn ? learn(r, out, e) : 0;
    if (rc == 0)
        rc = merge(&d, out, e);
    dataset_close(&d);
    return rc;
}
