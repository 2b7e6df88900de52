/* The structs of a pipeline, for its own files only. */
#ifndef FB_TRANSFORM_PIPELINE_INTERNAL_H
#define FB_TRANSFORM_PIPELINE_INTERNAL_H

#include "transform/image/levels.h"
#include "transform/transform_ops.h"

struct pipeline {
    struct step_list list;
    int step_count;    /* of these, without the last one that only says how to write */
    struct step *step; /* those of the list */
    bool is_normalized, is_mask;
    int (*number)(const struct image *image, uint64_t *out, struct fb_error *e); /* instead of pixels; NULL: pixels */
    bool gives_numbers;                                                          /* a mask's last */
    enum fb_dtype dtype;
    enum fb_layout layout;
    bool exif;
    bool is_fixed;
    uint32_t height, width; /* if fixed */
    struct levels levels;
    int label_count;
    struct pipeline_label label[PIPELINE_MAX_LABELS];
};

static inline struct region region_of_size(uint32_t height, uint32_t width)
{
    return (struct region){0, 0, height, width};
}

/* The part of step i's output that is computed. */
static inline struct region step_out(const struct pipeline *p, const struct plan *plan, int i)
{
    return i + 1 < p->step_count ? plan->step[i + 1].need : region_of_size(plan->out_height, plan->out_width);
}

static inline bool step_is_idle(const struct pipeline *p, const struct plan *plan, int i)
{
    const struct transform_ops *ops = p->step[i].ops;
    if (p->is_mask && ops->flags & TRANSFORM_IS_POINTWISE)
        return true;
    return p->step[i].is_folded || (ops->is_idle && ops->is_idle(p->step[i].params, &plan->step[i], step_out(p, plan, i)));
}

/* How the scratch of a run is divided: images made on the way alternate between two buffers. */
struct run_memory {
    size_t image_bytes[2];
    size_t work_bytes;
    int last_made; /* the last step that makes a new image; -1: none, or only the orientation does */
};
struct run_memory run_memory_of(const struct pipeline *p, const struct plan *plan);

static inline int plan_orientation(const struct pipeline *p, const struct plan *plan)
{
    return p->exif && plan->header.orientation >= 1 && plan->header.orientation <= 8 ? plan->header.orientation : 1;
}

/* What the folded flips come to. */
void plan_folded_flips(const struct pipeline *p, const struct plan *plan, bool *hflip, bool *vflip);

#endif
