#include "dataset/tar/tar_compressed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/text/text.h"
#include "dataset/catalog_keep.h"
#include "dataset/tar/tar_header.h"
#include "dataset/tar/tar_stream.h"

enum { PIECE = 256 << 10, LOOK_EVERY = 64 << 20, WAIT_NS = 20000000, KEEP_FREE = 20 /* a twentieth of the disk */ };
enum {
    MOST_RATIO = 250,
    RATIO_FROM = 64 << 20
}; /* what a stream may become, and the bytes from which on that counts; docs/packs.md says so */

static const struct {
    const char *name, *bytes;
    size_t length;
} known[] = {
    [TAR_GZIP] = {"gzip", "\x1F\x8B", 2},
    [TAR_ZSTD] = {"zstd", "\x28\xB5\x2F\xFD", 4},
    [TAR_XZ] = {"xz",
                "\xFD"
                "7zXZ",
                5},
    [TAR_BZIP2] = {"bzip2", "BZh", 3},
    [TAR_LZ4] = {"lz4", "\x04\x22\x4D\x18", 4},
};

enum tar_squeeze tar_squeeze_of(const uint8_t *first, size_t n)
{
    for (int i = TAR_GZIP; i <= TAR_LZ4; i++)
        if (n >= known[i].length && memcmp(first, known[i].bytes, known[i].length) == 0)
            return (enum tar_squeeze)i;
    return TAR_PLAIN;
}

const char *tar_squeeze_name(enum tar_squeeze how)
{
    return known[how].name;
}

/* ---- one unpacking ---- */

struct unpacking {
    struct dataset_job *job;
    const char *path;
    int in, out;
    uint64_t in_size, read, written, looked_at;
    uint8_t head[TAR_BLOCK]; /* the first bytes of the plain archive */
    size_t head_bytes;
    struct tar_stream *stream;
    uint8_t *from, *to;
};

/* A stream may hold a thousand times its size: the disk is looked at while it fills. */
static int check_room(struct unpacking *u, struct fb_error *e)
{
    struct statvfs v;
    if (u->written - u->looked_at < LOOK_EVERY && u->written)
        return 0;
    u->looked_at = u->written;
    if (fstatvfs(u->out, &v) < 0 || v.f_bavail > v.f_blocks / KEEP_FREE)
        return 0;
    error_set(e, FB_E_IO, "dataset", "there is no room to unpack it: %llu bytes are unpacked, and the disk of the catalogs is nearly full",
              (unsigned long long)u->written);
    error_remedy(e, "unpack it into a plain .tar yourself, or keep catalogs on a larger disk (catalog_dir, XDG_CACHE_HOME)");
    if (e)
        e->sys_errno = ENOSPC;
    return FB_E_IO;
}

static int refuse_content(struct unpacking *u, struct fb_error *e)
{
    error_set(e, FB_E_DATA, "dataset", "the compressed stream holds no tar archive: it does not begin with a tar header");
    error_remedy(e, "data sets are archives of files; anything else must be unpacked first");
    error_at(e, u->path, 0);
    return FB_E_DATA;
}

/* Before anything is written: any compressed file may have come under this name. */
static int check_head(struct unpacking *u, size_t n, struct fb_error *e)
{
    struct tar_block header;
    size_t more = TAR_BLOCK - u->head_bytes < n ? TAR_BLOCK - u->head_bytes : n;
    if (more == 0)
        return 0;
    memcpy(u->head + u->head_bytes, u->to, more);
    u->head_bytes += more;
    return u->head_bytes < TAR_BLOCK || tar_parse_block(u->head, &header) == TAR_BLOCK_HEADER ? 0 : refuse_content(u, e);
}

