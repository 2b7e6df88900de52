/* Remedies applied to a sample: what they bring is measured with the loader itself, in folders of our own that are removed again. Like is
 * compared with like: where the prediction is for new files, catalogs are new, and where it is for known ones, an epoch goes before.
 *
 * Files are copied beside the data. Rows stay where they are, and their own part is fed once more.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/bench.h"
#include "jobs/doctor.h"
#include "jobs/doctor/doctor_sample.h"
#include "jobs/pack_rechunk.h"

enum { PROOF_SAMPLE = 600, PROOF_BATCHES = 4, MANY_EPOCHS = 1000 };
static const double proof_seconds = 1.5, written_most = 512 << 20;

struct proof {
    const struct doctor_request *q;
    const struct doctor_result *r;
    char folder[512]; /* on the storage of the data; "": it has no place of its own */
    char copies[600];
    int catalogs; /* that were handed out */
};

static bool has_known(const struct proof *p)
{
    return p->r->known_share > 0;
}

/* A new one each time. */
static const char *new_catalogs(struct proof *p, char out[600])
{
    snprintf(out, 600, "%s/catalogs-%d", p->folder, p->catalogs++);
    return out;
}

static int feed(const struct proof *p, const char *source, const char *catalogs, bool is_cold, bool is_first, int threads,
                struct bench_result *b, struct fb_error *e)
{
    struct bench_request r = doctor_bench(p->q, p->r);
    r.epochs = is_first ? 1 : MANY_EPOCHS;
    r.most_seconds = is_first ? 0 : proof_seconds;
    r.is_cold = is_cold;
    r.options.source = source;
    r.options.catalog_dir = catalogs;
    r.options.fraction = 1;
    r.options.threads = threads ? threads : r.options.threads;
    return bench_run(&r, b, e);
}

/* A whole epoch, as a person would time it. */
static int first_epoch(const struct proof *p, const char *source, const char *catalogs, bool is_cold, int threads, double *rate,
                       struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(feed(p, source, catalogs, is_cold, true, threads, &b, e));
    *rate = is_cold && !(b.evicted_share > 0.5) ? (double)NAN : b.whole.samples_per_second;
    bench_free(&b);
    return 0;
}

static int later_epochs(const struct proof *p, const char *source, const char *catalogs, int threads, double *rate, struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(feed(p, source, catalogs, false, false, threads, &b, e));
    *rate = b.chunks_unfiltered && isfinite(b.last_epoch_rate) ? b.last_epoch_rate : b.pace.samples_per_second;
    bench_free(&b);
    return 0;
}

/* What is new to the loader, then known to it. */
static int prove_new(struct proof *p, const char *source, bool is_cold, struct doctor_row *row, struct fb_error *e)
{
    char catalogs[600];
    new_catalogs(p, catalogs);
    FB_TRY(first_epoch(p, source, catalogs, is_cold, 0, &row->proved_first, e));
    return later_epochs(p, source, catalogs, 0, &row->proved_later, e);
}

/* Of files of which a share is known, the first epoch is that of both kinds. */
static int prove_files(struct proof *p, const char *source, bool is_cold, int threads, struct doctor_row *row, struct fb_error *e)
{
    char catalogs[600];
    double known = 0, fresh, k = p->r->known_share;
    new_catalogs(p, catalogs);
    FB_TRY(first_epoch(p, source, catalogs, is_cold, threads, &fresh, e));
    if (has_known(p))
        FB_TRY(first_epoch(p, source, catalogs, is_cold, threads, &known, e));
    row->proved_first = has_known(p) ? 1 / (k / known + (1 - k) / fresh) : fresh;
    if (is_cold)
        FB_TRY(first_epoch(p, source, catalogs, false, threads, &fresh, e)); /* into memory */
    return later_epochs(p, source, catalogs, threads, &row->proved_later, e);
}

/* ---- files ---- */

