/* The text of a pipeline, "name key=value,value; name ...", into its steps. */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "transform/image/normalize.h"
#include "transform/pipeline_internal.h"
#include "transform/transform_list.h"

enum { SPEC_MAX_BYTES = 1 << 16 };
static const char blanks[] = " \t\r\n";

/* Cuts the first word off `text` and returns it; NULL: there is none. */
static char *cut_word(char **text)
{
    char *word = *text + strspn(*text, blanks);
    if (!*word)
        return NULL;
    char *end = word + strcspn(word, blanks);
    *text = *end ? end + 1 : end;
    *end = 0;
    return word;
}

static int refuse_name(const char *name, struct fb_error *e)
{
    char shown[64];
    error_set(e, FB_E_USAGE, "transform", "there is no transform '%s'", text_escape(name, shown, sizeof(shown)));
    error_remedy(e, "did you mean %s?", transform_nearest(name));
    return FB_E_USAGE;
}

/* Nothing may follow a transform that says how the result is written. */
static int check_place(const struct pipeline *p, const struct transform_ops *ops, struct fb_error *e)
{
    const char *last = p->is_normalized ? "normalize" : p->is_digest ? "digest" : NULL;
    if (last && strcmp(last, ops->name) == 0)
        return error_set(e, FB_E_USAGE, "transform", "%s appears twice", last);
    if (last)
        return error_set(e, FB_E_USAGE, "transform", "%s must be the last transform, but %s follows", last, ops->name);
    if (p->step_count == PIPELINE_MAX_STEPS && !(ops->flags & TRANSFORM_IS_LAST))
        return error_set(e, FB_E_USAGE, "transform", "more than %d transforms", PIPELINE_MAX_STEPS);
    return 0;
}

static int read_params(const struct transform_ops *ops, void *params, char *text, struct fb_error *e)
{
    if (ops->defaults)
        ops->defaults(params);
    FB_TRY(options_parse_spec(ops->options, params, text, "transform", ops->name, e));
    return ops->check ? ops->check(params, e) : 0;
}

static void add_last(struct pipeline *p, const struct transform_ops *ops, const void *params)
{
    p->is_digest = ops == &transform_digest;
    p->is_normalized = ops == &transform_normalize;
    if (p->is_normalized)
        normalize_levels(params, &p->levels);
}

static int add_step(struct pipeline *p, char *text, struct fb_error *e)
{
    char *name = cut_word(&text);
    if (!name) /* "a; ; b" and a last ';' are fine */
        return 0;
    const struct transform_ops *ops = transform_find(name);
    if (!ops)
        return refuse_name(name, e);
    FB_TRY(check_place(p, ops, e));
    void *params = calloc(1, ops->params_size + 1);
    if (!params)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for %s", ops->name);
    int rc = read_params(ops, params, text, e);
    if (rc == 0 && !(ops->flags & TRANSFORM_IS_LAST)) {
        p->step[p->step_count++] = (struct step){.ops = ops, .params = params};
        return 0;
    }
    if (rc == 0)
        add_last(p, ops, params);
    free(params);
    return rc;
}

int pipeline_parse(struct pipeline *p, const char *spec, struct fb_error *e)
{
    if (strlen(spec) > SPEC_MAX_BYTES)
        return error_set(e, FB_E_USAGE, "transform", "the text of the transforms is longer than %d bytes", SPEC_MAX_BYTES);
    char *copy = strdup(spec);
    if (!copy)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for the transforms");
    int rc = 0;
    for (char *item = copy, *next; rc == 0 && item; item = next) {
        next = strchr(item, ';');
        if (next)
            *next++ = 0;
        rc = add_step(p, item, e);
    }
    free(copy);
    return rc;
}

void pipeline_free_steps(struct pipeline *p)
{
    for (int i = 0; i < p->step_count; i++)
        free(p->step[i].params);
    p->step_count = 0;
}
