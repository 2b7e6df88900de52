#include "feed/source_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_DEPTH = 64, STORE_DEPTH = 256 }; /* a store is a round trip away: more in flight, and its back-end finds out how many pay */

/* "s3:hedge=0" and "s3:url=..." make "s3:hedge=0,url=...". NULL: no memory. */
static char *complete(const char *spec, const char *own)
{
    size_t name = strcspn(own, ":");
    const char *options = spec[name] == ':' ? spec + name + 1 : "";
    char *out = NULL;
    if (asprintf(&out, "%.*s:%s%s%s", (int)name, own, options, *options ? "," : "", own + name + 1) < 0)
        return NULL;
    return out;
}

int source_io_open(struct feed *f, const char *spec, struct fb_error *e)
{
    const char *own = f->dataset.io;
    f->io_depth = own ? STORE_DEPTH : FILE_DEPTH;
    bool is_auto = !spec || !*spec || strcmp(spec, "auto") == 0;
    if (own && !is_auto) /* FULLBORE_IO=pread says how to read files; there are none here */
        is_auto = strcmp(spec, "uring") == 0 || strcmp(spec, "pread") == 0;
    size_t name = own ? strcspn(own, ":") : 0;
    bool is_same = own && !is_auto && strncmp(spec, own, name) == 0 && (spec[name] == 0 || spec[name] == ':') && !strstr(spec, "url=");
    char *completed = is_same ? complete(spec, own) : NULL;
    if (is_same && !completed)
        return error_set_errno(e, "feed", ENOMEM, "open a loader");
    int rc = io_open(&f->io, completed ? completed : own && is_auto ? own : spec, f->io_depth, &f->log, e);
    free(completed);
    return rc;
}
