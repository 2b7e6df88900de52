/* The user's list of transforms: its text, "name key=value,value; name ...", as steps with their parameters. */
#ifndef FB_TRANSFORM_STEP_LIST_H
#define FB_TRANSFORM_STEP_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct json_writer;
struct transform_ops;

enum { STEP_LIST_MAX = 16 };

/* What a data set has, and a transform takes. */
enum { TAKES_IMAGES = 1, TAKES_SOUND = 2, TAKES_ARRAYS = 4 };

struct step {
    const struct transform_ops *ops;
    void *params;
    uint32_t stream; /* number among the random steps */
    bool is_folded;  /* a flip that the store does */
    int first_label; /* in pipeline.label, if it has any */
};

struct step_list {
    int count;
    struct step step[STEP_LIST_MAX + 1]; /* and one that says how the result is written */
};

/* FB_E_USAGE names the transform and the option. On failure as well there is something to free. */
int step_list_parse(struct step_list *l, const char *spec, unsigned takes, struct fb_error *e);
void step_list_free(struct step_list *l);

/* Draws of steps that follow one another, all of one `show` hook at once; value[i] are those of step[i], `planes` times. */
void step_list_show(const struct step *const *step, const double *const *value, int count, uint64_t planes, struct json_writer *w);

#endif
