#include "base/file/safe_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FOLDER = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW };

bool beneath_is_clean(const char *name)
{
    if (strlen(name) > BENEATH_MAX_PATH)
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

int beneath_open_parent(int root_fd, const char *name, const char **last, struct fb_error *e)
{
    if (!beneath_is_clean(name)) {
        error_set(e, FB_E_DATA, "write", "the name is absolute or has empty, '.' or '..' parts, so it is refused");
        error_at(e, name, -1);
        return FB_E_DATA;
    }
    const char *slash = strrchr(name, '/');
    *last = slash ? slash + 1 : name;
    char folder[BENEATH_MAX_PATH + 1];
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - name) : 1, slash ? name : ".");
    int fd = slash ? open_at_once(root_fd, folder) : fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0 && slash && (errno == ENOENT || errno == ENOSYS || errno == EPERM || errno == EAGAIN))
        fd = open_by_parts(root_fd, folder);
    return fd < 0 ? failed(name, errno, e) : fd;
}
