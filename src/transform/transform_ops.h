/* The shape of a transform: one static const table per name, listed in transform_list.c.
 *
 * Coordinates: a step sees its whole logical input (in_height x in_width) and makes a whole logical output, but only the part that later
 * steps need is ever computed. `back` says which part of the input that takes. When `apply` runs, the image at hand covers exactly
 * `s->need` of the input, and must cover exactly `out` of the output afterwards.
 *
 * Hooks are pure: called by any thread, several at once; they neither allocate nor block. Parameters are read-only after `check`.
 */
#ifndef FB_TRANSFORM_OPS_H
#define FB_TRANSFORM_OPS_H

#include "base/text/options.h"
#include "transform/pipeline.h"

enum {
    TRANSFORM_IS_RANDOM = 1,    /* draws: gets its own stream of randomness */
    TRANSFORM_IS_POINTWISE = 2, /* each output pixel depends on the input pixel at its place (and on the multiset of all) */
    TRANSFORM_IS_FLIP = 4,      /* draw.hflip or draw.vflip; folded into the last step when only pointwise steps follow */
    TRANSFORM_IS_LAST = 8       /* says how the result is written; nothing may follow */
};

/* Memory a step may use while it runs. */
struct step_memory {
    uint8_t *pixels; /* for its result, `pixels_stride` bytes per row; may be the sample's place itself */
    size_t pixels_stride;
    void *work; /* 64-byte aligned */
};

/* Labels that a step refers to, as lists of names in its options say. */
enum { STEP_MAX_LABELS = 32, LABEL_NAME_BYTES = 80 };
struct step_labels {
    int count;
    struct {
        enum label_use use;
        char name[LABEL_NAME_BYTES];
    } label[STEP_MAX_LABELS];
};
/* Adds the names of "a,b,c"; for LABEL_SWAP "a:b,c:d". FB_E_USAGE with the transform's name. */
int label_names_option(struct step_labels *l, const char *text, enum label_use use, const char *what, struct fb_error *e);

struct resample;

struct transform_ops {
    const char *name;
    unsigned flags;
    const struct option *options;
    size_t params_size;

    /* MAY. Fills zeroed params with the defaults. */
    void (*defaults)(void *params);
    /* MAY. Checks params that belong together and makes them ready. FB_E_USAGE. */
    int (*check)(void *params, struct fb_error *e);
    /* MAY. After check, when the image will be a mask, whose numbers must not be blended: changes params so that the same draws give the same
     * geometry without. Steps that are pointwise are left out altogether. */
    void (*for_mask)(void *params);
    /* MAY. The labels it reads (then s->labels has their values in plan) or changes. */
    const struct step_labels *(*labels)(const void *params);
    /* MAY. The size of every output, given whether the input's is fixed; missing: as the input. True: *height x *width. */
    bool (*fixed)(const void *params, bool is_fixed, uint32_t *height, uint32_t *width);

    /* MUST unless it is last. Draws, and sets out_height and out_width from in_*. FB_E_DATA: the image does not fit. */
    int (*plan)(const void *params, struct rng *rng, struct step_plan *s, struct draw *d, struct fb_error *e);
    /* MAY. As the first step, on a source that can be decoded at 1/2, 1/4 or 1/8 of its size, when the user asked for that by name: how much
     * to reduce it (1: not), and the plan changed to the reduced input. */
    uint32_t (*draft)(const void *params, struct step_plan *s);
    /* MAY. The part of the input that `out` of the output needs, never empty; missing: the same part. */
    struct region (*back)(const void *params, const struct step_plan *s, struct region out);
    /* MAY. The part of the input that is seen in `out` (without margins for filters); missing: as `back`. */
    struct region (*seen)(const void *params, const struct step_plan *s, struct region out);
    /* MAY. True: with this plan apply would change nothing; then it is not called. Missing: false. */
    bool (*is_idle)(const void *params, const struct step_plan *s, struct region out);
    /* MAY. Bytes of work memory for apply; *is_in_place false: it writes its result to memory->pixels. Missing: none, in place. */
    size_t (*memory)(const void *params, const struct step_plan *s, struct region out, bool *is_in_place);
    /* MAY. What apply does is this resampling and nothing else; it may then be done while the image is decoded. */
    void (*resample)(const void *params, const struct step_plan *s, struct region out, struct resample *job);
    /* MUST unless it is last. */
    void (*apply)(const void *params, const struct step_plan *s, struct region out, struct image *image, const struct step_memory *m);
};

/* The list, and the look-up by name ('-' and '_' are the same). NULL: unknown. */
const struct transform_ops *transform_find(const char *name);
/* The known name closest to a misspelt one. */
const char *transform_nearest(const char *name);
extern const struct transform_ops *const transform_list[]; /* NULL-terminated */

/* Pillow's choice of a draft: the largest of 8, 4, 2, 1 that leaves at least the wanted size. */
uint32_t draft_scale(uint32_t height, uint32_t width, uint32_t wanted_height, uint32_t wanted_width);

/* Options that several transforms share. */
/* "224" or "224,224" into whole numbers; `what` names the transform. */
int size_option(const struct option_numbers *n, uint32_t *height, uint32_t *width, const char *what, struct fb_error *e);
extern const char *const interpolation_names[]; /* in the order of enum resample_kind */

#endif
