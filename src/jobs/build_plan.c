/* What is to be done: which recordings in which order, and what a row is. Everything that the output depends on is fixed here. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "host/host.h"
#include "jobs/build_own.h"
#include "order/pick.h"

enum { TRIES = 16, MOST_THREADS = 256, TASK_BYTES = 1 << 20, CHUNK_BYTES = 1 << 20, MOST_TASK_FILES = 256 };

static int usage(struct fb_error *e, const char *cause, const char *remedy)
{
    error_set(e, FB_E_USAGE, "build", "%s", cause);
    error_remedy(e, "%s", remedy);
    return FB_E_USAGE;
}

/* ---- the request ---- */

static bool is_given(struct build_span s)
{
    return s.seconds > 0 || s.samples > 0;
}

static int check_request(const struct build_request *q, struct fb_error *e)
{
    double sum = 0;
    for (int i = 0; i < BUILD_MAX_SPLITS; i++)
        sum += q->share[i];
    if (is_given(q->length) && is_given(q->segment))
        return usage(e, "--length and --segment contradict each other", "--length makes one row of a recording, --segment many");
    if (is_given(q->stride) && !is_given(q->segment))
        return usage(e, "--stride needs --segment", "it says how far apart the segments begin");
    if (q->dtype != FB_FLOAT32 && q->dtype != FB_FLOAT16)
        return usage(e, "features are float32 or float16", "--dtype float32");
    if (q->deflate < 0 || q->deflate > 9)
        return usage(e, "levels of compression are 1 to 9", "4 is usual");
    if (!(sum >= 0) || !isfinite(sum))
        return usage(e, "shares of splits must not be negative", "--split 80/10/10");
    return 0;
}

/* ---- recordings, by split and key ---- */

static int open_dataset(struct build_plan *p, struct fb_error *e)
{
    const fb_options *o = &p->q->options;
    struct dataset_request r = {.source = o->source, .catalog_dir = o->catalog_dir, .progress = o->progress,
                                .interrupted = o->interrupted, .ctx = o->ctx, .log = {o->log, o->ctx}};
    FB_TRY(dataset_open(&p->dataset, &r, e));
    if (p->dataset.root_fd < 0 || p->dataset.io)
        return usage(e, "recordings must be files of this machine", "`fullbore stage` copies a bucket to a local folder");
    if (p->dataset.family != FAMILY_SOUND) {
        error_set(e, FB_E_USAGE, "build", "it holds %s, not sound", p->dataset.family == FAMILY_IMAGE ? "pictures" : "arrays");
        error_remedy(e, "WAV, FLAC and other recordings are wanted; for others use fullbore.build of the Python package");
        return FB_E_USAGE;
    }
    p->files = catalog_count(p->dataset.catalog);
    return p->files > UINT32_MAX - 1 ? usage(e, "more than 4 billion recordings", "build several files") : 0;
}

/* By the key's hash alone: what is added later changes nobody's side. */
static int side_of(const struct build_plan *p, const char *key)
{
    double sum = 0, at = 0, x = (double)(pick_hash(PICK_SPLIT, p->q->seed, key) >> 11) * 0x1p-53;
    int last = 0;
    for (int i = 0; i < BUILD_MAX_SPLITS; i++)
        sum += p->q->share[i];
    for (int i = 0; i < BUILD_MAX_SPLITS; i++) {
        if (!(p->q->share[i] > 0))
            continue;
        at += p->q->share[i] / sum;
        last = i;
        if (x < at)
            return i;
    }
    return last;
}

static int order_files(struct build_plan *p, struct fb_error *e)
{
    uint8_t *side = calloc(p->files + 1, 1);
    uint64_t at = 0;
    p->file = malloc((p->files + 1) * sizeof(*p->file));
    if (!side || !p->file) {
        free(side);
        return error_set(e, FB_E_NOMEM, "build", "no memory for the list of recordings");
    }
    for (int i = 0; i < BUILD_MAX_SPLITS; i++)
        p->splits = p->q->share[i] > 0 ? i + 1 : p->splits;
    for (uint64_t i = 0; i < p->files && p->splits; i++) {
        const char *key = catalog_key(p->dataset.catalog, i, e);
        if (!key) {
            free(side);
            return FB_E_DATA;
        }
        side[i] = (uint8_t)side_of(p, key);
    }
    for (int s = 0; s < (p->splits ? p->splits : 1); s++) {
        p->split_first[s] = at;
        for (uint64_t i = 0; i < p->files; i++)
            if (side[i] == s)
                p->file[at++] = (uint32_t)i;
    }
    for (int s = p->splits ? p->splits : 1; s <= BUILD_MAX_SPLITS; s++)
        p->split_first[s] = at;
    free(side);
    return 0;
}

