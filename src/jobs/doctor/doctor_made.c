/* Pictures made smaller or decoded: a few, in memory, to be fed. What is made of them is new to the loader, and so is a first epoch. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/bench.h"
#include "jobs/decode.h"
#include "jobs/doctor.h"
#include "jobs/doctor/doctor_sample.h"
#include "jobs/pack.h"

enum { SMALL_SAMPLE = 256, MANY_EPOCHS = 1000 };
static const double small_bytes_most = 256 << 20; /* the copies lie in memory */
static const double made_seconds = 1;

static int feed(const struct doctor_request *q, const char *source, const char *catalogs, int64_t epochs, struct bench_result *b,
                struct fb_error *e)
{
    struct bench_request r = {.options = q->options, .epochs = epochs, .most_seconds = made_seconds};
    r.options.source = source;
    r.options.catalog_dir = catalogs;
    r.options.fraction = 1;
    return bench_run(&r, b, e);
}

int doctor_pack(const struct doctor_request *q, const char *folder, const char *catalogs, const char *output, int shorter, uint64_t *bytes,
                char *name, size_t name_size, struct fb_error *e)
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

/* What was made of a few, in its first epoch and later. */
static int measure_made(const struct doctor_request *q, const char *name, const char *catalogs, double *first_cpu_s,
                        struct doctor_run *later, struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(feed(q, name, catalogs, 1, &b, e));
    *first_cpu_s = b.whole.cpu_seconds;
    bench_free(&b);
    FB_TRY(feed(q, name, catalogs, MANY_EPOCHS, &b, e));
    *later = doctor_run_of(&b.pace);
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

static uint64_t few_of(const struct doctor_result *r)
{
    double n = r->sample_bytes > 0 ? small_bytes_most / r->sample_bytes : SMALL_SAMPLE;
    return n < SMALL_SAMPLE ? (uint64_t)n + 1 : SMALL_SAMPLE;
}

static int measure_smaller(const struct doctor_request *q, struct doctor_result *r, const char *folder, struct fb_error *e)
{
    struct trial_place p = place_in(folder, "small.tar");
    char name[1100];
    uint64_t copied, bytes, small_bytes = 0;
    FB_TRY(sample_copy(&q->options, p.copies, few_of(r), &copied, &bytes, e));
    FB_TRY(doctor_pack(q, p.copies, p.catalogs, p.output, r->smaller_side, &small_bytes, name, sizeof(name), e));
    r->smaller_share = bytes ? fmin(1, (double)small_bytes / (double)bytes) : 1;
    FB_TRY(measure_made(q, name, p.catalogs, &r->smaller_first_cpu_s, &r->smaller, e));
    r->smaller_cpu_s = r->smaller.cpu_s;
    return 0;
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

int doctor_decode(const struct doctor_request *q, const char *folder, const char *catalogs, const char *output, int side,
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
    FB_TRY(sample_copy(&q->options, p.copies, few_of(r), &copied, &bytes, e));
    FB_TRY(doctor_decode(q, p.copies, p.catalogs, p.output, r->decoded_side, e));
    FB_TRY(measure_made(q, p.output, p.catalogs, &r->decoded_first_cpu_s, &r->decoded, e));
    r->decoded_cpu_s = r->decoded.cpu_s;
    return 0;
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
