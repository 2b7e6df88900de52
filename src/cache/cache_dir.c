/* The folder of the disk tier.
 *
 *     DIR/fullbore-cache            says that the folder is ours; flocked (shared) by everyone who uses it
 *     DIR/usage                     bytes in entries and how many use the cache, changed under a flock of the file
 *     DIR/<source>/used             flocked (shared) and touched by everyone who uses that data set
 *     DIR/<source>/source           its name, for people
 *     DIR/<source>/ab/0123...       an entry; .part while it is being fetched
 *
 * Bytes are counted before they are written, so the limit holds even if a process is killed at any moment. A killed process is never
 * subtracted from the count of users; so a process that is alone although the count says otherwise counts the entries again and removes
 * .part files. Evicting holds a flock on DIR itself.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/round_up.h"
#include "base/text/text.h"
#include "cache/cache_internal.h"

static const char marker[] = "fullbore-cache";
static const char marker_text[] = "A cache of fullbore, version 1. It may be deleted at any time when no run uses it.\n";

enum { KEEPS_FREE_PERCENT = 5 };

/* ---- how much is in it ---- */

struct usage {
    uint64_t bytes, users, magic;
};

static const uint64_t usage_magic = UINT64_C(0x3265676173757266); /* "frusage2" */

static struct usage read_usage(const struct cache_dir *d)
{
    struct usage u;
    bool is_known = file_read_all_at(d->usage_fd, &u, sizeof(u), 0) == sizeof(u) && u.magic == usage_magic;
    return is_known ? u : (struct usage){.users = 1, .magic = usage_magic}; /* not trusted */
}

static void unlock_usage(struct cache_dir *d)
{
    flock(d->usage_fd, LOCK_UN);
    pthread_mutex_unlock(&d->usage_lock);
}

/* 0 or an errno; then it is not locked. */
static int lock_usage(struct cache_dir *d)
{
    pthread_mutex_lock(&d->usage_lock);
    while (flock(d->usage_fd, LOCK_EX) < 0)
        if (errno != EINTR) {
            int why = errno;
            pthread_mutex_unlock(&d->usage_lock);
            return why;
        }
    return 0;
}

/* 0 or an errno; the lock is given back. */
static int write_usage(struct cache_dir *d, struct usage u)
{
    int why = file_write_all_at(d->usage_fd, &u, sizeof(u), 0, NULL) < 0 ? errno : 0;
    unlock_usage(d);
    return why;
}

/* ---- opening ---- */

static int failed(struct fb_error *e, const char *path, const char *doing)
{
    int rc = error_set_errno(e, "cache", errno, "%s", doing);
    error_at(e, path, -1);
    return rc;
}

static DIR *open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !d)
        close(fd);
    return d;
}

static int refuse(struct fb_error *e, const char *path, const char *cause)
{
    error_set(e, FB_E_USAGE, "cache", "%s", cause);
    error_remedy(e, "give cache_dir= a folder of its own");
    error_at(e, path, -1);
    return FB_E_USAGE;
}