int build_split_of(const struct build_plan *p, uint64_t file)
{
    int s = 0;
    while (s + 1 < p->splits && file >= p->split_first[s + 1])
        s++;
    return s;
}

/* ---- the first good recording says what is not said ---- */

/* Without --skip-bad a bad one ends the build anyway. */
static int look_at_first(struct build_plan *p, uint32_t *rate, uint64_t *samples, struct fb_error *e)
{
    struct build_sound s = {.p = p};
    uint64_t tries = p->q->skips_bad || p->files < TRIES ? p->files : TRIES;
    int rc = tries ? FB_E_DATA : error_set(e, FB_E_DATA, "build", "there are no recordings");
    for (uint64_t i = 0; i < tries && rc < 0; i++) {
        struct catalog_sample where = {.key = ""};
        struct fb_error mine = {0};
        error_clear(&mine);
        rc = catalog_sample(p->dataset.catalog, i, &where, &mine);
        if (rc == 0)
            rc = build_sound_look(&s, &where, rate, samples, &mine);
        if (rc < 0 && i == 0) { /* of many the first one is named */
            error_at(&mine, where.key, -1);
            *e = mine;
        }
    }
    build_sound_free(&s);
    return rc;
}

static uint64_t samples_of(struct build_span s, uint32_t rate)
{
    return s.samples ? s.samples : (uint64_t)llround(s.seconds * rate);
}

static int choose_lengths(struct build_plan *p, struct fb_error *e)
{
    const struct build_request *q = p->q;
    uint32_t rate = 0;
    uint64_t samples = 0;
    bool is_said = q->rate && (is_given(q->length) || is_given(q->segment));
    int rc = look_at_first(p, &rate, &samples, e);
    if (rc < 0 && (!is_said || p->files == 0))
        return rc;
    error_clear(e);
    p->rate = q->rate ? q->rate : rate;
    p->is_segmented = is_given(q->segment);
    p->is_padded = is_given(q->length);
    p->window = p->is_segmented ? samples_of(q->segment, p->rate) : p->is_padded ? samples_of(q->length, p->rate) : samples;
    p->stride = is_given(q->stride) ? samples_of(q->stride, p->rate) : p->window;
    if (p->window < 1 || p->stride < 1 || p->window > UINT32_MAX || p->stride > UINT32_MAX)
        return usage(e, "a row has less than one sample, or more than 4 billion", "lengths are 0.5s, 500ms or, in samples, 24000");
    uint64_t rows = build_rows_of(p, samples);
    p->rows_guessed = rows ? rows : 1;
    return 0;
}

/* ---- a row ---- */

static int choose_features(struct build_plan *p, struct fb_error *e)
{
    const struct build_request *q = p->q;
    p->dtype = q->dtype;
    p->ndim = 1;
    p->shape[0] = p->window;
    if (!q->is_raw) {
        struct log_mel_options o;
        log_mel_defaults(&o);
        o.rate = p->rate;
        o.n_mels = q->n_mels ? q->n_mels : 64;
        o.n_fft = q->n_fft ? q->n_fft : 1024;
        o.hop_length = q->hop_length ? q->hop_length : 256;
        o.f_min = q->f_min;
        o.f_max = q->f_max;
        o.scale = q->is_htk ? MEL_HTK : MEL_SLANEY;
        o.has_area = !q->is_htk;
        o.top_db = (float)q->top_db;
        o.is_exact = q->is_exact;
        FB_TRY(log_mel_make(&p->mel, &o, e));
        p->ndim = 2;
        p->shape[0] = o.n_mels;
        p->shape[1] = log_mel_frames(p->mel, p->window);
        if (p->shape[1] == 0)
            return usage(e, "a row is shorter than one frame of the transform", "make --length longer or --n-fft smaller");
    }
    p->row_numbers = (size_t)(p->shape[0] * (p->ndim > 1 ? p->shape[1] : 1));
    p->row_bytes = p->row_numbers * fb_dtype_size(p->dtype);
    return 0;
}

static uint64_t between(uint64_t x, uint64_t least, uint64_t most)
{
    return x < least ? least : x > most ? most : x;
}

