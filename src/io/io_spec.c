#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "io/io_list.h"

/* Where "over=" begins as an option of its own, or NULL. */
static char *find_over(char *text)
{
    for (char *p = strstr(text, "over="); p; p = strstr(p + 1, "over="))
        if (p == text || strchr(",; ", p[-1]))
            return p;
    return NULL;
}

int io_spec_split(struct io_spec *s, const char *name, const char *spec, struct fb_error *e)
{
    if (strlen(spec) >= sizeof(s->text))
        return error_set(e, FB_E_USAGE, "read", "the options of %s are longer than %d characters", name, IO_SPEC_MAX - 1);
    strcpy(s->text, spec);
    s->over = "pread";
    char *over = find_over(s->text);
    if (!over)
        return 0;
    *over = 0;
    s->over = over + strlen("over=");
    if (!*s->over)
        return error_set(e, FB_E_USAGE, "read", "%s: over= wants the name of a back-end", name);
    return 0;
}

int io_spec_options(const struct option *table, void *target, const char *name, char *text, struct fb_error *e)
{
    for (char *p = text; *p; p++)
        if (*p == ',')
            *p = ' ';
    return options_parse_spec(table, target, text, "read", name, e);
}

int io_no_options(const char *name, const char *spec, struct fb_error *e)
{
    char shown[64];
    if (!*spec)
        return 0;
    return error_set(e, FB_E_USAGE, "read", "%s takes no options, but got '%s'", name, text_escape(spec, shown, sizeof(shown)));
}
