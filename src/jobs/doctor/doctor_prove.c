/* Remedies applied to a sample: what they bring is measured with the loader itself, in folders of our own that are removed again. Catalogs
 * and what is learnt of the copies go there, too, so that a first epoch is a first one.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/bench.h"
#include "jobs/decode.h"
#include "jobs/doctor.h"
#include "jobs/doctor/doctor_sample.h"
#include "jobs/pack.h"

enum { SMALL_SAMPLE = 256, PROOF_SAMPLE = 600 };

static int feed(const struct doctor_request *q, const char *source, const char *catalogs, int64_t epochs, bool is_cold,
                struct bench_result *b, struct fb_error *e)
{
    struct bench_request r = {.options = q->options, .epochs = epochs, .is_cold = is_cold};
    r.options.source = source;
    r.options.catalog_dir = catalogs;
    r.options.fraction = 1;
    return bench_run(&r, b, e);
}

static int pack_sample(const struct doctor_request *q, const char *folder, const char *catalogs, const char *output, int shorter,
                       uint64_t *bytes, char *name, size_t name_size, struct fb_error *e)
{
    struct pack_request r = {.options = q->options, .output = output, .skips_bad = true, .shorter = shorter, .quality = 92};
    struct pack_result p = {0};
    r.options.source = folder;
    r.options.catalog_dir = catalogs;
    r.options.fraction = 1;
    r.options.progress = NULL;
    int rc = pack_run(&r, &p, e);
    if (rc == 0) {
        *bytes = p.pack_bytes;
        snprintf(name, name_size, "%s", p.name);
    }
    pack_result_free(&p);
    return rc;
}

/* ---- smaller pictures ---- */

/* The side that the transform wants, with the margin that people use (256 for 224). 0: none is named. */
static int side_wanted(const char *transforms)
{
    const char *at = transforms ? strstr(transforms, "size=") : NULL;
    int side = at ? atoi(at + 5) : 0;
    return side > 0 && side < 4096 ? side * 8 / 7 : 0;
}

/* CPU per sample of what was made of a few, in its first epoch and later. */
static int measure_made(const struct doctor_request *q, const char *name, const char *catalogs, double *first_s, double *later_s,
                        struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(feed(q, name, catalogs, 1, false, &b, e));
    *first_s = doctor_cpu(&b, q->options.batch_size);
    bench_free(&b);
    FB_TRY(feed(q, name, catalogs, 8, false, &b, e));
    *later_s = doctor_cpu(&b, q->options.batch_size);
    bench_free(&b);
    return 0;
}

struct trial_place {
    char copies[600], catalogs[600], output[600];
};

static struct trial_place place_in(const char *folder, const char *output)
{
    struct trial_place p;
    snprintf(p.copies, sizeof(p.copies), "%s/copies", folder);
    snprintf(p.catalogs, sizeof(p.catalogs), "%s/catalogs", folder);
    snprintf(p.output, sizeof(p.output), "%s/%s", folder, output);
    return p;
}

static int measure_smaller(const struct doctor_request *q, struct doctor_result *r, const char *folder, struct fb_error *e)
{
    struct trial_place p = place_in(folder, "small.tar");
    char name[1100];
    uint64_t copied, bytes, small_bytes = 0;
    FB_TRY(sample_copy(&q->options, p.copies, SMALL_SAMPLE, &copied, &bytes, e));
    FB_TRY(pack_sample(q, p.copies, p.catalogs, p.output, r->smaller_side, &small_bytes, name, sizeof(name), e));
    r->smaller_share = bytes ? fmin(1, (double)small_bytes / (double)bytes) : 1;
    return measure_made(q, name, p.catalogs, &r->smaller_first_cpu_s, &r->smaller_cpu_s, e);
}

void doctor_try_smaller(const struct doctor_request *q, struct doctor_result *r)
{
    struct scratch_folder folder = {0};
    struct fb_error ignored = {0};
    int side = side_wanted(q->options.transforms);
    uint32_t shorter = r->data.width_median < r->data.height_median ? r->data.width_median : r->data.height_median;
    bool is_folder = strcmp(r->data.kind, "folder") == 0 && doctor_has_pictures(r) && !r->machine.is_bucket;
    bool is_worth_it = side && shorter > 1.3 * side && is_folder;
    r->smaller_side = is_worth_it && scratch_folder_make(&folder, NULL) ? side : 0;
    if (r->smaller_side && measure_smaller(q, r, folder.path, &ignored) < 0)
        r->smaller_side = 0; /* a row less, not an error */
    scratch_folder_remove(&folder);
}

/* ---- decoded pictures ---- */

static int decode_sample(const struct doctor_request *q, const char *folder, const char *catalogs, const char *output, int side,
                         struct fb_error *e)
{
    struct decode_request d = {.options = q->options, .output = output, .skips_bad = true};
    struct pack_result p = {0};
    d.height = d.width = (uint32_t)side;
    d.options.source = folder;
    d.options.catalog_dir = catalogs;
    d.options.fraction = 1;
    d.options.progress = NULL;
    int rc = decode_run(&d, &p, e);
    pack_result_free(&p);
    return rc;
}

