#include "feed/source_io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/proc/proc_mounts.h"

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

static bool is_auto(const char *spec)
{
    return !spec || !*spec || strcmp(spec, "auto") == 0;
}

/* Is it this back-end, without a place? */
static bool names(const char *spec, const char *own)
{
    size_t n = strcspn(own, ":");
    return strncmp(spec, own, n) == 0 && (spec[n] == 0 || spec[n] == ':') && !strstr(spec, "url=");
}

int source_io_open_for(struct io **out, uint32_t *depth, const char *own, const char *spec, const struct log *log, struct fb_error *e)
{
    const char *environment = getenv("FULLBORE_IO");
    *depth = own ? STORE_DEPTH : FILE_DEPTH;
    if (!own)
        return io_open(out, spec, *depth, log, e);
    if (is_auto(spec) && environment && names(environment, own))
        spec = environment;
    if (is_auto(spec) || strcmp(spec, "uring") == 0 || strcmp(spec, "pread") == 0) /* how to read files; there are none here */
        spec = own;
    char *completed = names(spec, own) ? complete(spec, own) : strdup(spec);
    if (!completed)
        return error_set_errno(e, "read", ENOMEM, "open a reader");
    int rc = io_open(out, completed, *depth, log, e);
    free(completed);
    return rc;
}

int source_io_open(struct feed *f, const char *spec, bool is_in_order, struct fb_error *e)
{
    const char *own = f->dataset.io, *merged = !own && is_auto(spec) && is_in_order ? merging(f) : NULL;
    return source_io_open_for(&f->io, &f->io_depth, own, merged ? merged : spec, &f->log, e);
}
