#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

void error_clear(struct fb_error *e)
{
    if (!e)
        return;
    memset(e, 0, sizeof(*e));
    e->sample = -1;
    e->offset = -1;
}

static struct fb_error no_memory = {
    .code = FB_E_NOMEM,
    .sys_errno = ENOMEM,
    .sample = -1,
    .offset = -1,
    .stage = "feed",
    .cause = "there is no memory, not even for the error's text",
    .remedy = "lower memory= or threads=, or free memory on this machine",
};

struct fb_error *error_new(void)
{
    struct fb_error *e = malloc(sizeof(*e));
    if (!e)
        return &no_memory;
    error_clear(e);
    return e;
}

int error_is_shared(const struct fb_error *e)
{
    return e == &no_memory;
}

void error_free(struct fb_error *e)
{
    if (!error_is_shared(e))
        free(e);
}

static bool is_taken(const struct fb_error *e)
{
    return !e || e->code != 0;
}

static void start(struct fb_error *e, int code, const char *stage)
{
    error_clear(e);
    e->code = code;
    snprintf(e->stage, sizeof(e->stage), "%s", stage);
}

int error_set(struct fb_error *e, int code, const char *stage, const char *cause_format, ...)
{
    if (is_taken(e))
        return code;
    start(e, code, stage);
    va_list ap;
    va_start(ap, cause_format);
    text_vwords(e->cause, sizeof(e->cause), cause_format, ap);
    va_end(ap);
    return code;
}

static const char *remedy_for_errno(int sys_errno)
{
    switch (sys_errno) {
    case EMFILE: return "raise the limit of open files (ulimit -n)";
    case ENFILE: return "the whole system is out of file handles (fs.file-max)";
    case EACCES:
    case EPERM: return "check the permissions of the file and of the folders above it";
    case ENOSPC: return "free some space on that file system";
    case EIO: return "the device reports an error: see dmesg, and check the disk";
    case ENOMEM: return "lower memory= or threads=, or free memory on this machine";
    default: return "";
    }
}

int error_set_errno(struct fb_error *e, const char *stage, int sys_errno, const char *what_format, ...)
{
    int code = sys_errno == ENOENT || sys_errno == ENOTDIR ? FB_E_NOT_FOUND : sys_errno == ENOMEM ? FB_E_NOMEM : FB_E_IO;
    if (is_taken(e))
        return code;
    start(e, code, stage);
    e->sys_errno = sys_errno;
    char what[256];
    va_list ap;
    va_start(ap, what_format);
    text_vwords(what, sizeof(what), what_format, ap);
    va_end(ap);
    char reason[128];
    snprintf(e->cause, sizeof(e->cause), "cannot %s: %s", what, text_errno(sys_errno, reason, sizeof(reason)));
    snprintf(e->remedy, sizeof(e->remedy), "%s", remedy_for_errno(sys_errno));
    return code;
}

static void add_remedy(struct fb_error *e, const char *format, va_list ap)
{
    if (e && e->code && !e->remedy[0])
        text_vwords(e->remedy, sizeof(e->remedy), format, ap);
}

void error_remedy(struct fb_error *e, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    add_remedy(e, format, ap);
    va_end(ap);
}

int error_advise(struct fb_error *e, int code, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    add_remedy(e, format, ap);
    va_end(ap);
    return code;
}

void error_reword(struct fb_error *e, const char *from, const char *to)
{
    const char *at = e ? strstr(e->remedy, from) : NULL;
    char before[sizeof(e->remedy)];
    if (!at)
        return;
    memcpy(before, e->remedy, sizeof(before));
    text_words(e->remedy, sizeof(e->remedy), "%.*s%s%s", (int)(at - e->remedy), before, to, before + (at - e->remedy) + strlen(from));
}

bool error_is_systemic(const struct fb_error *e)
{
    return e->code == FB_E_NOMEM || e->sys_errno == EMFILE || e->sys_errno == ENFILE || e->sys_errno == ENOMEM;
}

void error_at(struct fb_error *e, const char *path, int64_t offset)
{
    if (!e || !e->code)
        return;
    if (path && !e->path[0])
        text_escape(path, e->path, sizeof(e->path));
    if (e->offset < 0)
        e->offset = offset;
}

int fb_format_error(const struct fb_error *e, char *out, size_t out_size)
{
    char where[1100] = "";
    if (e->path[0] && e->offset >= 0)
        snprintf(where, sizeof(where), "%s at byte %lld: ", e->path, (long long)e->offset);
    else if (e->path[0])
        snprintf(where, sizeof(where), "%s: ", e->path);
    struct text t = {.limit = 4 * sizeof(*e)}; /* a record that others filled may hold anything */
    text_show(&t, "%s: %s%s%s%s", e->stage[0] ? e->stage : "fullbore", where, e->cause, e->remedy[0] ? "; " : "", e->remedy);
    int n = snprintf(out, out_size, "%s", t.data && !t.failed ? t.data : "fullbore: no memory for the text of an error");
    text_free(&t);
    return n;
}
