#include "base/file/safe_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW };

bool safe_path_is_clean(const char *name)
{
    if (strlen(name) > SAFE_PATH_MAX)
        return false;
    for (;; name++) {
        size_t n = strcspn(name, "/");
        if (n == 0 || (n == 1 && name[0] == '.') || (n == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        name += n;
        if (!*name)
            return true;
    }
}

static int failed(const char *name, int sys_errno, struct fb_error *e)
{
    int rc = FB_E_DATA;
    if (sys_errno == ELOOP || sys_errno == EXDEV || sys_errno == ENOTDIR)
        error_set(e, FB_E_DATA, "write", "the name leads through a link or a file, so it is refused");
    else
        rc = error_set_errno(e, "write", sys_errno, "open or make a folder");
    error_at(e, name, -1);
    return rc;
}

/* -1 with errno; ENOSYS once it is known that the call is not there. */
static int open_at_once(int root_fd, const char *folder)
{
    static atomic_bool is_missing; /* relaxed: a late reader only asks once more */
    if (atomic_load_explicit(&is_missing, memory_order_relaxed)) {
        errno = ENOSYS;
        return -1;
    }
    struct open_how how = {.flags = FOLDER, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, root_fd, folder, &how, sizeof(how));
    if (fd < 0 && errno == ENOSYS)
        atomic_store_explicit(&is_missing, true, memory_order_relaxed);
    return (int)fd;
}

/* Part by part, making what is missing. */
static int open_by_parts(int root_fd, char *folder)
{
    int at = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    for (char *part = folder; at >= 0 && part;) {
        char *slash = strchr(part, '/');
        if (slash)
            *slash = 0;
        int next = mkdirat(at, part, 0777) < 0 && errno != EEXIST ? -1 : openat(at, part, FOLDER);
        int why = errno;
        close(at);
        at = next;
        errno = why;
        part = slash ? slash + 1 : NULL;
    }
    return at;
}

int safe_path_open_parent(int root_fd, const char *name, const char **last, struct fb_error *e)
{
    if (!safe_path_is_clean(name)) {
        error_set(e, FB_E_DATA, "write", "the name is absolute or has empty, '.' or '..' parts, so it is refused");
        error_at(e, name, -1);
        return FB_E_DATA;
    }
    const char *slash = strrchr(name, '/');
    *last = slash ? slash + 1 : name;
    char folder[SAFE_PATH_MAX + 1];
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - name) : 1, slash ? name : ".");
    int fd = slash ? open_at_once(root_fd, folder) : fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 && slash && (errno == ENOENT || errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        fd = open_by_parts(root_fd, folder);
    return fd < 0 ? failed(name, errno, e) : fd;
}

struct safe_place safe_place_at(int root_fd, const char *stage)
{
    return (struct safe_place){.stage = stage, .root_fd = root_fd, .parent_fd = -1, .parent = {.limit = SAFE_PATH_MAX + 1}};
}

int safe_place_enter(struct safe_place *p, const char *name, const char **last, struct fb_error *e)
{
    const char *slash = strrchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) : 0;
    if (p->parent_fd >= 0 && safe_path_is_clean(name) && p->parent.length == n && (n == 0 || memcmp(p->parent.data, name, n) == 0)) {
        *last = slash ? slash + 1 : name;
        return 0;
    }
    safe_place_close(p);
    p->parent_fd = safe_path_open_parent(p->root_fd, name, last, e);
    if (p->parent_fd < 0)
        return p->parent_fd;
    text_append(&p->parent, name, n);
    return p->parent.failed ? error_set(e, FB_E_NOMEM, p->stage, "no memory") : 0;
}

void safe_place_close(struct safe_place *p)
{
    if (p->parent_fd >= 0)
        close(p->parent_fd);
    text_free(&p->parent);
    *p = safe_place_at(p->root_fd, p->stage);
}

int safe_path_make_temporary(int parent_fd, const char *stage, char temporary[SAFE_PATH_TEMPORARY_BYTES], struct fb_error *e)
{
    static _Atomic uint64_t salt, next;
    if (!salt) {
        uint64_t random = 1;
        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
            random = (uint64_t)getpid();
        salt = random | 1;
    }
    for (int tries = 0; tries < 100; tries++) {
        snprintf(temporary, SAFE_PATH_TEMPORARY_BYTES, ".fullbore-%016llx", (unsigned long long)(salt + 2 * next++));
        int fd = openat(parent_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : error_set_errno(e, stage, errno, "make a file");
    }
    return error_set(e, FB_E_IO, stage, "no free name for a temporary file");
}
