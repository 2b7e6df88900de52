/* Claims: who fetches a unit holds a flock on its .part file until the entry is published by rename. The lock dies with its holder, so a
 * killed process leaves a .part that the next one takes over, and never half an entry.
 *
 * Between opening the .part and locking it, its last holder may have published it (then the descriptor is the finished entry's) or removed
 * it. So after locking the name must still be the descriptor's, else it starts over.
 *
 * A claim is an open file until the entry is written. Where writing is slow many would be held; a part of what the process may open is left
 * to its sockets and to the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/cache_internal.h"

enum { TRIES = 8, PART_BYTES = DIR_NAME_BYTES + 8 };

static char *part_name(uint64_t hash, char out[PART_BYTES])
{
    char name[DIR_NAME_BYTES];
    snprintf(out, PART_BYTES, "%s.part", dir_entry_name(hash, name));
    return out;
}

static bool is_still_named(const struct cache_dir *d, const char *name, int fd)
{
    struct stat by_name, by_fd;
    return fstat(fd, &by_fd) == 0 && fstatat(d->place_fd, name, &by_name, AT_SYMLINK_NOFOLLOW) == 0 && by_fd.st_ino == by_name.st_ino &&
           by_fd.st_dev == by_name.st_dev;
}

static int open_part(const struct cache_dir *d, const char *name)
{
    int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
    int fd = openat(d->place_fd, name, flags, 0600);
    if (fd >= 0 || errno != ENOENT)
        return fd;
    char folder[3] = {name[0], name[1], 0};
    if (mkdirat(d->place_fd, folder, 0700) < 0 && errno != EEXIST)
        return -1;
    return openat(d->place_fd, name, flags, 0600);
}

bool claim_may(const struct cache_dir *d)
{
    return atomic_load_explicit(&d->claims, memory_order_relaxed) < d->claims_most;
}

static void give_back(struct cache_dir *d, struct claim *c)
{
    close(c->fd);
    c->fd = -1;
    atomic_fetch_sub_explicit(&d->claims, 1, memory_order_relaxed);
}

int claim_take(struct cache_dir *d, uint64_t hash, struct claim *c)
{
    char name[PART_BYTES];
    part_name(hash, name);
    for (int i = 0; i < TRIES; i++) {
        int fd = open_part(d, name);
        if (fd < 0)
            return -errno;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
            int why = errno;
            close(fd);
            return why == EWOULDBLOCK || why == EINTR ? 0 : -why;
        }
        if (is_still_named(d, name, fd)) {
            c->fd = fd;
            atomic_fetch_add_explicit(&d->claims, 1, memory_order_relaxed);
            return 1;
        }
        close(fd);
    }
    return 0;
}

void claim_drop(struct cache_dir *d, uint64_t hash, struct claim *c)
{
    char name[PART_BYTES];
    if (c->fd < 0)
        return;
    unlinkat(d->place_fd, part_name(hash, name), 0); /* while it is locked: nobody else's can be meant */
    give_back(d, c);
}

int claim_publish(struct cache_dir *d, uint64_t hash, struct claim *c)
{
    char part[PART_BYTES], name[DIR_NAME_BYTES];
    if (renameat(d->place_fd, part_name(hash, part), d->place_fd, dir_entry_name(hash, name)) < 0) {
        int why = errno;
        claim_drop(d, hash, c);
        return why;
    }
    give_back(d, c);
    return 0;
}
