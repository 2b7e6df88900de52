/* The user's transforms: pipelines, with functions of the caller's between them.
 *
 * The text is cut at each "map" step. Every part but the last gives packed 8-bit pixels; the part after a map is planned with the size that
 * came back. Random steps are numbered through all parts, so adding or removing a map does not change the draws of other steps. Constant
 * after step_chain_bind.
 */
#ifndef FB_FEED_SINGLE_STEP_CHAIN_H
#define FB_FEED_SINGLE_STEP_CHAIN_H

#include "feed/labels.h"
#include "transform/pipeline.h"

enum { CHAIN_MAX_MAPS = 8 };

struct step_chain_map {
    char name[96];
    uint32_t height, width; /* promised size of every result; 0: as its input, as far as anybody knows */
};

struct step_chain {
    int map_count;
    bool is_mask; /* of the masks: functions are left out */
    struct pipeline *part[CHAIN_MAX_MAPS + 1];
    struct step_chain_map map[CHAIN_MAX_MAPS];
    struct label_at *at[CHAIN_MAX_MAPS + 1]; /* of each pipeline_label */
};

int step_chain_open(struct step_chain *c, const char *spec, enum fb_dtype dtype, enum fb_layout layout, bool exif, struct fb_error *e);
/* The same transforms as a mask sees them: pipeline_open_mask. */
int step_chain_open_mask(struct step_chain *c, const char *spec, bool exif, struct fb_error *e);
/* Finds the labels that the transforms refer to. */
int step_chain_bind(struct step_chain *c, const struct labels *l, struct fb_error *e);
void step_chain_close(struct step_chain *c);

/* The part that writes the result. */
static inline const struct pipeline *step_chain_last(const struct step_chain *c)
{
    return c->part[c->map_count];
}

bool step_chain_fixed_size(const struct step_chain *c, uint32_t *height, uint32_t *width);
/* The size that an image with these labels comes out with, if maps keep their promises. */
int step_chain_size_of(const struct step_chain *c, const struct image_header *h, void *const *values, uint32_t *height, uint32_t *width,
                       struct fb_error *e);

/* Plans one part. values: where each label of the sample lies; those that the plan changes are changed. */
int step_chain_plan(const struct step_chain *c, int part, const struct image_header *h, struct rng rng, void *const *values,
                    struct plan *plan, struct fb_error *e);

#endif