/* A pack takes along what is known of its pictures. */
static int prove_packed(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    char output[600], name[1100], catalogs[600];
    double ignored;
    uint64_t bytes;
    new_catalogs(p, catalogs);
    if (p->r->known_share >= 0.5)
        FB_TRY(first_epoch(p, p->copies, catalogs, false, 0, &ignored, e));
    snprintf(output, sizeof(output), "%s/packed.tar", p->folder);
    FB_TRY(doctor_pack(p->q, p->copies, catalogs, output, 0, &bytes, name, sizeof(name), e));
    return prove_new(p, name, true, row, e);
}

static int prove_smaller(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    char output[600], name[1100], catalogs[600];
    uint64_t bytes;
    snprintf(output, sizeof(output), "%s/smaller.tar", p->folder);
    FB_TRY(doctor_pack(p->q, p->copies, new_catalogs(p, catalogs), output, p->r->smaller_side, &bytes, name, sizeof(name), e));
    return prove_new(p, name, true, row, e);
}

static int prove_decoded(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    char output[600], catalogs[600];
    snprintf(output, sizeof(output), "%s/decoded.npy", p->folder);
    FB_TRY(doctor_decode(p->q, p->copies, new_catalogs(p, catalogs), output, p->r->decoded_side, e));
    return prove_new(p, output, true, row, e);
}

static uint64_t wanted_samples(const struct proof *p)
{
    uint64_t wanted = PROOF_BATCHES * p->q->options.batch_size;
    double fits = p->r->sample_bytes > 0 ? written_most / p->r->sample_bytes : PROOF_SAMPLE;
    if (wanted < PROOF_SAMPLE)
        wanted = PROOF_SAMPLE;
    return (double)wanted > fits ? (uint64_t)fits + 1 : wanted;
}

static int prove_in_memory(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    struct scratch_folder memory = {0};
    uint64_t copied, bytes;
    if (!scratch_folder_make(&memory, NULL)) {
        snprintf(row->unproved, sizeof(row->unproved), "/dev/shm cannot be written");
        return 0;
    }
    int rc = sample_copy(&p->q->options, memory.path, wanted_samples(p), &copied, &bytes, e);
    if (rc == 0)
        rc = prove_files(p, memory.path, false, 0, row, e);
    scratch_folder_remove(&memory);
    return rc;
}

static int prove_threads(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    if (row->cores > p->r->machine.cores) {
        snprintf(row->unproved, sizeof(row->unproved), "other cores cannot be had for a moment");
        return 0;
    }
    return prove_files(p, p->copies, true, doctor_free_cores(p->r), row, e);
}

static int prove_of_files(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    switch (row->kind) {
    case REMEDY_NONE: return prove_files(p, p->copies, true, 0, row, e);
    case REMEDY_MEMORY: return prove_in_memory(p, row, e);
    case REMEDY_PACK: return prove_packed(p, row, e);
    case REMEDY_SMALLER: return prove_smaller(p, row, e);
    case REMEDY_DECODED: return prove_decoded(p, row, e);
    case REMEDY_CORES: return prove_threads(p, row, e);
    case REMEDY_CACHE: snprintf(row->unproved, sizeof(row->unproved), "which disk the cache would lie on is not known"); return 0;
    default: snprintf(row->unproved, sizeof(row->unproved), "it cannot be tried on a sample of files"); return 0;
    }
}

/* ---- rows ---- */

static int take_trial(const struct proof *p,
                      int (*way)(const struct doctor_request *, const struct doctor_result *, struct doctor_trial *, struct fb_error *),
                      const struct doctor_request *q, struct doctor_row *row, struct fb_error *e)
{
    struct doctor_trial t;
    FB_TRY(way(q, p->r, &t, e));
    row->proved_first = t.first_rate;
    row->proved_later = t.later_rate;
    return 0;
}

static int prove_more_threads(const struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    struct doctor_request q = *p->q;
    q.options.threads = doctor_free_cores(p->r);
    if (row->cores <= p->r->machine.cores)
        return take_trial(p, doctor_try_as_it_is, &q, row, e);
    snprintf(row->unproved, sizeof(row->unproved), "other cores cannot be had for a moment");
    return 0;
}

