#include "base/text/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

static bool is_same_name(const char *a, const char *b)
{
    for (; *a && *b; a++, b++) {
        char x = *a == '_' ? '-' : *a, y = *b == '_' ? '-' : *b;
        if (x != y)
            return false;
    }
    return *a == *b;
}

const struct option *option_find(const struct option *table, const char *name)
{
    for (const struct option *o = table; o->name; o++)
        if (is_same_name(o->name, name))
            return o;
    return NULL;
}

static bool is_in_range(const struct option *o, double v)
{
    return (o->min == 0 && o->max == 0) || (v >= o->min && v <= o->max);
}

static void add_to_list(char *list, size_t size, const char *name)
{
    strncat(list, list[0] ? ", " : "", size - strlen(list) - 1);
    strncat(list, name, size - strlen(list) - 1);
}

static int refuse_name(const struct option *table, const char *name, const char *stage, const char *what, struct fb_error *e)
{
    char shown[64], list[400] = "";
    for (const struct option *o = table; o->name; o++)
        add_to_list(list, sizeof(list), o->name);
    return error_advise(e,
                        error_set(e, FB_E_USAGE, stage, what ? "%s has no option '%s'" : "%sthere is no option --%s", what ? what : "",
                                  text_escape(name, shown, sizeof(shown))),
                        list[0] ? "its options are: %s" : "it has no options%s", list);
}

static int refuse(const struct option *o, const char *value, const char *stage, const char *what, struct fb_error *e)
{
    char shown[64];
    error_set(e, FB_E_USAGE, stage, "%s%s%s=%s is not valid", what ? what : "", what ? ": " : "--", o->name,
              text_escape(value, shown, sizeof(shown)));
    if (o->type == OPTION_CHOICE) {
        char list[256] = "";
        for (int i = 0; o->choices[i]; i++)
            add_to_list(list, sizeof(list), o->choices[i]);
        error_remedy(e, "use one of: %s", list);
    } else if (o->min != 0 || o->max != 0) {
        error_remedy(e, "use a value from %.15g to %.15g (%s)", o->min, o->max, o->help);
    } else {
        error_remedy(e, "%s", o->help);
    }
    return FB_E_USAGE;
}

static bool set_numbers(const struct option *o, struct option_numbers *out, const char *text)
{
    struct option_numbers list = {0};
    for (;;) {
        if (list.count == OPTION_MAX_NUMBERS || !text_parse_double(text, &list.value[list.count], &text))
            return false;
        if (!is_in_range(o, list.value[list.count++]))
            return false;
        if (!*text)
            break;
        if (*text++ != ',')
            return false;
    }
    *out = list;
    return true;
}

static bool set_flag(bool *out, const char *text)
{
    bool is_on = !text || strcmp(text, "1") == 0 || strcmp(text, "true") == 0;
    if (!is_on && strcmp(text, "0") != 0 && strcmp(text, "false") != 0)
        return false;
    *out = is_on;
    return true;
}

static bool set_choice(const struct option *o, int *out, const char *text)
{
    for (int i = 0; o->choices[i]; i++)
        if (is_same_name(o->choices[i], text)) {
            *out = i;
            return true;
        }
    return false;
}

static bool set_int(const struct option *o, int64_t *out, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (end == text || *end || errno || !is_in_range(o, (double)v))
        return false;
    *out = v;
    return true;
}

static bool set_double(const struct option *o, double *out, const char *text)
{
    const char *end;
    double v;
    if (!text_parse_double(text, &v, &end) || *end || !is_in_range(o, v))
        return false;
    *out = v;
    return true;
}

static bool set_size(const struct option *o, uint64_t *out, const char *text)
{
    uint64_t v;
    if (!text_parse_size(text, &v) || !is_in_range(o, (double)v))
        return false;
    *out = v;
    return true;
}

/* A refused value leaves the place as it was. */
static bool set_value(const struct option *o, void *place, const char *text)
{
    switch (o->type) {
    case OPTION_FLAG: return set_flag(place, text);
    case OPTION_INT: return set_int(o, place, text);
    case OPTION_DOUBLE: return set_double(o, place, text);
    case OPTION_SIZE: return set_size(o, place, text);
    case OPTION_STRING: *(const char **)place = text; return true;
    case OPTION_CHOICE: return set_choice(o, place, text);
    case OPTION_NUMBERS: return set_numbers(o, place, text);
    }
    return false;
}

int option_set(const struct option *table, void *target, const char *name, const char *value, const char *stage, const char *what,
               struct fb_error *e)
{
    const struct option *o = option_find(table, name);
    if (!o)
        return refuse_name(table, name, stage, what, e);
    if (!value && o->type != OPTION_FLAG)
        return error_advise(e, error_set(e, FB_E_USAGE, stage, "%s%s%s wants a value", what ? what : "", what ? ": " : "--", o->name), "%s",
                            o->help);
    if (!set_value(o, (char *)target + o->offset, value))
        return refuse(o, value, stage, what, e);
    return 0;
}

int options_parse_spec(const struct option *table, void *target, char *spec, const char *stage, const char *what, struct fb_error *e)
{
    char *save = NULL;
    for (char *item = strtok_r(spec, " \t\n", &save); item; item = strtok_r(NULL, " \t\n", &save)) {
        char *value = strchr(item, '=');
        if (value)
            *value++ = 0;
        FB_TRY(option_set(table, target, item, value, stage, what, e));
    }
    return 0;
}
