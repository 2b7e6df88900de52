/* The kind of a wait follows from the system call: no tracing, no stop, one line of text per look.
 *
 * A thread that is blocked but in no system call waits for a page. What poll and epoll wait for is told by the first descriptor of the set;
 * PyTorch's queues and most clients poll exactly one. An io_uring wait says nothing about its cause: an idle ring looks like a busy one,
 * and the kernel counts both as iowait, so it has a kind of its own and never counts as storage.
 */
#include "host/proc/proc_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

bool proc_parse_call(const char *line, struct call *c)
{
    *c = (struct call){.state = CALL_UNREADABLE, .number = -1};
    if (strncmp(line, "running", 7) == 0) {
        c->state = CALL_RUNNING;
        return true;
    }
    char *end;
    c->number = strtol(line, &end, 10);
    if (end == line)
        return false;
    c->state = CALL_BLOCKED;
    for (int i = 0; i < 6 && *end == ' '; i++)
        c->arg[i] = strtoull(end, &end, 16);
    return true;
}

enum call_family {
    CALL_READ = 1,
    CALL_RECEIVE,
    CALL_PATH,
    CALL_WRITE,
    CALL_SEND,
    CALL_FUTEX,
    CALL_POLL,
    CALL_SELECT,
    CALL_EPOLL,
    CALL_SLEEP,
    CALL_URING,
    CALL_IOCTL,
    CALL_WAIT,
    CALL_PAGES
};

static const struct {
    long number;
    enum call_family family;
} families[] = {
    {SYS_read, CALL_READ},
    {SYS_pread64, CALL_READ},
    {SYS_readv, CALL_READ},
    {SYS_preadv, CALL_READ},
    {SYS_preadv2, CALL_READ},
    {SYS_sendfile, CALL_READ},
    {SYS_getdents64, CALL_READ},
    {SYS_lseek, CALL_READ},
    {SYS_fstat, CALL_READ},
    {SYS_readahead, CALL_READ},
    {SYS_fadvise64, CALL_READ},
    {SYS_io_getevents, CALL_PATH},
    {SYS_close, CALL_READ},
    {SYS_openat, CALL_PATH},
    {SYS_openat2, CALL_PATH},
    {SYS_statx, CALL_PATH},
    {SYS_newfstatat, CALL_PATH},
    {SYS_faccessat, CALL_PATH},
    {SYS_faccessat2, CALL_PATH},
    {SYS_readlinkat, CALL_PATH},
    {SYS_statfs, CALL_PATH},
    {SYS_recvfrom, CALL_RECEIVE},
    {SYS_recvmsg, CALL_RECEIVE},
    {SYS_recvmmsg, CALL_RECEIVE},
    {SYS_accept, CALL_RECEIVE},
    {SYS_accept4, CALL_RECEIVE},
    {SYS_connect, CALL_RECEIVE},
    {SYS_write, CALL_WRITE},
    {SYS_pwrite64, CALL_WRITE},
    {SYS_writev, CALL_WRITE},
    {SYS_pwritev, CALL_WRITE},
    {SYS_fsync, CALL_WRITE},
    {SYS_fdatasync, CALL_WRITE},
    {SYS_ftruncate, CALL_WRITE},
    {SYS_renameat2, CALL_WRITE},
    {SYS_unlinkat, CALL_WRITE},
    {SYS_sendto, CALL_SEND},
    {SYS_sendmsg, CALL_SEND},
    {SYS_futex, CALL_FUTEX},
    {SYS_ppoll, CALL_POLL},
    {SYS_pselect6, CALL_SELECT},
    {SYS_epoll_pwait, CALL_EPOLL},
    {SYS_nanosleep, CALL_SLEEP},
    {SYS_clock_nanosleep, CALL_SLEEP},
    {SYS_io_uring_enter, CALL_URING},
    {SYS_ioctl, CALL_IOCTL},
    {SYS_wait4, CALL_WAIT},
    {SYS_waitid, CALL_WAIT},
    {SYS_madvise, CALL_PAGES},
    {SYS_mmap, CALL_PAGES},
    {SYS_munmap, CALL_PAGES},
    {SYS_mprotect, CALL_PAGES},
#ifdef SYS_poll
    {SYS_open, CALL_PATH},
    {SYS_stat, CALL_PATH},
    {SYS_lstat, CALL_PATH},
    {SYS_access, CALL_PATH},
    {SYS_poll, CALL_POLL},
    {SYS_select, CALL_SELECT},
    {SYS_epoll_wait, CALL_EPOLL},
    {SYS_getdents, CALL_READ},
    {SYS_readlink, CALL_PATH},
    {SYS_rename, CALL_WRITE},
    {SYS_unlink, CALL_WRITE},
#endif
};

static enum call_family family_of(long number)
{
    for (size_t i = 0; i < sizeof(families) / sizeof(*families); i++)
        if (families[i].number == number)
            return families[i].family;
    return 0;
}

static enum wait_kind wait_on_fd(enum fd_kind kind)
{
    switch (kind) {
    case FD_FILE: return WAIT_FILE;
    case FD_REMOTE_FILE: return WAIT_REMOTE_FILE;
    case FD_PIPE: return WAIT_PIPE;
    case FD_NETWORK: return WAIT_NETWORK;
    case FD_DEVICE: return WAIT_DEVICE;
    default: return WAIT_UNKNOWN;
    }
}

static enum wait_kind wait_on_number(int fd, const struct fd_lookup *ask)
{
    return fd >= 0 && ask ? wait_on_fd(ask->kind_of(ask->ctx, fd)) : WAIT_UNKNOWN;
}

/* poll without descriptors is a sleep by another name. */
static enum wait_kind wait_on_poll(const struct call *c, const struct fd_lookup *ask)
{
    if (c->arg[1] == 0)
        return WAIT_SLEEP;
    return ask ? wait_on_number(ask->first_polled(ask->ctx, c->arg[0], c->arg[1]), ask) : WAIT_UNKNOWN;
}

enum wait_kind proc_wait_kind(const struct call *c, const struct fd_lookup *ask)
{
    if (c->state != CALL_BLOCKED)
        return WAIT_UNKNOWN;
    if (c->number < 0)
        return WAIT_FAULT;
    int fd = (int)c->arg[0];
    switch (family_of(c->number)) {
    case CALL_READ:
    case CALL_RECEIVE:
    case CALL_SEND: return wait_on_number(fd, ask);
    case CALL_WRITE: {
        enum wait_kind k = wait_on_number(fd, ask);
        return k == WAIT_FILE || k == WAIT_REMOTE_FILE || k == WAIT_UNKNOWN ? WAIT_WRITE : k;
    }
    case CALL_PATH: return WAIT_FILE;
    case CALL_FUTEX: return WAIT_LOCK;
    case CALL_POLL: return wait_on_poll(c, ask);
    case CALL_SELECT: return c->arg[0] == 0 ? WAIT_SLEEP : WAIT_UNKNOWN;
    case CALL_EPOLL: return ask ? wait_on_number(ask->first_epolled(ask->ctx, fd), ask) : WAIT_UNKNOWN;
    case CALL_SLEEP: return WAIT_SLEEP;
    case CALL_URING: return WAIT_URING;
    case CALL_IOCTL: return WAIT_DEVICE;
    case CALL_WAIT: return WAIT_CHILD;
    case CALL_PAGES: return WAIT_LOCK; /* the lock of the address space */
    default: return WAIT_UNKNOWN;
    }
}
