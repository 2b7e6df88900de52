#include "jobs/unpack/unpack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/file/safe_path.h"
#include "dataset/pack/pack_index.h"

/* 1: it is there already. */
static int look(const struct safe_place *p, const char *last, const struct unpack_bytes *b, struct fb_error *e)
{
    struct stat st;
    if (fstatat(p->parent_fd, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(e, "unpack", errno, "look at what is there");
    struct timespec t = file_time(b->mtime_ns);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == b->size && st.st_mtim.tv_sec == t.tv_sec && st.st_mtim.tv_nsec == t.tv_nsec)
        return UNPACK_THERE;
    return error_advise(e, error_set(e, FB_E_USAGE, "unpack", "something else of this name is there"),
                        "unpack into an empty folder, or move it away");
}

static int copy(int to, const struct unpack_bytes *b, char *piece, size_t piece_bytes, uint64_t *sum, struct fb_error *e)
{
    struct checksum *c = checksum_open();
    int rc = c ? 0 : error_set(e, FB_E_NOMEM, "unpack", "no memory");
    for (uint64_t done = 0; rc == 0 && done < b->size;) {
        size_t n = b->size - done < piece_bytes ? (size_t)(b->size - done) : piece_bytes;
        rc = pack_read_at(b->fd, b->offset + done, piece, n, NULL, e);
        if (rc == 0) {
            checksum_add(c, piece, n);
            rc = file_write_all(to, piece, n, e);
        }
        done += n;
    }
    *sum = c ? checksum_value(c) : 0;
    checksum_close(c);
    return rc;
}

/* renameat2 with NOREPLACE; file systems that cannot do that get a link, which never replaces either. */
static int put_in_place(const struct safe_place *p, const char *temporary, const char *last, struct fb_error *e)
{
    if (syscall(SYS_renameat2, p->parent_fd, temporary, p->parent_fd, last, 1u /* RENAME_NOREPLACE */) == 0)
        return 0;
    if ((errno == EINVAL || errno == ENOSYS) && linkat(p->parent_fd, temporary, p->parent_fd, last, 0) == 0) {
        unlinkat(p->parent_fd, temporary, 0);
        return 0;
    }
    return error_set_errno(e, "unpack", errno, "give the file its name");
}

static int write_file(const struct safe_place *p, const char *last, const struct unpack_bytes *b, char *piece, size_t piece_bytes,
                      struct fb_error *e)
{
    char temporary[SAFE_PATH_TEMPORARY_BYTES];
    uint64_t sum;
    int fd = safe_path_make_temporary(p->parent_fd, p->stage, temporary, e);
    if (fd < 0)
        return fd;
    int rc = copy(fd, b, piece, piece_bytes, &sum, e);
    if (rc == 0 && b->checksum && sum != *b->checksum)
        rc = UNPACK_DAMAGED;
    if (rc == 0)
        rc = file_set_time(fd, b->mtime_ns, p->stage, e);
    if (close(fd) < 0 && rc == 0)
        rc = error_set_errno(e, "unpack", errno, "write a file");
    if (rc == 0)
        rc = put_in_place(p, temporary, last, e);
    if (rc != 0)
        unlinkat(p->parent_fd, temporary, 0);
    return rc;
}

int unpack_file(struct safe_place *p, const char *name, const struct unpack_bytes *b, char *piece, size_t piece_bytes, struct fb_error *e)
{
    const char *last;
    int rc = safe_place_enter(p, name, &last, e);
    if (rc == 0)
        rc = look(p, last, b, e);
    if (rc == 0)
        rc = write_file(p, last, b, piece, piece_bytes, e);
    if (rc < 0)
        error_at(e, name, -1);
    return rc;
}