/* Pictures hardly shrink, tables of numbers by some tens; what is made of nothing but zeros is not a data set. */
static int check_ratio(struct unpacking *u, uint64_t used, struct fb_error *e)
{
    char from[32], to[32];
    if (u->written <= RATIO_FROM || u->written / MOST_RATIO <= used)
        return 0;
    error_set(e, FB_E_DATA, "dataset", "the compressed stream grows to more than %d times its size: %s became %s so far", MOST_RATIO,
              text_size(used, from, sizeof(from)), text_size(u->written, to, sizeof(to)));
    error_remedy(e, "if that is right, unpack it into a plain .tar yourself");
    error_at(e, u->path, (int64_t)used);
    return FB_E_DATA;
}

static int write_out(struct unpacking *u, size_t n, struct fb_error *e)
{
    FB_TRY(check_head(u, n, e));
    if (file_write_all(u->out, u->to, n, NULL) < 0)
        return error_set_errno(e, "dataset", errno, "unpack the archive");
    u->written += n;
    return check_room(u, e);
}

static int use_piece(struct unpacking *u, size_t n, struct fb_error *e)
{
    struct tar_piece p = {.in = u->from, .in_bytes = n};
    do {
        p.out = u->to;
        p.out_bytes = PIECE;
        int rc = tar_stream_step(u->stream, &p, e);
        if (rc < 0) {
            error_at(e, u->path, (int64_t)(u->read + n - p.in_bytes));
            return rc;
        }
        FB_TRY(write_out(u, p.made, e));
        FB_TRY(check_ratio(u, u->read + n - p.in_bytes, e));
        FB_TRY(scan_progress_report(&u->job->progress, u->read, u->in_size, e));
    } while (p.in_bytes || p.made == PIECE);
    u->read += n;
    return 0;
}

static int unpack_all(struct unpacking *u, struct fb_error *e)
{
    FB_TRY(check_room(u, e));
    for (;;) {
        size_t got = file_read_all_at(u->in, u->from, PIECE, u->read);
        if (got < PIECE && errno)
            return error_set_errno(e, "dataset", errno, "read the archive");
        if (got == 0)
            break;
        FB_TRY(use_piece(u, got, e));
    }
    if (tar_stream_is_whole(u->stream))
        return u->head_bytes == TAR_BLOCK ? 0 : refuse_content(u, e);
    error_set(e, FB_E_DATA, "dataset", "the archive is cut off: its compressed stream ends early, after %llu unpacked bytes",
              (unsigned long long)u->written);
    error_remedy(e, "fetch it again");
    error_at(e, u->path, (int64_t)u->read);
    return FB_E_DATA;
}

static int unpack_into(struct unpacking *u, enum tar_squeeze how, struct fb_error *e)
{
    const char *what = u->job->progress.what;
    FB_TRY(tar_stream_open(&u->stream, how, e));
    u->from = malloc(PIECE);
    u->to = malloc(PIECE);
    u->job->progress.what = "unpacking";
    int rc = u->from && u->to ? unpack_all(u, e) : error_set(e, FB_E_NOMEM, "dataset", "no memory to unpack an archive");
    u->job->progress.what = what;
    tar_stream_close(u->stream);
    free(u->from);
    free(u->to);
    return rc;
}

/* ---- names ---- */

struct names {
    char *stem; /* FOLDER/HASH */
    char *plain, *part, *lock;
};

static void names_free(struct names *n)
{
    free(n->stem);
    free(n->plain);
    free(n->part);
    free(n->lock);
}

static int find_names(struct dataset_job *job, const char *path, const struct stat *st, struct names *n, struct fb_error *e)
{
    struct dataset_job other = {.request = job->request, .root = job->root, .identity = (char *)(uintptr_t)path};
    char *catalog = keep_path(&other, "unpacked");
    if (!catalog)
        return error_advise(
            e, error_set(e, FB_E_UNSUPPORTED, "dataset", "the archive is compressed as a whole, and there is no folder to unpack it into"),
            "unpack it into a plain .tar, or say where catalogs may be kept: catalog_dir");
    catalog[strlen(catalog) - strlen(".catalog")] = 0;
    n->stem = catalog;
    bool is_named =
        asprintf(&n->plain, "%s-%llx-%llx.tar", catalog, (unsigned long long)st->st_size, (unsigned long long)keep_mtime_ns(st)) >= 0;
    is_named = is_named && asprintf(&n->part, "%s.unpacking", catalog) >= 0 && asprintf(&n->lock, "%s.lock", catalog) >= 0;
    return is_named ? 0 : error_set(e, FB_E_NOMEM, "dataset", "no memory");
}