static int measure_decoded(const struct doctor_request *q, struct doctor_result *r, const char *folder, struct fb_error *e)
{
    struct trial_place p = place_in(folder, "decoded.npy");
    uint64_t copied, bytes;
    FB_TRY(sample_copy(&q->options, p.copies, SMALL_SAMPLE, &copied, &bytes, e));
    FB_TRY(decode_sample(q, p.copies, p.catalogs, p.output, r->decoded_side, e));
    return measure_made(q, p.output, p.catalogs, &r->decoded_first_cpu_s, &r->decoded_cpu_s, e);
}

void doctor_try_decoded(const struct doctor_request *q, struct doctor_result *r)
{
    struct scratch_folder folder = {0};
    struct fb_error ignored = {0};
    int side = side_wanted(q->options.transforms);
    bool is_decoded = r->data.format_count == 1 && strcmp(r->data.format[0].name, "decoded") == 0;
    bool can_be = side && !is_decoded && doctor_has_pictures(r) && !r->machine.is_bucket;
    r->decoded_side = can_be && scratch_folder_make(&folder, NULL) ? side : 0;
    if (r->decoded_side && measure_decoded(q, r, folder.path, &ignored) < 0)
        r->decoded_side = 0;
    scratch_folder_remove(&folder);
}

/* ---- proofs ---- */

struct proof {
    const struct doctor_request *q;
    char folder[512]; /* on the storage of the data */
    char copies[600], catalogs[600];
};

/* A first epoch from storage, of files never seen; then later ones. */
static int prove_source(struct proof *p, const char *source, bool is_cold, struct doctor_row *row, struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(feed(p->q, source, p->catalogs, 1, is_cold, &b, e));
    row->proved_first = is_cold && !(b.evicted_share > 0.5) ? (double)NAN : b.samples_per_second;
    bench_free(&b);
    FB_TRY(feed(p->q, source, p->catalogs, 3, false, &b, e));
    row->proved_later = b.samples_per_second;
    bench_free(&b);
    return 0;
}

static int prove_packed(struct proof *p, int shorter, struct doctor_row *row, struct fb_error *e)
{
    char output[600], name[1100];
    uint64_t bytes;
    snprintf(output, sizeof(output), "%s/packed-%d.tar", p->folder, shorter);
    FB_TRY(pack_sample(p->q, p->copies, p->catalogs, output, shorter, &bytes, name, sizeof(name), e));
    return prove_source(p, name, true, row, e);
}

static int prove_decoded(struct proof *p, int side, struct doctor_row *row, struct fb_error *e)
{
    char output[600];
    snprintf(output, sizeof(output), "%s/decoded.npy", p->folder);
    FB_TRY(decode_sample(p->q, p->copies, p->catalogs, output, side, e));
    return prove_source(p, output, true, row, e);
}

static int prove_in_memory(struct proof *p, struct doctor_row *row, struct fb_error *e)
{
    struct scratch_folder memory = {0};
    uint64_t copied, bytes;
    if (!scratch_folder_make(&memory, NULL))
        return 0;
    int rc = sample_copy(&p->q->options, memory.path, PROOF_SAMPLE, &copied, &bytes, e);
    if (rc == 0)
        rc = prove_source(p, memory.path, false, row, e);
    scratch_folder_remove(&memory);
    return rc;
}

static int prove_row(struct proof *p, const struct doctor_result *r, struct doctor_row *row, struct fb_error *e)
{
    switch (row->kind) {
    case REMEDY_NONE: return prove_source(p, p->copies, true, row, e);
    case REMEDY_MEMORY: return prove_in_memory(p, row, e);
    case REMEDY_PACK: return prove_packed(p, 0, row, e);
    case REMEDY_SMALLER: return prove_packed(p, r->smaller_side, row, e);
    case REMEDY_DECODED: return prove_decoded(p, r->decoded_side, row, e);
    default: return 0; /* more cores and other disks cannot be had for a moment */
    }
}

int doctor_prove(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct scratch_folder folder = {0};
    struct proof p = {.q = q};
    uint64_t copied, bytes;
    if (!doctor_has_pictures(r) || r->machine.is_bucket)
        return error_advise(e,
                            error_set(e, FB_E_UNSUPPORTED, "doctor", "remedies can be tried on files of pictures that lie here; this is %s",
                                      r->machine.is_bucket ? "a bucket" : r->data.family),
                            "leave --prove out");
    if (!scratch_folder_make(&folder, r->data.root))
        return error_set(e, FB_E_IO, "doctor", "no folder on the file system of %s can be written, so nothing can be proved there",
                         r->data.root);
    snprintf(p.folder, sizeof(p.folder), "%s", folder.path);
    snprintf(p.copies, sizeof(p.copies), "%s/copies", folder.path);
    snprintf(p.catalogs, sizeof(p.catalogs), "%s/catalogs", folder.path);
    int rc = sample_copy(&q->options, p.copies, PROOF_SAMPLE, &copied, &bytes, e);
    for (int i = 0; i < r->rows && rc == 0; i++)
        rc = prove_row(&p, r, &r->row[i], e);
    scratch_folder_remove(&folder);
    return rc;
}
