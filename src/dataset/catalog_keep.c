#include "dataset/catalog_keep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file_owner.h"
#include "base/text/text.h"
#include "model/catalog/catalog_format.h"
#include "model/catalog/catalog_save.h"

enum { STALE_TEMPORARY_SECONDS = 3600 };

int64_t keep_mtime_ns(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* ---- where ---- */

static char *directory(const struct dataset_request *r)
{
    char *out = NULL;
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = r->catalog_dir           ? asprintf(&out, "%s", r->catalog_dir)
            : xdg && xdg[0] == '/'   ? asprintf(&out, "%s/fullbore/catalogs", xdg) /* the standard: relative ones are ignored */
            : home && home[0] == '/' ? asprintf(&out, "%s/.cache/fullbore/catalogs", home)
                                     : -1;
    return n < 0 ? NULL : out;
}

/* Catalogs in a folder that other users can write to are not trusted: they could name any files as samples. The warning comes once. */
static bool is_trusted(struct dataset_job *job, const char *dir)
{
    struct stat st;
    const char *why = stat(dir, &st) == 0 ? owner_distrust(&st) : NULL;
    char shown[512];
    if (why && !job->has_warned)
        log_line(&job->request->log, LOG_WARN,
                 "catalogs are not kept in %s, because %s. Make the folder yours alone (chown, chmod go-w), or use another one: "
                 "catalog_dir, XDG_CACHE_HOME",
                 text_escape(dir, shown, sizeof(shown)), why);
    job->has_warned |= why != NULL;
    return !why;
}

char *keep_path(struct dataset_job *job, const char *kind)
{
    if (!job->identity)
        return NULL;
    char *dir = directory(job->request), *name = NULL, *path = NULL;
    if (dir && !is_trusted(job, dir)) {
        free(dir);
        return NULL;
    }
    if (dir && asprintf(&name, "%s:%s", kind, job->identity) >= 0 &&
        asprintf(&path, "%s/%016llx.catalog", dir, (unsigned long long)checksum_of(name, strlen(name))) < 0)
        path = NULL;
    if (!dir)
        log_line(&job->request->log, LOG_WARN, "no place to keep the catalog of %s: neither catalog_dir, XDG_CACHE_HOME nor HOME is set",
                 job->root);
    free(name);
    free(dir);
    return path;
}

char *keep_learnt_dir(struct dataset_job *job, const char *kind)
{
    char *path = keep_path(job, kind), *dir = NULL;
    if (path && asprintf(&dir, "%.*s.learnt", (int)(strlen(path) - strlen(".catalog")), path) < 0)
        dir = NULL;
    free(path);
    return dir;
}

void keep_make_folder(const char *path)
{
    char *copy = strdup(path);
    if (!copy)
        return;
    for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(copy, 0700);
        *slash = '/';
    }
    free(copy);
}

/* ---- does it still fit ---- */

static bool is_dir_unchanged(struct dataset_job *job, const struct catalog *c, int i)
{
    const char *path;
    int64_t mtime_ns;
    struct stat st;
    if (catalog_dir(c, i, &path, &mtime_ns, NULL) < 0)
        return false;
    if (fstatat(job->root_fd, path[0] ? path : ".", &st, 0) < 0 || !S_ISDIR(st.st_mode) || keep_mtime_ns(&st) != mtime_ns ||
        mtime_ns > catalog_made_ns(c) - KEEP_SLACK_NS) {
        char shown[256];
        log_line(&job->request->log, LOG_INFO, "scanning again: %s%s%s has changed", job->root, path[0] ? "/" : "",
                 text_escape(path, shown, sizeof(shown)));
        return false;
    }
    return true;
}

static bool has_note(const struct catalog *c, const char *name, const char *text)
{
    const char *found = catalog_note(c, name);
    return found && strcmp(found, text) == 0;
}

/* 1: yes. 0: no. Negative: interrupted. */
static int still_fits(struct dataset_job *job, const struct dataset_ops *ops, const struct catalog *c, struct fb_error *e)
{
    if (!has_note(c, "kind", ops->name) || !has_note(c, "source", job->identity))
        return 0;
    int n = catalog_dir_count(c);
    for (int i = 0; i < n; i++) {
        FB_TRY(scan_progress_report(&job->progress, (uint64_t)i, (uint64_t)n, e));
        if (!is_dir_unchanged(job, c, i))
            return 0;
    }
    return !ops->is_unchanged || ops->is_unchanged(job, c);
}

/* Like catalog_open, for a file that no other user made. */
static int open_kept(const char *path, struct catalog **out, struct fb_error *e)
{
    struct stat st;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const char *why = fd >= 0 && fstat(fd, &st) == 0 ? owner_distrust(&st) : NULL;
    int rc = fd < 0 ? error_set_errno(e, "dataset", errno, "open the catalog")
             : why  ? error_set(e, FB_E_STATE, "dataset", "the catalog is not trusted: %s", why)
                    : catalog_open_fd(fd, path, out, e);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        error_at(e, path, -1);
    return rc;
}

struct catalog *keep_find(struct dataset_job *job, const struct dataset_ops *ops, const char *path, struct fb_error *e)
{
    struct catalog *c;
    struct fb_error why;
    error_clear(&why);
    if (open_kept(path, &c, &why) < 0) {
        char line[2200];
        fb_format_error(&why, line, sizeof(line));
        if (why.sys_errno != ENOENT)
            log_line(&job->request->log, LOG_WARN, "scanning again: %s", line);
        return NULL;
    }
    if (still_fits(job, ops, c, e) == 1)
        return c;
    catalog_close(c);
    return NULL;
}

/* ---- keeping ---- */

/* A writer that was killed leaves its temporary file; whoever writes the same catalog an hour later removes it. */
static void remove_stale_temporaries(const char *path)
{
    char *dir = strdup(path);
    char *slash = dir ? strrchr(dir, '/') : NULL;
    if (!slash) {
        free(dir);
        return;
    }
    *slash = 0;
    DIR *d = opendir(dir[0] ? dir : "/");
    const char *base = slash + 1;
    size_t base_length = strlen(base);
    for (struct dirent *entry; d && (entry = readdir(d));) {
        struct stat st;
        if (strncmp(entry->d_name, base, base_length) == 0 && strncmp(entry->d_name + base_length, ".tmp.", 5) == 0 &&
            fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_mtime > STALE_TEMPORARY_SECONDS)
            unlinkat(dirfd(d), entry->d_name, 0);
    }
    if (d)
        closedir(d);
    free(dir);
}

void keep_store(struct dataset_job *job, const char *path, struct catalog **c)
{
    struct fb_error why;
    error_clear(&why);
    keep_make_folder(path);
    remove_stale_temporaries(path);
    if (catalog_save(c, path, &why) == 0)
        return;
    char line[2200];
    fb_format_error(&why, line, sizeof(line));
    log_line(&job->request->log, LOG_WARN, "the catalog could not be saved, so the next start scans again: %s", line);
}