/* Of older versions of the same archive. */
static void remove_others(const struct names *n)
{
    const char *slash = strrchr(n->stem, '/'), *last = strrchr(n->plain, '/') + 1;
    char *folder = strndup(n->stem, (size_t)(slash - n->stem));
    DIR *d = folder ? opendir(folder) : NULL;
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        size_t length = strlen(slash + 1);
        if (strncmp(entry->d_name, slash + 1, length) == 0 && entry->d_name[length] == '-' && strcmp(entry->d_name, last) != 0)
            unlinkat(dirfd(d), entry->d_name, 0);
    }
    if (d)
        closedir(d);
    free(folder);
}

/* ---- all of it ---- */

/* The process that holds the lock unpacks. The kernel releases it when that process dies. */
static int take_lock(struct dataset_job *job, const char *path, struct fb_error *e)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_set_errno(e, "dataset", errno, "make a file in the folder of the catalogs");
    while (flock(fd, LOCK_EX | LOCK_NB) < 0 && (errno == EWOULDBLOCK || errno == EINTR)) {
        nanosleep(&(struct timespec){0, WAIT_NS}, NULL);
        int rc = scan_progress_report(&job->progress, 0, 0, e);
        if (rc < 0) {
            close(fd);
            return rc;
        }
    }
    return fd;
}

/* The time is the archive's: a catalog made of a file that is younger than two seconds would not be kept. */
static int publish(struct unpacking *u, const struct stat *st, const struct names *n, struct fb_error *e)
{
    struct stat now;
    if (fstat(u->in, &now) < 0 || now.st_size != st->st_size || keep_mtime_ns(&now) != keep_mtime_ns(st))
        return error_set(e, FB_E_DATA, "dataset", "the archive was changed while it was unpacked");
    if (futimens(u->out, (struct timespec[2]){st->st_atim, st->st_mtim}) < 0 || file_sync(u->out, NULL) < 0 ||
        rename(n->part, n->plain) < 0)
        return error_set_errno(e, "dataset", errno, "keep the unpacked archive");
    return 0;
}

static int unpack_once(struct dataset_job *job, int fd, const char *path, enum tar_squeeze how, const struct stat *st,
                       const struct names *n, struct fb_error *e)
{
    struct unpacking u = {.job = job, .path = path, .in = fd, .in_size = (uint64_t)st->st_size};
    u.out = open(n->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (u.out < 0)
        return error_set_errno(e, "dataset", errno, "make a file in the folder of the catalogs");
    remove_others(n);
    int rc = unpack_into(&u, how, e);
    if (rc == 0)
        rc = publish(&u, st, n, e);
    if (rc < 0)
        unlink(n->part);
    else
        log_line(&job->request->log, LOG_WARN,
                 "%s is compressed as a whole, so its samples cannot be read in any order: it is unpacked, once, into %s "
                 "(%llu bytes)",
                 path, n->plain, (unsigned long long)u.written);
    close(u.out);
    return rc;
}

int tar_squeezed_unpack(struct dataset_job *job, int fd, const char *path, enum tar_squeeze how, char **out, struct fb_error *e)
{
    struct names n = {0};
    struct stat st;
    *out = NULL;
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, "dataset", errno, "look at the archive");
    int rc = find_names(job, path, &st, &n, e);
    if (rc == 0 && access(n.plain, R_OK) != 0) {
        keep_make_folder(n.plain);
        int lock = take_lock(job, n.lock, e);
        rc = lock < 0 ? lock : access(n.plain, R_OK) == 0 ? 0 : unpack_once(job, fd, path, how, &st, &n, e);
        if (lock >= 0)
            close(lock);
    }
    if (rc == 0) {
        *out = n.plain;
        n.plain = NULL;
    }
    names_free(&n);
    return rc;
}
