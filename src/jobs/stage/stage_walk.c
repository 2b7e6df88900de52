/* Every regular file below a folder. Links are followed; a folder that is one of its own ancestors is left out. Hidden files are copied
 * too, so that the copy is complete. The files that staging itself left are not: a copy may be staged again, from an SSD into memory. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/stage/stage_internal.h"

enum { DEPTH_MOST = 128, FILES_MOST = 1 << 30 };

struct walk {
    struct stage_list *list;
    uint32_t source;
    const char *part;
    const struct stage_request *q;
    struct text path;
    struct {
        dev_t device;
        ino_t inode;
    } above[DEPTH_MOST];
    int depth;
    uint64_t seen;
};

static int walk_folder(struct walk *w, int fd, struct fb_error *e);

static int failed(struct walk *w, const char *doing, struct fb_error *e)
{
    int rc = error_set_errno(e, "stage", errno, "%s", doing);
    error_at(e, w->path.data ? w->path.data : "", -1);
    return rc;
}

static bool is_loop(const struct walk *w, const struct stat *st)
{
    for (int i = 0; i < w->depth; i++)
        if (w->above[i].device == st->st_dev && w->above[i].inode == st->st_ino)
            return true;
    return w->depth == DEPTH_MOST;
}

static int enter(struct walk *w, int fd, const char *name, const struct stat *st, struct fb_error *e)
{
    if (is_loop(w, st))
        return 0;
    int inner = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (inner < 0)
        return failed(w, "open a folder", e);
    w->above[w->depth].device = st->st_dev;
    w->above[w->depth++].inode = st->st_ino;
    int rc = walk_folder(w, inner, e);
    w->depth--;
    return rc;
}

static int beat(struct walk *w, struct fb_error *e)
{
    if (++w->seen % 1024 != 0)
        return 0;
    if (w->q->found)
        w->q->found(w->q->ctx, &(struct fb_progress){"looking", w->seen, 0});
    if (w->q->interrupted && w->q->interrupted(w->q->ctx))
        return error_set(e, FB_E_INTERRUPTED, "stage", "interrupted");
    return w->seen > FILES_MOST ? error_set(e, FB_E_DATA, "stage", "there are too many files") : 0;
}

static int meet(struct walk *w, int fd, const char *name, struct fb_error *e)
{
    struct stat st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return 0;
    size_t before = w->path.length;
    if (before)
        text_append(&w->path, "/", 1);
    text_append(&w->path, name, strlen(name));
    if (w->path.failed)
        return error_set(e, FB_E_DATA, "stage", "a path is longer than any file system takes");
    int rc = beat(w, e);
    if (rc == 0 && fstatat(fd, name, &st, 0) < 0)
        rc = errno == ENOENT || errno == ELOOP ? 0 : failed(w, "look at a file", e); /* a link that leads nowhere */
    else if (rc == 0 && S_ISDIR(st.st_mode))
        rc = enter(w, fd, name, &st, e);
    else if (rc == 0 && S_ISREG(st.st_mode) && !stage_is_own_name(name)) {
        struct stage_item item = {.length = IO_WHOLE,
                                  .size = (uint64_t)st.st_size,
                                  .object_size = (uint64_t)st.st_size,
                                  .source = w->source,
                                  .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
        rc = stage_list_add(w->list, w->part, w->path.data, NULL, &item, e);
    }
    w->path.length = before;
    if (w->path.data)
        w->path.data[before] = 0;
    return rc;
}

/* Takes the descriptor. */
static int walk_folder(struct walk *w, int fd, struct fb_error *e)
{
    DIR *d = fdopendir(fd);
    int rc = d ? 0 : failed(w, "read a folder", e);
    if (!d)
        close(fd);
    for (struct dirent *entry; rc == 0 && d;) {
        errno = 0;
        entry = readdir(d);
        if (!entry) {
            rc = errno ? failed(w, "read a folder", e) : 0;
            break;
        }
        rc = meet(w, dirfd(d), entry->d_name, e);
    }
    if (d)
        closedir(d);
    return rc;
}

int stage_walk(struct stage_list *l, uint32_t source, const char *part, const struct stage_request *q, struct fb_error *e)
{
    struct walk w = {.list = l, .source = source, .part = part, .q = q, .path = {.limit = 4096}};
    struct stat st;
    int fd = openat(l->source[source].root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return failed(&w, "open the folder", e);
    w.above[w.depth].device = st.st_dev;
    w.above[w.depth++].inode = st.st_ino;
    int rc = walk_folder(&w, fd, e);
    text_free(&w.path);
    return rc;
}
