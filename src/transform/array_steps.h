/* Steps of sound and arrays: the user's list, compiled once, run once per sample by any number of threads.
 *
 * The steps at the front of the list cost nothing of their own: which frames or instances are read (crop_or_pad, sample_instances), mixing
 * channels and normalising while numbers are converted. From the first step on that needs whole planes of floats (log_mel, spec_augment)
 * the rest runs in order, plane by plane: a channel of a recording, or the last two dimensions of an array. What an order would need that
 * this cannot do is refused when the list is opened.
 *
 * All steps of a sample draw from its one stream, in order.
 */
#ifndef FB_TRANSFORM_ARRAY_STEPS_H
#define FB_TRANSFORM_ARRAY_STEPS_H

#include "base/rng.h"
#include "model/sound_clip.h"
#include "transform/step_list.h"

enum { DRAW_NUMBERS_MAX = 1 << 20 }; /* kept of each sample: 8 MiB */

/* What a step works on. */
struct planes {
    uint64_t count;         /* channels; arrays: all dimensions but the last two */
    uint64_t rows, columns; /* mels and frames; of sound not yet transformed: rows 0, and `columns` samples */
    bool is_sound;
    uint32_t rate; /* of sound: samples per second */
};

/* 1 pair of numbers, or one per channel or column: out = (in - mean) * inv_std. */
struct step_norm {
    uint64_t count; /* 0: none */
    const float *mean, *inv_std;
};

struct array_steps {
    struct step_list list;
    int first_whole; /* the first step that runs on whole planes; list.count: none does */
    bool is_cropped; /* every recording gets `samples` frames */
    uint64_t samples;
    bool is_mono;
    uint64_t instances;          /* drawn from each bag; 0: all */
    struct step_norm norm;       /* while converting */
    bool is_normalized;          /* here or later: the result has floats */
    bool has_plain_silence;      /* normalised before it was padded: silence is 0 as it is */
    struct planes in, out;       /* of the steps on planes; after array_steps_shape */
    uint32_t draw_numbers;       /* kept of each sample; after array_steps_shape */
    int draws_at[STEP_LIST_MAX]; /* of each step in the record */
    size_t work_bytes;           /* for array_steps_run, 64-byte aligned */
};

/* takes: TAKES_SOUND or TAKES_ARRAYS. FB_E_USAGE names the step. On failure as well there is something to close. */
int array_steps_open(struct array_steps *s, const char *spec, unsigned takes, struct fb_error *e);
void array_steps_close(struct array_steps *s);
/* What the steps on planes are given; s->out is what they make of it. May be called again. */
int array_steps_shape(struct array_steps *s, const struct planes *in, struct fb_error *e);

static inline bool array_steps_has_whole(const struct array_steps *s)
{
    return s->first_whole < s->list.count;
}

/* Which frames of a recording of `there` are used. */
struct clip array_steps_clip(const struct array_steps *s, uint64_t there, struct rng *r, double *record);
/* One plane. `in` may be `out` where no step makes another shape; it may be overwritten. FB_E_DATA: too short. */
int array_steps_run(const struct array_steps *s, uint64_t plane, float *in, float *out, void *work, struct rng *r, double *record,
                    struct fb_error *e);
void array_steps_show(const struct array_steps *s, const double *record, struct json_writer *w);

#endif
