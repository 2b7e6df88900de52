#include "jobs/unpack/unpack_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/file/safe_path.h"
#include "dataset/pack/pack_index.h"

/* The descriptor of the folder that `name` lies in: the last one again if it is the same. */
static int parent_of(struct unpack_place *p, const char *name, const char **last, struct fb_error *e)
{
    const char *slash = strrchr(name, '/');
    size_t n = slash ? (size_t)(slash - name) : 0;
    if (p->parent_fd >= 0 && beneath_is_clean(name) && p->parent.length == n && (n == 0 || memcmp(p->parent.data, name, n) == 0)) {
        *last = slash ? slash + 1 : name;
        return 0;
    }
    unpack_place_close(p);
    p->parent_fd = beneath_open_parent(p->root_fd, name, last, e);
    if (p->parent_fd < 0)
        return p->parent_fd;
    p->parent.limit = BENEATH_MAX_PATH + 1;
    text_append(&p->parent, name, n);
    return p->parent.failed ? error_set(e, FB_E_NOMEM, "unpack", "no memory") : 0;
}

void unpack_place_close(struct unpack_place *p)
{
    if (p->parent_fd >= 0)
        close(p->parent_fd);
    p->parent_fd = -1;
    text_free(&p->parent);
    p->parent = (struct text){0};
}

static struct timespec time_of(int64_t ns)
{
    int64_t s = ns / 1000000000, rest = ns % 1000000000;
    return (struct timespec){(time_t)(rest < 0 ? s - 1 : s), (long)(rest < 0 ? rest + 1000000000 : rest)};
}

/* 1: it is there already. */
static int look(const struct unpack_place *p, const char *last, const struct unpack_bytes *b, struct fb_error *e)
{
    struct stat st;
    if (fstatat(p->parent_fd, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : error_set_errno(e, "unpack", errno, "look at what is there");
    struct timespec t = time_of(b->mtime_ns);
    if (S_ISREG(st.st_mode) && (uint64_t)st.st_size == b->size && st.st_mtim.tv_sec == t.tv_sec && st.st_mtim.tv_nsec == t.tv_nsec)
        return UNPACK_THERE;
    error_set(e, FB_E_USAGE, "unpack", "something else of this name is there");
    error_remedy(e, "unpack into an empty folder, or move it away");
    return FB_E_USAGE;
}

/* Returns a descriptor; the name is in `temporary`. */
static int make_temporary(const struct unpack_place *p, char temporary[40], struct fb_error *e)
{
    for (int tries = 0; tries < 100; tries++) {
        uint64_t random = 0;
        if (getrandom(&random, sizeof(random), 0) != sizeof(random))
            random = (uint64_t)getpid() + (uint64_t)tries;
        snprintf(temporary, 40, ".fullbore-%016llx", (unsigned long long)random);
        int fd = openat(p->parent_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : error_set_errno(e, "unpack", errno, "make a file");
    }
    return error_set(e, FB_E_IO, "unpack", "no free name for a temporary file");
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
static int put_in_place(const struct unpack_place *p, const char *temporary, const char *last, struct fb_error *e)
{
    if (syscall(SYS_renameat2, p->parent_fd, temporary, p->parent_fd, last, 1u /* RENAME_NOREPLACE */) == 0)
        return 0;
    if ((errno == EINVAL || errno == ENOSYS) && linkat(p->parent_fd, temporary, p->parent_fd, last, 0) == 0) {
        unlinkat(p->parent_fd, temporary, 0);
        return 0;
    }
    return error_set_errno(e, "unpack", errno, "give the file its name");
}

static int write_file(const struct unpack_place *p, const char *last, const struct unpack_bytes *b, char *piece, size_t piece_bytes,
                      struct fb_error *e)
{
    char temporary[40];
    uint64_t sum;
    int fd = make_temporary(p, temporary, e);
    if (fd < 0)
        return fd;
    int rc = copy(fd, b, piece, piece_bytes, &sum, e);
    if (rc == 0 && b->checksum && sum != *b->checksum)
        rc = UNPACK_DAMAGED;
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(b->mtime_ns)};
    if (rc == 0 && futimens(fd, times) < 0)
        rc = error_set_errno(e, "unpack", errno, "set the time of a file");
    if (close(fd) < 0 && rc == 0)
        rc = error_set_errno(e, "unpack", errno, "write a file");
    if (rc == 0)
        rc = put_in_place(p, temporary, last, e);
    if (rc != 0)
        unlinkat(p->parent_fd, temporary, 0);
    return rc;
}

int unpack_file(struct unpack_place *p, const char *name, const struct unpack_bytes *b, char *piece, size_t piece_bytes, struct fb_error *e)
{
    const char *last;
    int rc = parent_of(p, name, &last, e);
    if (rc == 0)
        rc = look(p, last, b, e);
    if (rc == 0)
        rc = write_file(p, last, b, piece, piece_bytes, e);
    if (rc < 0)
        error_at(e, name, -1);
    return rc;
}
