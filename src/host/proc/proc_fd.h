/* What a descriptor of another process is. */
#ifndef FB_HOST_PROC_PROC_FD_H
#define FB_HOST_PROC_PROC_FD_H

#include "host/proc/proc_mounts.h"
#include "host/proc/proc_wait.h"

struct fd_table {
    const char *proc;
    struct mounts mounts;
    dev_t last_device; /* of the last regular file looked at; 0: none */
};

enum fd_kind fd_kind_of(struct fd_table *t, pid_t pid, int fd);
/* The first descriptor of a poll set in the memory of `pid`; -1: not readable. */
int fd_first_polled(pid_t pid, uint64_t address, uint64_t count);
int fd_first_epolled(const char *proc, pid_t pid, int epoll_fd);

#endif