/* What a worker holds at least while it makes rows: a recording, its samples as float32, the transform's work, a chunk being deflated. */
static int find_thread_bytes(struct build_plan *p, struct fb_error *e)
{
    uint64_t largest = 0;
    for (uint64_t i = 0; i < p->files; i++) {
        struct catalog_sample s;
        FB_TRY(catalog_sample(p->dataset.catalog, i, &s, e));
        largest = s.length > largest && s.length <= p->memory / 8 ? s.length : largest; /* few larger ones may take what is left */
    }
    uint64_t signal = p->is_segmented ? 2 * largest : p->window * sizeof(float);
    p->thread_bytes = largest + signal + (p->mel ? log_mel_work_bytes(p->mel) + p->row_numbers * sizeof(float) : 0);
    if (p->q->deflate)
        p->thread_bytes += 3 * p->chunk_rows * p->row_bytes;
    return 0;
}

static uint64_t task_bytes(const struct build_plan *p)
{
    return p->files_per_task * p->rows_guessed * p->row_bytes * 3 / 2; /* it grows by halves */
}

static int choose_layout(struct build_plan *p, struct fb_error *e)
{
    const struct build_request *q = p->q;
    p->threads = q->options.threads > 0 ? q->options.threads : host_cores();
    p->threads = p->threads > MOST_THREADS ? MOST_THREADS : p->threads;
    p->chunk_rows = q->chunk_rows ? q->chunk_rows : q->deflate ? between(CHUNK_BYTES / p->row_bytes, 1, 1024) : 0;
    if (p->chunk_rows > (UINT32_MAX >> 1) / p->row_bytes)
        return usage(e, "a chunk would have more than 2 GiB", "choose fewer --chunk-rows");
    FB_TRY(find_thread_bytes(p, e));
    /* Tasks as large as chunks spare copying; small ones spread the work and keep memory low. */
    uint64_t rows = p->chunk_rows ? p->chunk_rows : between(TASK_BYTES / p->row_bytes, 1, 256);
    uint64_t fixed = (uint64_t)p->threads * p->thread_bytes + p->chunk_rows * p->row_bytes, tasks = (uint64_t)p->threads + 2;
    p->files_per_task = between(rows / p->rows_guessed, 1, MOST_TASK_FILES);
    while (p->files_per_task > 1 && fixed + tasks * task_bytes(p) > p->memory)
        p->files_per_task /= 2;
    p->task_bytes = task_bytes(p);
    p->task_memory = p->memory > fixed ? p->memory - fixed : 0;
    if (tasks * p->task_bytes <= p->task_memory)
        return 0;
    char need[32], has[32];
    error_set(e, FB_E_BUDGET, "build", "%s of memory are needed, the budget is %s",
              text_size(fixed + tasks * p->task_bytes, need, sizeof(need)), text_size(p->memory, has, sizeof(has)));
    error_remedy(e, "give more --memory, or fewer --threads or --chunk-rows");
    return FB_E_BUDGET;
}

/* ---- what the output depends on ---- */

static void find_question(struct build_plan *p)
{
    const struct build_request *q = p->q;
    struct text t = {.limit = 4096};
    text_printf(&t, "%s|%d|%u %u %u %a %a %d %a %d|%u %d|%llu %llu %d %d|%a %a %a %llu|%d %llu %d", FB_VERSION,
                q->is_raw, q->n_mels, q->n_fft, q->hop_length, q->f_min, q->f_max, q->is_htk, q->top_db, q->is_exact, p->rate, q->is_mono,
                (unsigned long long)p->window, (unsigned long long)p->stride, p->is_segmented, p->is_padded, q->share[0], q->share[1], q->share[2],
                (unsigned long long)q->seed, (int)q->dtype, (unsigned long long)p->chunk_rows, q->deflate);
    p->question = checksum_of(t.data, t.length);
    text_free(&t);
}

int build_plan_open(struct build_plan *p, const struct build_request *q, struct fb_error *e)
{
    memset(p, 0, sizeof(*p));
    p->q = q;
    p->dataset.root_fd = -1;
    p->memory = q->options.memory ? q->options.memory : between(host_default_memory(), 64 << 20, UINT64_C(1) << 30);
    FB_TRY(check_request(q, e));
    FB_TRY(open_dataset(p, e));
    FB_TRY(build_labels_open(&p->labels, &p->dataset, q->labels, e));
    FB_TRY(order_files(p, e));
    FB_TRY(choose_lengths(p, e));
    FB_TRY(choose_features(p, e));
    FB_TRY(choose_layout(p, e));
    find_question(p);
    return 0;
}

void build_plan_close(struct build_plan *p)
{
    log_mel_free(p->mel);
    free(p->file);
    build_labels_close(p->labels);
    if (p->dataset.catalog)
        dataset_close(&p->dataset);
}
