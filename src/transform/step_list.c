#include "transform/step_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "transform/transform_ops.h"

enum { SPEC_MAX_BYTES = 4 << 20 }; /* normalising may take a number for each column */
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

static const char *family_name(unsigned takes)
{
    return takes & TAKES_IMAGES ? "images" : takes & TAKES_SOUND ? "sound" : "arrays";
}

static void remedy_list(unsigned takes, struct fb_error *e)
{
    char line[300] = "";
    struct text t = TEXT_OVER(line);
    for (const struct transform_ops *const *ops = transform_list; *ops; ops++)
        if ((*ops)->takes & takes)
            text_printf(&t, "%s%s", t.length ? ", " : "", (*ops)->name);
    error_remedy(e, "there are: %s", line);
}

static int refuse_name(const char *name, unsigned takes, struct fb_error *e)
{
    char shown[64];
    const struct transform_ops *other = transform_find(name, TAKES_IMAGES | TAKES_SOUND | TAKES_ARRAYS);
    error_set(e, FB_E_USAGE, "transform", "there is no transform '%s' for %s", text_escape(name, shown, sizeof(shown)), family_name(takes));
    if (!(takes & TAKES_IMAGES)) /* few enough to be listed */
        remedy_list(takes, e);
    else if (other)
        error_remedy(e, "%s is for %s", other->name, family_name(other->takes));
    else
        error_remedy(e, "did you mean %s?", transform_nearest(name, takes));
    return FB_E_USAGE;
}

/* Nothing may follow a transform that says how the result is written. */
static int check_place(const struct step_list *l, const struct transform_ops *ops, struct fb_error *e)
{
    const struct transform_ops *last = l->count ? l->step[l->count - 1].ops : NULL;
    if (last && last->flags & TRANSFORM_IS_LAST && last == ops)
        return error_set(e, FB_E_USAGE, "transform", "%s appears twice", ops->name);
    if (last && last->flags & TRANSFORM_IS_LAST)
        return error_set(e, FB_E_USAGE, "transform", "%s must be the last transform, but %s follows", last->name, ops->name);
    if (l->count >= STEP_LIST_MAX && !(ops->flags & TRANSFORM_IS_LAST))
        return error_set(e, FB_E_USAGE, "transform", "more than %d transforms", STEP_LIST_MAX);
    return 0;
}

static int add_step(struct step_list *l, char *text, unsigned takes, struct fb_error *e)
{
    char *name = cut_word(&text);
    if (!name) /* "a; ; b" and a last ';' are fine */
        return 0;
    const struct transform_ops *ops = transform_find(name, takes);
    if (!ops)
        return refuse_name(name, takes, e);
    FB_TRY(check_place(l, ops, e));
    void *params = calloc(1, ops->params_size + 1);
    if (!params)
        return error_set(e, FB_E_NOMEM, "transform", "no memory for %s", ops->name);
    l->step[l->count++] = (struct step){.ops = ops, .params = params};
    if (ops->defaults)
        ops->defaults(params);
    FB_TRY(options_parse_spec(ops->options, params, text, "transform", ops->name, e));
    return ops->check ? ops->check(params, e) : 0;
}

int step_list_parse(struct step_list *l, const char *spec, unsigned takes, struct fb_error *e)
{
    *l = (struct step_list){0};
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
        rc = add_step(l, item, takes, e);
    }
    free(copy);
    return rc;
}

void step_list_free(struct step_list *l)
{
    for (int i = 0; i < l->count; i++) {
        if (l->step[i].ops->release)
            l->step[i].ops->release(l->step[i].params);
        free(l->step[i].params);
    }
    l->count = 0;
}

/* The draws of all steps that have this one's hook, if it is the first of them. */
static int collect(const struct step *const *step, const double *const *value, int count, uint64_t planes, int first, struct drawn *out)
{
    int n = 0;
    for (int i = 0; i < count; i++) {
        if (step[i]->ops->show != step[first]->ops->show)
            continue;
        if (i < first)
            return 0;
        out[n++] = (struct drawn){step[i]->params, value[i], planes};
    }
    return n;
}

void step_list_show(const struct step *const *step, const double *const *value, int count, uint64_t planes, struct json_writer *w)
{
    struct drawn drawn[SHOWN_MAX];
    for (int i = 0; i < count; i++) {
        int n = collect(step, value, count, planes, i, drawn);
        if (n)
            step[i]->ops->show(drawn, n, w);
    }
}
