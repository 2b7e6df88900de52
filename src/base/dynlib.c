#include "base/dynlib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static int is_missing(const struct dynlib *l, const char *why, struct fb_error *e)
{
    error_set(e, FB_E_UNSUPPORTED, l->stage, "this needs %s, which cannot be used: %s", l->what, why ? why : "it cannot be opened");
    error_remedy(e, "%s", l->remedy);
    return FB_E_UNSUPPORTED;
}

/* The linker's word about the first name is the one worth telling: others are names of distributions that this is not. */
static void *open_any(const struct dynlib *l, char *why, size_t why_size)
{
    for (int i = 0; l->names[i]; i++) {
        void *library = dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL);
        if (library)
            return library;
        const char *said = dlerror();
        if (i == 0 && said)
            snprintf(why, why_size, "%s", said);
    }
    return NULL;
}

int dynlib_open(const struct dynlib *l, void *table, struct fb_error *e)
{
    char why[200] = "it cannot be opened";
    void *library = open_any(l, why, sizeof(why));
    if (!library)
        return is_missing(l, why, e);
    for (const struct dynlib_call *c = l->calls; c->name; c++) {
        void *function = dlsym(library, c->name);
        if (!function) {
            snprintf(why, sizeof(why), "it lacks %s", c->name);
            dlclose(library);
            return is_missing(l, why, e);
        }
        memcpy((char *)table + c->at, &function, sizeof(function));
    }
    return 0;
}
