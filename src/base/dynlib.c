#include "base/dynlib.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

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
        return error_advise(e, error_set(e, FB_E_UNSUPPORTED, l->stage, "there is no %s here (%s)", l->what, why), "%s", l->remedy);
    for (const struct dynlib_call *c = l->calls; c->name; c++) {
        void *function = dlsym(library, c->name);
        if (!function && !c->may_lack) {
            dlclose(library);
            error_set(e, FB_E_UNSUPPORTED, l->stage, "the %s here has no function %s: it is too old", l->what, c->name);
            return error_advise(e, FB_E_UNSUPPORTED, "%s", l->remedy);
        }
        memcpy((char *)table + c->at, &function, sizeof(function));
    }
    return 0;
}