/* Makes a new folder ours, or sees that it is. Two processes may do that at once: the text is the same. */
static int check_marker(struct cache_dir *d, const char *path, struct fb_error *e)
{
    struct stat st;
    if (fstat(d->fd, &st) < 0)
        return failed(e, path, "look at the cache folder");
    if (st.st_uid != geteuid())
        return refuse(e, path, "the cache folder belongs to another user, who could change what is read from it");
    if (st.st_mode & 022)
        return refuse(e, path, "the cache folder can be written by other users, who could change what is read from it");
    d->marker_fd = openat(d->fd, marker, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (d->marker_fd >= 0)
        return 0;
    if (!file_folder_is_empty(d->fd) && faccessat(d->fd, marker, F_OK, 0) != 0)
        return refuse(e, path, "the cache folder holds other files");
    fchmod(d->fd, 0700);
    d->marker_fd = openat(d->fd, marker, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->marker_fd < 0 || file_write_all(d->marker_fd, marker_text, sizeof(marker_text) - 1, NULL) < 0)
        return failed(e, path, "write into the cache folder");
    return 0;
}

/* ---- walking ---- */

void dir_walk(int place_fd, bool (*each)(void *ctx, int place_fd, const char *name, uint64_t hash, bool is_part), void *ctx)
{
    bool goes_on = true;
    for (int folder = 0; folder < 256 && goes_on; folder++) {
        char name[DIR_NAME_BYTES + 8];
        snprintf(name, sizeof(name), "%02x", (unsigned)folder);
        DIR *d = open_folder(place_fd, name);
        for (struct dirent *e; goes_on && d && (e = readdir(d));) {
            uint64_t hash;
            bool is_part;
            if (!dir_parse_name(folder, e->d_name, &hash, &is_part))
                continue;
            snprintf(name, sizeof(name), "%02x/%.21s", (unsigned)folder, e->d_name);
            goes_on = each(ctx, place_fd, name, hash, is_part);
        }
        if (d)
            closedir(d);
    }
}

static bool count_entry(void *ctx, int place_fd, const char *name, uint64_t hash, bool is_part)
{
    (void)hash;
    uint64_t *sum = ctx;
    struct stat st;
    if (is_part)
        unlinkat(place_fd, name, 0);
    else if (fstatat(place_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
        *sum += round_up((uint64_t)st.st_size, 4096);
    return true;
}

static uint64_t count_everything(const struct cache_dir *d)
{
    uint64_t sum = 0;
    DIR *top = open_folder(d->fd, ".");
    for (struct dirent *e; top && (e = readdir(top));) {
        int place = strlen(e->d_name) == 16 ? openat(d->fd, e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
        if (place < 0)
            continue;
        dir_walk(place, count_entry, &sum);
        close(place);
    }
    if (top)
        closedir(top);
    return sum;
}

/* Registers this process as a user. If it is alone although the count says otherwise, a process was killed, and it counts the entries
 * again; otherwise it relies on the count. */
static int take_stock(struct cache_dir *d, const char *path, struct fb_error *e)
{
    errno = lock_usage(d); /* one comes in at a time: between two kinds of a flock there is a moment without any */
    if (errno)
        return failed(e, path, "write into the cache folder");
    bool is_alone = flock(d->marker_fd, LOCK_EX | LOCK_NB) == 0;
    struct usage u = read_usage(d);
    if (is_alone && u.users > 0)
        u = (struct usage){.bytes = count_everything(d), .magic = usage_magic};
    u.users++;
    flock(d->marker_fd, LOCK_SH);
    errno = write_usage(d, u); /* also makes sure that its block is there: counting down works on a full disk */
    d->is_counted = errno == 0;
    return errno ? failed(e, path, "write into the cache folder") : 0;
}

/* Goes out in order, unless the count must not be trusted. */
static void leave_stock(struct cache_dir *d)
{
    if (atomic_load(&d->must_recount) || lock_usage(d))
        return;
    struct usage u = read_usage(d);
    u.users -= u.users > 0;
    write_usage(d, u);
}

static void write_name(const struct cache_dir *d)
{
    int fd = openat(d->place_fd, "source", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return;
    if (file_write_all(fd, d->name, strlen(d->name), NULL) < 0 || file_write_all(fd, "\n", 1, NULL) < 0)
        unlinkat(d->place_fd, "source", 0);
    close(fd);
}

/* 1: an evictor removed it meanwhile, try again. */
static int try_place(struct cache_dir *d, const char *place, const char *path, struct fb_error *e)
{
    struct stat st;
    if (mkdirat(d->fd, place, 0700) < 0 && errno != EEXIST)
        return failed(e, path, "make a folder in the cache");
    d->place_fd = openat(d->fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    d->used_fd = d->place_fd < 0 ? -1 : openat(d->place_fd, "used", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->used_fd < 0 && errno != ENOENT)
        return failed(e, path, "write into the cache folder");
    if (d->used_fd >= 0) {
        flock(d->used_fd, LOCK_SH); /* held against us only by an evictor, for a moment */
        if (fstat(d->used_fd, &st) == 0 && st.st_nlink > 0)
            return 0;
        close(d->used_fd);
        d->used_fd = -1;
    }
    if (d->place_fd >= 0)
        close(d->place_fd);
    d->place_fd = -1;
    return 1;
}

static int open_place(struct cache_dir *d, const char *path, struct fb_error *e)
{
    char place[24];
    snprintf(place, sizeof(place), "%016llx", (unsigned long long)checksum_of(d->name, strlen(d->name)));
    int rc = 1;
    for (int i = 0; i < 100 && rc == 1; i++)
        rc = try_place(d, place, path, e);
    if (rc != 0)
        return rc < 0 ? rc : error_set(e, FB_E_IO, "cache", "another process keeps changing the cache folder");
    futimens(d->used_fd, NULL);
    if (faccessat(d->place_fd, "source", F_OK, 0) != 0)
        write_name(d);
    return 0;
}

/* An eighth of what the process may open. */
static uint32_t claims_most(void)
{
    struct rlimit l;
    bool is_few = getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < 8 * CACHE_CLAIMS_MOST;
    return is_few ? (uint32_t)(l.rlim_cur / 8) : CACHE_CLAIMS_MOST;
}

int dir_open(struct cache_dir *d, const char *path, const char *name, uint64_t limit, struct fb_error *e)
{
    *d = (struct cache_dir){.fd = -1,
                            .marker_fd = -1,
                            .usage_fd = -1,
                            .place_fd = -1,
                            .used_fd = -1,
                            .limit = limit ? limit : CACHE_NO_LIMIT,
                            .name = strdup(name),
                            .claims_most = claims_most()};
    pthread_mutex_init(&d->usage_lock, NULL);
    if (!d->name)
        return error_set(e, FB_E_NOMEM, "cache", "no memory");
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return failed(e, path, "make the cache folder");
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->fd < 0)
        return failed(e, path, "open the cache folder");
    FB_TRY(check_marker(d, path, e));
    d->usage_fd = openat(d->fd, "usage", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (d->usage_fd < 0)
        return failed(e, path, "write into the cache folder");
    FB_TRY(take_stock(d, path, e));
    return open_place(d, path, e);
}

void dir_close(struct cache_dir *d)
{
    if (d->is_counted)
        leave_stock(d);
    int fds[] = {d->used_fd, d->place_fd, d->usage_fd, d->marker_fd, d->fd};
    for (int i = 0; i < 5; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(d->name);
    pthread_mutex_destroy(&d->usage_lock);
    *d = (struct cache_dir){.fd = -1, .marker_fd = -1, .usage_fd = -1, .place_fd = -1, .used_fd = -1};
}

char *dir_entry_name(uint64_t hash, char out[DIR_NAME_BYTES])
{
    snprintf(out, DIR_NAME_BYTES, "%02x/%016llx", (unsigned)(hash >> 56), (unsigned long long)hash);
    return out;
}

bool dir_parse_name(int folder, const char *name, uint64_t *hash, bool *is_part)
{
    size_t n = strspn(name, "0123456789abcdef");
    if (n != 16 || (name[16] && strcmp(name + 16, ".part") != 0))
        return false;
    *hash = strtoull(name, NULL, 16);
    *is_part = name[16] != 0;
    return (int)(*hash >> 56) == folder;
}

/* ---- room ---- */

static bool leaves_enough_free(const struct cache_dir *d, uint64_t bytes)
{
    struct statvfs v;
    if (fstatvfs(d->fd, &v) < 0)
        return true;
    uint64_t unit = v.f_frsize ? v.f_frsize : v.f_bsize;
    uint64_t keep = (uint64_t)v.f_blocks / 100 * KEEPS_FREE_PERCENT * unit, left = (uint64_t)v.f_bavail * unit;
    return left >= keep && left - keep >= bytes;
}

int dir_reserve(struct cache_dir *d, uint64_t bytes)
{
    int why = lock_usage(d);
    if (why)
        return why;
    struct usage u = read_usage(d);
    if (bytes > d->limit || u.bytes > d->limit - bytes || !leaves_enough_free(d, bytes)) {
        unlock_usage(d);
        return ENOSPC;
    }
    u.bytes += bytes;
    return write_usage(d, u);
}

void dir_release(struct cache_dir *d, uint64_t bytes)
{
    if (lock_usage(d))
        return;
    struct usage u = read_usage(d);
    u.bytes = u.bytes > bytes ? u.bytes - bytes : 0;
    write_usage(d, u);
}

uint64_t dir_used(struct cache_dir *d)
{
    return read_usage(d).bytes;
}

bool dir_is_shared(const struct cache_dir *d)
{
    return read_usage(d).users > 1;
}

bool dir_has_entry(const struct cache_dir *d, uint64_t hash)
{
    char name[DIR_NAME_BYTES];
    struct stat st;
    return fstatat(d->place_fd, dir_entry_name(hash, name), &st, AT_SYMLINK_NOFOLLOW) == 0;
}

uint64_t dir_remove(struct cache_dir *d, int place_fd, const char *name)
{
    struct stat st;
    if (fstatat(place_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || unlinkat(place_fd, name, 0) < 0)
        return 0;
    uint64_t bytes = round_up((uint64_t)st.st_size, 4096);
    dir_release(d, bytes);
    return bytes;
}
