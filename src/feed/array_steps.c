#include "feed/array_steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/options.h"
#include "base/text/text.h"

struct crop_params {
    int64_t samples;
    bool random;
};
struct instances_params {
    int64_t count;
};
struct norm_params {
    const char *mean, *std;
};

static const struct option crop_options[] = {
    {"samples", OPTION_INT, offsetof(struct crop_params, samples), 1, 1e12, NULL, "N", "frames of every clip"},
    {"random", OPTION_FLAG, offsetof(struct crop_params, random), 0, 0, NULL, NULL,
     "longer recordings are cut at a random place (default: at the beginning)"},
    {0},
};
static const struct option instances_options[] = {
    {"count", OPTION_INT, offsetof(struct instances_params, count), 1, 1e9, NULL, "K", "instances drawn from each bag"},
    {0},
};
static const struct option norm_options[] = {
    {"mean", OPTION_STRING, offsetof(struct norm_params, mean), 0, 0, NULL, "M", "one number, or one per channel or column"},
    {"std", OPTION_STRING, offsetof(struct norm_params, std), 0, 0, NULL, "S", "one number, or one per channel or column; not 0"},
    {0},
};
static const struct option no_options[] = {{0}};

static int add_crop(struct array_steps *s, char *text, struct fb_error *e)
{
    struct crop_params p = {0};
    FB_TRY(options_parse_spec(crop_options, &p, text, "transform", "crop_or_pad", e));
    if (p.samples < 1)
        return error_set(e, FB_E_USAGE, "transform", "crop_or_pad: samples= is missing");
    s->is_cropped = true;
    s->crop_samples = (uint64_t)p.samples;
    s->crop_is_random = p.random;
    return 0;
}

static int add_mono(struct array_steps *s, char *text, struct fb_error *e)
{
    s->is_mono = true;
    return options_parse_spec(no_options, s, text, "transform", "mono", e);
}

static int add_instances(struct array_steps *s, char *text, struct fb_error *e)
{
    struct instances_params p = {0};
    FB_TRY(options_parse_spec(instances_options, &p, text, "transform", "sample_instances", e));
    if (p.count < 1)
        return error_set(e, FB_E_USAGE, "transform", "sample_instances: count= is missing");
    s->instances = (uint64_t)p.count;
    return 0;
}

/* "1,2,3" -> how many there are, into `out` if that is not NULL; -1: something else. */
static int64_t read_numbers(const char *text, float *out)
{
    int64_t count = 0;
    for (const char *end; text && *text; text = end + 1) {
        double value;
        if (!text_parse_double(text, &value, &end) || !isfinite((float)value) || count == ARRAY_NORM_MAX)
            return -1;
        if (out)
            out[count] = (float)value;
        count++;
        if (!*end)
            return count;
        if (*end != ',')
            return -1;
    }
    return -1;
}

/* Three times the same number are one: mixing channels and rows of any width can use it. */
static bool are_equal(const float *x, uint64_t n)
{
    for (uint64_t i = 1; i < n; i++)
        if (x[i] != x[0])
            return false;
    return true;
}

static void free_norm(struct array_steps *s)
{
    free(s->mean);
    free(s->inv_std);
    s->mean = s->inv_std = NULL;
}

static int add_norm(struct array_steps *s, char *text, struct fb_error *e)
{
    struct norm_params p = {0};
    FB_TRY(options_parse_spec(norm_options, &p, text, "transform", "normalize", e));
    int64_t count = read_numbers(p.mean, NULL);
    if (count < 1 || read_numbers(p.std, NULL) != count)
        return error_set(e, FB_E_USAGE, "transform", "normalize: mean= and std= want the same count of numbers, 1 to %d", ARRAY_NORM_MAX);
    free_norm(s);
    s->mean = malloc((size_t)count * sizeof(*s->mean));
    s->inv_std = malloc((size_t)count * sizeof(*s->inv_std));
    if (!s->mean || !s->inv_std)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    read_numbers(p.mean, s->mean);
    read_numbers(p.std, s->inv_std);
    s->norm_count = are_equal(s->mean, (uint64_t)count) && are_equal(s->inv_std, (uint64_t)count) ? 1 : (uint64_t)count;
    for (uint64_t i = 0; i < s->norm_count; i++) {
        if (s->inv_std[i] == 0)
            return error_set(e, FB_E_USAGE, "transform", "normalize: std= must not be 0");
        s->inv_std[i] = 1.0f / s->inv_std[i];
    }
    s->has_norm = true;
    return 0;
}

static int add_log_mel(struct array_steps *s, char *text, struct fb_error *e)
{
    if (s->has_norm)
        return error_set(e, FB_E_USAGE, "transform", "normalize stands behind log_mel: it is for what comes out");
    return spectrogram_add_log_mel(&s->spectrogram, text, e);
}

static int add_masks(struct array_steps *s, char *text, struct fb_error *e)
{
    return spectrogram_add_masks(&s->spectrogram, text, e);
}

/* Behind log_mel it is the spectrogram that is normalised, not the samples. */
static void pass_norm(struct array_steps *s)
{
    if (!s->spectrogram.is_wanted || !s->has_norm)
        return;
    s->spectrogram.norm_count = s->norm_count;
    s->spectrogram.mean = s->mean;
    s->spectrogram.inv_std = s->inv_std;
    s->has_norm = false;
    s->norm_count = 0;
}

void array_steps_free(struct array_steps *s)
{
    spectrogram_close(&s->spectrogram);
    free_norm(s);
}

static const struct kind {
    const char *name;
    bool is_for_sound, is_for_arrays;
    int (*add)(struct array_steps *s, char *text, struct fb_error *e);
} kinds[] = {
    {"crop_or_pad", true, false, add_crop}, {"mono", true, false, add_mono},          {"sample_instances", false, true, add_instances},
    {"log_mel", true, false, add_log_mel},  {"spec_augment", true, false, add_masks}, {"normalize", true, true, add_norm},
};

static int refuse(const char *name, bool is_sound, struct fb_error *e)
{
    char shown[64], list[160] = "";
    error_set(e, FB_E_USAGE, "transform", "there is no transform '%s' for %s", text_escape(name, shown, sizeof(shown)),
              is_sound ? "sound" : "arrays");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (is_sound ? kinds[i].is_for_sound : kinds[i].is_for_arrays) {
            strcat(list, list[0] ? ", " : "");
            strcat(list, kinds[i].name);
        }
    error_remedy(e, "there are: %s", list);
    return FB_E_USAGE;
}

static int add_step(struct array_steps *s, char *text, bool is_sound, struct fb_error *e)
{
    char *name = text + strspn(text, " \t\r\n"), *end = name + strcspn(name, " \t\r\n");
    if (!*name)
        return 0;
    char *rest = *end ? end + 1 : end;
    *end = 0;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, name) == 0 && (is_sound ? kinds[i].is_for_sound : kinds[i].is_for_arrays))
            return kinds[i].add(s, rest, e);
    return refuse(name, is_sound, e);
}

int array_steps_parse(struct array_steps *s, const char *spec, bool is_sound, struct fb_error *e)
{
    *s = (struct array_steps){0};
    char *copy = strdup(spec ? spec : "");
    if (!copy)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    int rc = 0;
    for (char *item = copy, *next; rc == 0 && item; item = next) {
        next = strchr(item, ';');
        if (next)
            *next++ = 0;
        rc = add_step(s, item, is_sound, e);
    }
    pass_norm(s);
    free(copy);
    return rc;
}
