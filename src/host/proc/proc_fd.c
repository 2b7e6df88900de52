/* Descriptors are looked at through /proc/PID/fd: stat tells files, pipes and sockets apart, and which device a file is on. A
 * socket names its protocol in an extended attribute; the tables in /proc/net would cost a millisecond per question. The memory of a poll
 * set is read by process_vm_readv, which neither stops nor traces the process.
 */
#include "host/proc/proc_fd.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The kernel names a socket's protocol in an attribute of its inode: TCP, TCPv6, UDP, UNIX-STREAM ... */
static bool is_network_socket(const char *path)
{
    char name[32] = "";
    ssize_t n = getxattr(path, "system.sockprotoname", name, sizeof(name) - 1);
    return n > 0 && (strncmp(name, "TCP", 3) == 0 || strncmp(name, "UDP", 3) == 0 || strncmp(name, "MPTCP", 5) == 0);
}

/* A file without a name is shared memory between processes, not data. */
static enum fd_kind file_kind_at(struct fd_table *t, dev_t device, nlink_t links)
{
    const struct mount_entry *m = mounts_find(&t->mounts, device);
    t->last_device = links ? device : 0;
    return m && mounts_is_remote(m->kind) ? FD_REMOTE_FILE : FD_FILE;
}

enum fd_kind fd_kind_of(struct fd_table *t, pid_t pid, int fd)
{
    char path[PATH_MAX];
    struct stat s;
    snprintf(path, sizeof(path), "%s/%d/fd/%d", t->proc, (int)pid, fd);
    if (stat(path, &s) < 0)
        return FD_UNKNOWN;
    switch (s.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR: return file_kind_at(t, s.st_dev, s.st_nlink);
    case S_IFIFO: return FD_PIPE;
    case S_IFSOCK: return is_network_socket(path) ? FD_NETWORK : FD_PIPE;
    case S_IFCHR: return FD_DEVICE;
    case S_IFBLK: return FD_FILE;
    default: return FD_PIPE; /* eventfd, timerfd and other anonymous inodes have no type */
    }
}

int fd_first_polled(pid_t pid, uint64_t address, uint64_t count)
{
    struct pollfd first;
    struct iovec here = {&first, sizeof(first)}, there = {(void *)(uintptr_t)address, sizeof(first)};
    if (count == 0 || process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)sizeof(first))
        return -1;
    return first.fd;
}

int fd_first_epolled(const char *proc, pid_t pid, int epoll_fd)
{
    char path[PATH_MAX], line[256];
    int fd = -1;
    snprintf(path, sizeof(path), "%s/%d/fdinfo/%d", proc, (int)pid, epoll_fd);
    FILE *f = fopen(path, "re");
    while (f && fd < 0 && fgets(line, sizeof(line), f))
        if (sscanf(line, "tfd: %d", &fd) != 1)
            fd = -1;
    if (f)
        fclose(f);
    return fd;
}