static int prove_rechunked(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    char output[600];
    struct rechunk_request r = {.options = p->q->options, .output = output, .rows = p->r->chunks.wanted_rows};
    struct rechunk_result done;
    if (strcmp(p->r->data.kind, "file") != 0 || !p->folder[0] || (double)p->r->data.bytes > written_most) {
        snprintf(row->unproved, sizeof(row->unproved), "%s",
                 strcmp(p->r->data.kind, "file") != 0 ? "there are several files to write anew"
                 : p->folder[0]                       ? "all of the file would have to be written anew, and it is large"
                                                      : "there is no place beside the data that can be written");
        return 0;
    }
    snprintf(output, sizeof(output), "%s/rechunked.h5", p->folder);
    r.options.progress = NULL;
    FB_TRY(pack_rechunk_run(&r, &done, e));
    return prove_new(p, output, true, row, e);
}

/* All of its files, as rows of half a file have other neighbours. */
static int prove_rows_in_memory(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    if ((double)p->r->data.bytes <= written_most)
        return prove_in_memory(p, row, e);
    snprintf(row->unproved, sizeof(row->unproved), "all of it would have to be copied, and it is large");
    return 0;
}

static int prove_of_rows(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    switch (row->kind) {
    case REMEDY_NONE: return take_trial(p, doctor_try_as_it_is, p->q, row, e);
    case REMEDY_WINDOW: return take_trial(p, doctor_try_window, p->q, row, e);
    case REMEDY_PRELOAD: return take_trial(p, doctor_try_preload, p->q, row, e);
    case REMEDY_MEMORY: return prove_rows_in_memory(p, row, e);
    case REMEDY_RECHUNK: return prove_rechunked(p, row, e);
    case REMEDY_CORES: return prove_more_threads(p, row, e);
    default: snprintf(row->unproved, sizeof(row->unproved), "it cannot be tried on rows"); return 0;
    }
}

/* ---- buckets ---- */

static int prove_of_bucket(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    if (row->kind == REMEDY_NONE)
        return take_trial(p, doctor_try_as_it_is, p->q, row, e);
    if (row->kind == REMEDY_CORES)
        return prove_more_threads(p, row, e);
    snprintf(row->unproved, sizeof(row->unproved), "objects would have to be copied to a local disk, and which one is not known");
    return 0;
}

/* ---- the whole ---- */

static bool has_copies(const struct doctor_result *r)
{
    return !r->machine.is_bucket && !r->data.has_rows;
}

static int prove_rows(struct proof *p, struct doctor_result *r, struct fb_error *e)
{
    for (int i = 0; i < r->rows; i++) {
        struct doctor_row *row = &r->row[i];
        struct fb_error why = {0};
        int rc = r->machine.is_bucket ? prove_of_bucket(p, row, &why)
                 : r->data.has_rows   ? prove_of_rows(p, row, &why)
                                      : prove_of_files(p, row, &why);
        if (rc == FB_E_INTERRUPTED) {
            *e = why;
            return rc;
        }
        if (rc < 0) { /* a row without a proof, not a table without rows */
            text_words(row->unproved, sizeof(row->unproved), "%s", why.cause);
            row->proved_first = row->proved_later = NAN;
        }
    }
    return 0;
}

int doctor_prove(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct scratch_folder folder = {0};
    struct proof p = {.q = q, .r = r};
    uint64_t copied, bytes;
    if (!r->machine.is_bucket && !scratch_folder_make(&folder, r->data.root) && has_copies(r))
        return error_set(e, FB_E_IO, "doctor", "no folder on the file system of %s can be written, so nothing can be proved there",
                         r->data.root);
    snprintf(p.folder, sizeof(p.folder), "%s", folder.path);
    snprintf(p.copies, sizeof(p.copies), "%s/copies", folder.path);
    int rc = has_copies(r) ? sample_copy(&q->options, p.copies, wanted_samples(&p), &copied, &bytes, e) : 0;
    if (rc == 0)
        rc = prove_rows(&p, r, e);
    scratch_folder_remove(&folder);
    return rc;
}
