/* Lists of label names in the text of a transform. */
#include <stdio.h>
#include <string.h>

#include "transform/transform_ops.h"

static int add_name(struct step_labels *l, const char *name, size_t n, enum label_use use, const char *what, struct fb_error *e)
{
    if (n == 0 || n >= LABEL_NAME_BYTES)
        return error_set(e, FB_E_USAGE, "transform", "%s wants names of labels, each of 1 to %d bytes", what, LABEL_NAME_BYTES - 1);
    if (l->count == STEP_MAX_LABELS)
        return error_set(e, FB_E_USAGE, "transform", "%s has more than %d names", what, STEP_MAX_LABELS);
    memcpy(l->label[l->count].name, name, n);
    l->label[l->count].name[n] = 0;
    l->label[l->count++].use = use;
    return 0;
}

static int add_pair(struct step_labels *l, const char *pair, size_t n, const char *what, struct fb_error *e)
{
    const char *colon = memchr(pair, ':', n);
    if (!colon)
        return error_set(e, FB_E_USAGE, "transform", "%s wants pairs of labels: left:right", what);
    FB_TRY(add_name(l, pair, (size_t)(colon - pair), LABEL_SWAP, what, e));
    return add_name(l, colon + 1, n - (size_t)(colon + 1 - pair), LABEL_SWAP, what, e);
}

int label_names_option(struct step_labels *l, const char *text, enum label_use use, const char *what, struct fb_error *e)
{
    for (;;) {
        size_t n = strcspn(text, ",");
        FB_TRY(use == LABEL_SWAP ? add_pair(l, text, n, what, e) : add_name(l, text, n, use, what, e));
        if (!text[n])
            return 0;
        text += n + 1;
    }
}
