/* What is to be done: which recordings in which order, and what a row is. Everything that the output depends on is fixed here. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "host/host.h"
#include "jobs/build/build_internal.h"
#include "order/subset/hash_choice.h"

enum { TRIES = 16, MOST_THREADS = 256, TASK_BYTES = 1 << 20, CHUNK_BYTES = 1 << 20, MOST_TASK_FILES = 256 };
enum { MOST_TASKS_PER_THREAD = 8, LEAST_SOUND = 96 << 10 };

static int usage(struct fb_error *e, const char *cause, const char *remedy)
{
    return error_advise(e, error_set(e, FB_E_USAGE, "build", "%s", cause), "%s", remedy);
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
        return usage(e, "--length and --segment cannot be combined", "--length makes one row of a recording, --segment many");
    if (is_given(q->stride) && !is_given(q->segment))
        return usage(e, "--stride needs --segment", "--stride is the distance between the beginnings of segments");
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
    struct dataset_request r = dataset_request_of(o, NULL);
    FB_TRY(dataset_open(&p->dataset, &r, e));
    if (p->dataset.root_fd < 0 || p->dataset.io)
        return usage(e, "recordings must be files of this machine", "`fullbore stage` copies a bucket to a local folder");
    if (p->dataset.family != FAMILY_SOUND)
        return error_advise(
            e, error_set(e, FB_E_USAGE, "build", "it holds %s, not sound", p->dataset.family == FAMILY_IMAGE ? "pictures" : "arrays"),
            "WAV, FLAC and other recordings are wanted; for others use fullbore.build of the Python package");
    p->files = catalog_count(p->dataset.catalog);
    return p->files > UINT32_MAX - 1 ? usage(e, "more than 4 billion recordings", "build several files") : 0;
}

/* By the key's hash alone: what is added later changes nobody's side. */
static int side_of(const struct build_plan *p, const char *key)
{
    double sum = 0, at = 0, x = (double)(hash_choice_of(CHOICE_SPLIT, p->q->seed, key) >> 11) * 0x1p-53;
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
static int probe_first(struct build_plan *p, uint32_t *rate, uint64_t *samples, uint64_t *bytes, struct fb_error *e)
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
            rc = build_sound_probe(&s, &where, rate, samples, &mine);
        *bytes = s.size;
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
    uint64_t samples = 0, bytes = 0;
    bool is_said = q->rate && (is_given(q->length) || is_given(q->segment));
    int rc = probe_first(p, &rate, &samples, &bytes, e);
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
    p->samples_per_byte = samples && bytes ? (double)samples / (double)bytes : 1;
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

/* ---- memory ---- */

static uint64_t guess_rows(const struct build_plan *p, const struct catalog_sample *s)
{
    uint64_t rows = p->is_segmented ? build_rows_of(p, (uint64_t)((double)s->length * p->samples_per_byte)) : 1;
    return rows ? rows : 1;
}

uint64_t build_files_of_task(const struct build_plan *p, uint64_t first, uint64_t end)
{
    uint64_t rows = 0, n = 0;
    for (; first + n < end && n < MOST_TASK_FILES; n++) {
        struct catalog_sample s;
        if (p->is_segmented && catalog_sample(p->dataset.catalog, p->file[first + n], &s, NULL) == 0)
            rows += guess_rows(p, &s);
        else
            rows++;
        if (rows > p->task_rows && n)
            break;
    }
    return n;
}

static int guess_all_rows(struct build_plan *p, struct fb_error *e)
{
    p->rows_guessed = p->is_segmented ? 0 : p->files;
    p->rows_of_largest = 1;
    for (uint64_t i = 0; i < p->files && p->is_segmented; i++) {
        struct catalog_sample s;
        FB_TRY(catalog_sample(p->dataset.catalog, i, &s, e));
        uint64_t rows = guess_rows(p, &s);
        p->rows_guessed += rows;
        p->rows_of_largest = rows > p->rows_of_largest ? rows : p->rows_of_largest;
    }
    return 0;
}

static int too_little(uint64_t need, uint64_t has, struct fb_error *e)
{
    char words[2][32];
    return error_advise(e,
                        error_set(e, FB_E_BUDGET, "build", "%s of memory are needed, the budget is %s",
                                  text_size(need, words[0], sizeof(words[0])), text_size(has, words[1], sizeof(words[1]))),
                        "give more --memory, or fewer --threads or --chunk-rows");
}

/* The budget is divided beforehand, so that nobody waits for memory that somebody who waits for him has. Three eighths are for one
 * recording that is larger than usual, whatever else is asked for: which ones are too large must not depend on the number of threads. Of
 * what others leave, half is for recordings under way (twice a quarter, for buffers are kept from one to the next) and half for rows. */
static int divide_memory(struct build_plan *p, uint64_t wanted_rows, struct fb_error *e)
{
    uint64_t threads = (uint64_t)p->threads, row = p->row_bytes + sizeof(struct build_row);
    uint64_t copies = p->q->deflate ? 2 : 1; /* rows, and deflated */
    p->large_bytes = p->memory / 8 * 3;
    p->thread_bytes = p->mel ? log_mel_work_bytes(p->mel) + p->row_numbers * sizeof(float) + 4096 : 0;
    p->thread_bytes += (p->q->deflate ? 3 : 0) * p->chunk_rows * p->row_bytes;
    p->table_bytes = between(2 * p->rows_guessed * sizeof(struct build_row), p->memory / 8, UINT64_MAX) & ~UINT64_C(4095);
    uint64_t fixed = threads * p->thread_bytes + p->chunk_rows * row + p->table_bytes;
    uint64_t least = fixed + 2 * (threads * LEAST_SOUND + row * copies), large = LEAST_SOUND + p->window * sizeof(float) + row;
    uint64_t need = between(least / 5 * 8, large / 3 * 8, UINT64_MAX);
    if (p->memory < need)
        return too_little(need, p->memory, e);
    uint64_t rest = p->memory - p->large_bytes - fixed, most = between(rest / 2 / (threads + 2) / copies, row, UINT64_MAX);
    p->sound_bytes = rest / 4 / threads;
    p->task_bytes = between(between(p->rows_of_largest, wanted_rows, UINT64_MAX / row) * row, row, most);
    p->task_rows = between(wanted_rows, 1, p->task_bytes / row);
    p->task_limit = between(rest / 2 / (p->task_bytes * copies), 1, threads * MOST_TASKS_PER_THREAD);
    return 0;
}

/* As many rows as make whole pages, for those who write them; never more. */
static uint64_t in_whole_pages(uint64_t rows, uint64_t row_bytes)
{
    uint64_t least = 1;
    while (least <= rows && least * row_bytes % BUILD_PAGE)
        least++;
    return least <= rows ? rows - rows % least : rows;
}

bool build_has_direct_pieces(const struct build_plan *p)
{
    uint64_t piece = p->task_rows * p->row_bytes;
    bool begins_at_sector = p->row_bytes % BUILD_SECTOR == 0 || (!p->is_segmented && piece % BUILD_PAGE == 0);
    return !p->q->deflate && !p->chunk_rows && begins_at_sector && piece >= BUILD_LEAST_DIRECT;
}

static int choose_layout(struct build_plan *p, struct fb_error *e)
{
    const struct build_request *q = p->q;
    p->threads = q->options.threads > 0 ? q->options.threads : host_cores();
    p->threads = p->threads > MOST_THREADS ? MOST_THREADS : p->threads;
    p->chunk_rows = q->chunk_rows ? q->chunk_rows : q->deflate ? between(CHUNK_BYTES / p->row_bytes, 1, 1024) : 0;
    if (p->chunk_rows > (UINT32_MAX >> 1) / p->row_bytes)
        return usage(e, "a chunk would have more than 2 GiB", "choose fewer --chunk-rows");
    FB_TRY(guess_all_rows(p, e));
    /* Tasks as large as chunks spare copying; small ones spread the work and keep memory low. */
    return divide_memory(p, p->chunk_rows ? p->chunk_rows : in_whole_pages(between(TASK_BYTES / p->row_bytes, 1, 256), p->row_bytes), e);
}

/* ---- what the output depends on ---- */

static void find_question(struct build_plan *p)
{
    const struct build_request *q = p->q;
    struct text t = {.limit = 4096};
    text_printf(&t, "%s|%d|%u %u %u %a %a %d %a %d|%u %d|%llu %llu %d %d|%a %a %a %llu|%d %llu %d", FB_VERSION, q->is_raw, q->n_mels,
                q->n_fft, q->hop_length, q->f_min, q->f_max, q->is_htk, q->top_db, q->is_exact, p->rate, q->is_mono,
                (unsigned long long)p->window, (unsigned long long)p->stride, p->is_segmented, p->is_padded, q->share[0], q->share[1],
                q->share[2], (unsigned long long)q->seed, (int)q->dtype, (unsigned long long)p->chunk_rows, q->deflate);
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
