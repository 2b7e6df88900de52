/* Descriptors are looked at through /proc/PID/fd: stat tells files, pipes and sockets apart, and which device a file is on. A socket is on
 * the network when the tables of TCP or UDP know its inode; answers are kept, because sockets live long. The memory of a poll set is read
 * by process_vm_readv, which neither stops nor traces the process.
 */
#include "host/proc_fd.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SOCKET_TABLE_BYTES = 1 << 20 };

/* Lines "sl local remote st tx:rx tr:when retrnsmt uid timeout inode ..." */
static bool table_has(const char *proc, pid_t pid, const char *name, uint64_t inode)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%d/net/%s", proc, (int)pid, name);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    char line[512];
    bool is_there = false;
    unsigned long long found;
    for (int i = 0; !is_there && i < 20000 && fgets(line, sizeof(line), f); i++)
        is_there = sscanf(line, " %*d: %*s %*s %*s %*s %*s %*s %*s %*s %llu", &found) == 1 && found == inode;
    fclose(f);
    return is_there;
}

static bool is_network_socket(struct fd_table *t, pid_t pid, uint64_t inode)
{
    for (int i = 0; i < t->sockets; i++)
        if (t->socket[i].inode == inode)
            return t->socket[i].is_network;
    static const char *const tables[] = {"tcp", "tcp6", "udp", "udp6"};
    bool is_network = false;
    for (int i = 0; i < 4 && !is_network; i++)
        is_network = table_has(t->proc, pid, tables[i], inode);
    int at = t->sockets < SOCKETS_KEPT ? t->sockets++ : (int)(inode % SOCKETS_KEPT);
    t->socket[at].inode = inode;
    t->socket[at].is_network = is_network;
    return is_network;
}

static enum fd_kind file_kind_at(struct fd_table *t, dev_t device)
{
    const struct mount_entry *m = mounts_find(&t->mounts, device);
    t->last_device = device;
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
    case S_IFDIR: return file_kind_at(t, s.st_dev);
    case S_IFIFO: return FD_PIPE;
    case S_IFSOCK: return is_network_socket(t, pid, s.st_ino) ? FD_NETWORK : FD_PIPE;
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
