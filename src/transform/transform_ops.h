/* The shape of a transform: one static const table per name and kind of data, listed in transform_list.c. It owns its options, its draws
 * and how they are shown, the labels it reads or changes, its memory and its kernels.
 *
 * Coordinates of images: a step sees its whole logical input (in_height x in_width) and makes a whole logical output, but only the part
 * that later steps need is ever computed. `back` says which part of the input that takes. When `apply` runs, the image at hand covers
 * exactly `s->need` of the input, and must cover exactly `out` of the output afterwards.
 *
 * Hooks are pure: called by any thread, several at once; they neither allocate nor block. Parameters are read-only after `check`; those of
 * sound and arrays after `shape`.
 */
#ifndef FB_TRANSFORM_OPS_H
#define FB_TRANSFORM_OPS_H

#include "base/text/json_writer.h"
#include "base/text/options.h"
#include "transform/array_steps.h"
#include "transform/pipeline.h"

enum {
    TRANSFORM_IS_RANDOM = 1,    /* draws: gets its own stream of randomness */
    TRANSFORM_IS_POINTWISE = 2, /* each output pixel depends on the input pixel at its place (and on the multiset of all) */
    TRANSFORM_IS_HFLIP = 4,     /* left and right; folded into the last step when only pointwise steps follow */
    TRANSFORM_IS_VFLIP = 8,     /* the same of top and bottom */
    TRANSFORM_IS_LAST = 16      /* says how the result is written; nothing may follow */
};

/* How a step of sound and arrays is done; see array_steps.h. */
enum step_role {
    STEP_CONVERTS, /* a normalisation, while numbers are converted; by `run` if it stands behind a step that runs */
    STEP_CROPS,    /* chooses which frames are read */
    STEP_PICKS,    /* chooses which instances are read: `length` of them */
    STEP_MIXES,    /* channels, while they are converted */
    STEP_RUNS,     /* on whole planes, in place */
    STEP_RESHAPES  /* on whole planes; the result has another shape */
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

/* What a step drew for a sample: its step_plan.value; of sound and arrays its `draws` numbers, for each plane if it runs on planes. */
struct drawn {
    const void *params;
    const double *value;
    uint64_t planes;
};
enum { SHOWN_MAX = 256 }; /* steps whose draws are shown together */

/* A step at work on one plane of floats. */
struct step_run {
    uint64_t plane;
    struct planes planes; /* as they come */
    float *from, *to;     /* the same unless it reshapes */
    void *work;
    struct rng *rng;
    double *drawn; /* its record */
};

struct resample;
struct levels;

struct transform_ops {
    const char *name;
    unsigned takes; /* TAKES_* */
    unsigned flags;
    const struct option *options;
    size_t params_size;

    /* MAY. Fills zeroed params with the defaults. */
    void (*defaults)(void *params);
    /* MAY. Checks params that belong together and makes them ready. FB_E_USAGE. */
    int (*check)(void *params, struct fb_error *e);
    /* MAY. Frees what check and shape allocated. */
    void (*release)(void *params);
    /* MAY. Shows what was drawn as members of a JSON object. `d` has the draws of all steps with this hook, in their order, so that a key
     * is there once. Missing: nothing is shown, and nothing is kept. */
    void (*show)(const struct drawn *d, int count, struct json_writer *w);

    /* ---- images ---- */

    /* MAY. After check, when the image will be a mask, whose numbers must not be blended: changes params so that the same draws give the
     * same geometry without. Steps that are pointwise are left out altogether. */
    void (*for_mask)(void *params);
    /* MAY. The labels it reads (then s->labels has their values in plan) or changes. */
    const struct step_labels *(*labels)(const void *params);
    /* MAY. The size of every output, given whether the input's is fixed; missing: as the input. True: *height x *width. */
    bool (*fixed)(const void *params, bool is_fixed, uint32_t *height, uint32_t *width);

    /* MUST unless it is last. Draws, and sets out_height and out_width from in_*. FB_E_DATA: the image does not fit. */
    int (*plan)(const void *params, struct rng *rng, struct step_plan *s, struct fb_error *e);
    /* MAY. As the first step, on a source that can be decoded at 1/2, 1/4 or 1/8 of its size, when the user asked for that by name: how
     * much to reduce it (1: not), and the plan changed to the reduced input. */
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

    /* MAY, if it is last. The numbers that 8-bit pixels become. */
    void (*levels)(const void *params, struct levels *out);
    /* MAY, if it is last. One number of 64 bits that takes the place of the pixels. FB_E_NOMEM. */
    int (*number)(const struct image *image, uint64_t *out, struct fb_error *e);

    /* ---- sound and arrays ---- */

    enum step_role role;
    /* MAY. How many numbers of each sample are kept, to be shown; for each plane if it runs on planes. */
    uint32_t (*draws)(const void *params);
    /* STEP_CROPS, STEP_PICKS. How many frames or instances are left. */
    uint64_t (*length)(const void *params);
    /* STEP_CROPS. What is left of the clip. */
    void (*crop)(const void *params, struct rng *rng, struct clip *c, double *drawn);
    /* STEP_CONVERTS. */
    void (*norm)(const void *params, struct step_norm *n);
    /* Of those that run. Is told what it gets, and says what it makes of it; may be asked again. FB_E_USAGE: it cannot take that. */
    int (*shape)(void *params, struct planes *p, struct fb_error *e);
    size_t (*work_bytes)(const void *params); /* MAY; after shape */
    int (*run)(const void *params, const struct step_run *r, struct fb_error *e);
};

/* The list, and the look-up by name ('-' and '_' are the same) among those that take this kind of data. NULL: unknown. */
const struct transform_ops *transform_find(const char *name, unsigned takes);
/* The known name closest to a misspelt one. */
const char *transform_nearest(const char *name, unsigned takes);
extern const struct transform_ops *const transform_list[]; /* NULL-terminated */

/* Pillow's choice of a draft: the largest of 8, 4, 2, 1 that leaves at least the wanted size. */
uint32_t draft_scale(uint32_t height, uint32_t width, uint32_t wanted_height, uint32_t wanted_width);

/* Options that several transforms share. */
/* "224" or "224,224" into whole numbers; `what` names the transform. */
int size_option(const struct option_numbers *n, uint32_t *height, uint32_t *width, const char *what, struct fb_error *e);
extern const char *const interpolation_names[]; /* in the order of enum resample_kind */

#endif
