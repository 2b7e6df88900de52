/* A pipeline: the user's list of transforms, compiled once, run once per sample by any number of threads.
 *
 * For each sample it is planned from the header alone (draws, sizes, which source region is needed), then run on the decoded region,
 * straight into the sample's place. Pixels equal the pinned Pillow's (uint8) and torch's (normalised) for the same draws.
 */
#ifndef FB_TRANSFORM_PIPELINE_H
#define FB_TRANSFORM_PIPELINE_H

#include "base/budget.h"
#include "base/rng.h"
#include "model/codec_ops.h"
#include "model/image.h"
#include "model/place.h"
#include "transform/step_list.h"

struct pipeline; /* immutable after open; shared by threads */

/* spec: "random_resized_crop size=224,224 scale=0.08,1; random_horizontal_flip p=0.5; normalize mean=... std=..."; NULL or "": nothing.
 * dtype 0: float32 if the spec normalises, else uint8. FB_E_USAGE names the transform and the option. */
int pipeline_open(struct pipeline **out, const char *spec, enum fb_dtype dtype, enum fb_layout layout, bool exif, struct fb_error *e);
/* The same transforms for a mask that belongs to the image: one 8-bit number per pixel, uint8 height x width in its place. From the same
 * stream of randomness it draws the same geometry; it never blends (resizing is nearest), and colours and normalize leave it alone. The
 * decoded region has the number in all three channels: pixels that differ are FB_E_DATA, since a mask has no colours. is_last
 * false: others follow, the result has three channels, too (uint8, NHWC). */
int pipeline_open_mask(struct pipeline **out, const char *spec, bool exif, bool is_last, struct fb_error *e);
void pipeline_close(struct pipeline *p);

enum fb_dtype pipeline_dtype(const struct pipeline *p);
enum fb_layout pipeline_layout(const struct pipeline *p);
/* The size every sample comes out with, or false: it depends on the sample's own size. */
bool pipeline_fixed_size(const struct pipeline *p, uint32_t *height, uint32_t *width);

/* Several pipelines after one another (the caller's own functions run between them) number their random steps as one: how many there are,
 * and where the numbers of this one begin. Before the first plan. */
uint32_t pipeline_stream_count(const struct pipeline *p);
void pipeline_set_first_stream(struct pipeline *p, uint32_t first);

/* Labels that the steps refer to by name, "yaw" or "pose[0]". Those read have their values given to pipeline_plan_labelled; those changed
 * are the caller's to change, when pipeline_is_drawn says that the step took place. A swap is two entries. */
enum label_use { LABEL_READ, LABEL_NEGATE, LABEL_SWAP };
struct pipeline_label {
    const char *name;
    const char *transform; /* whose */
    enum label_use use;
    int step;
};
int pipeline_label_count(const struct pipeline *p);
struct pipeline_label pipeline_label(const struct pipeline *p, int i);

enum { PIPELINE_MAX_STEPS = STEP_LIST_MAX, PIPELINE_MAX_LABELS = 64, STEP_VALUES = 8 };
struct step_plan { /* what one transform decided for one sample; meaning private to that transform */
    uint32_t in_height, in_width, out_height, out_width;
    struct region need;        /* the part of its input that later steps need */
    double value[STEP_VALUES]; /* draws, and what follows from them */
    const double *labels;      /* values of the labels it refers to; only while it is planned */
};
struct plan {
    struct image_header header;
    struct region region; /* source pixels to decode, before orientation */
    uint32_t out_height, out_width;
    size_t scratch_bytes; /* that pipeline_run will need, beside the decoded region itself */
    struct region seen;   /* what the result shows, in source pixels after orientation */
    struct step_plan step[PIPELINE_MAX_STEPS];
};

/* Draws everything random from `rng` and works out what to decode. FB_E_DATA: this image cannot go through (smaller than the crop, ...),
 * with the sizes in the cause. */
int pipeline_plan(const struct pipeline *p, const struct image_header *h, struct rng rng, struct plan *plan, struct fb_error *e);
/* The same for a pipeline that reads labels: one value for each pipeline_label, in that order. */
int pipeline_plan_labelled(const struct pipeline *p, const struct image_header *h, struct rng rng, const double *labels, struct plan *plan,
                           struct fb_error *e);
/* Did the draw make this step (a flip) happen? */
bool pipeline_is_drawn(const struct pipeline *p, const struct plan *plan, int step);

/* True when there are no steps at all and nothing says how the result is written. */
bool pipeline_is_plain(const struct pipeline *p);
/* True when the decoded region is the result (nothing to do but lie there): the codec may decode straight into the place. */
bool pipeline_is_identity(const struct pipeline *p, const struct plan *plan);

/* Runs the plan on the decoded region (which it may overwrite) into `out`. scratch: the calling thread's. */
int pipeline_run(const struct pipeline *p, const struct plan *plan, const struct image *decoded, const struct place *out,
                 struct scratch *scratch, struct fb_error *e);

/* The same while the region is decoded, for plans that begin by resizing it: no more than CODEC_RING_ROWS of its rows are ever in memory,
 * in `ring` (with the region's width and height). `decode` is called once and gives the rows to the taker; what it returns, if not 0, ends
 * the run and is returned. */
bool pipeline_takes_rows(const struct pipeline *p, const struct plan *plan);
typedef int pipeline_decode_fn(void *ctx, const struct image *ring, const struct row_taker *taker, struct fb_error *e);
int pipeline_run_rows(const struct pipeline *p, const struct plan *plan, const struct image *ring, pipeline_decode_fn *decode, void *ctx,
                      const struct place *out, struct scratch *scratch, struct fb_error *e);

/* Packed float32 pixels of the place's size, ready as they are, into a place of float dtype and any layout. */
void pipeline_store_floats(const float *in, const struct place *out);

/* Draws, kept with the sample so that they can be shown when somebody asks. One record for all pipelines that run one after another: what
 * the result shows of the source, then what the steps drew. */
uint32_t pipeline_draw_numbers(struct pipeline *const *part, int count);
void pipeline_keep_draws(struct pipeline *const *part, int which, const struct plan *plan, double *record);
/* As members of a JSON object: top, left, height, width, then those of the steps. */
void pipeline_show_draws(struct pipeline *const *part, int count, const double *record, struct json_writer *w);

/* Pillow's Image.resize with antialiasing on packed pixels (channels 1, 3, 4): used by fb_resize_image. */
int resize_image(const uint8_t *in, uint32_t height, uint32_t width, int channels, enum fb_filter filter, uint32_t out_height,
                 uint32_t out_width, uint8_t *out, struct fb_error *e);

#endif
