#include "feed/source_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/proc_mounts.h"

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

static enum file_kind kind_of_device(int fd)
{
    struct stat st;
    struct mounts *m = malloc(sizeof(*m));
    const struct mount_entry *found = NULL;
    if (m && fstat(fd, &st) == 0 && mounts_read(m, "/proc", getpid(), "/sys"))
        found = mounts_find(m, st.st_dev);
    enum file_kind kind = found ? found->kind : FILE_NONE;
    free(m);
    return kind;
}

/* Neighbouring samples of an archive are read together where a read costs more than its bytes. A device of flash does not gain by it, and
 * an order without neighbours would only have fewer reads in flight. NULL: not here. */
static const char *merging(const struct feed *f)
{
    if (strcmp(f->dataset.kind, "tar") != 0 || getenv("FULLBORE_IO"))
        return NULL;
    enum file_kind kind = kind_of_device(f->dataset.root_fd);
    return kind == FILE_ROTATING ? "merge:over=auto" : mounts_is_remote(kind) ? "merge:lanes=16,over=auto" : NULL;
}

int source_io_open(struct feed *f, const char *spec, bool is_in_order, struct fb_error *e)
{
    const char *own = f->dataset.io;
    f->io_depth = own ? STORE_DEPTH : FILE_DEPTH;
    bool is_auto = !spec || !*spec || strcmp(spec, "auto") == 0;
    if (own && !is_auto) /* FULLBORE_IO=pread says how to read files; there are none here */
        is_auto = strcmp(spec, "uring") == 0 || strcmp(spec, "pread") == 0;
    size_t name = own ? strcspn(own, ":") : 0;
    const char *merged = !own && is_auto && is_in_order ? merging(f) : NULL;
    spec = merged ? merged : spec;
    bool is_same = own && !is_auto && strncmp(spec, own, name) == 0 && (spec[name] == 0 || spec[name] == ':') && !strstr(spec, "url=");
    char *completed = is_same ? complete(spec, own) : NULL;
    if (is_same && !completed)
        return error_set_errno(e, "feed", ENOMEM, "open a loader");
    int rc = io_open(&f->io, completed ? completed : own && is_auto ? own : spec, f->io_depth, &f->log, e);
    free(completed);
    return rc;
}
