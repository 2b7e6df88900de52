/* What a thread waits for: its system call and the file descriptor in it. */
#ifndef FB_HOST_PROC_PROC_WAIT_H
#define FB_HOST_PROC_PROC_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "model/snapshot.h"

enum call_state { CALL_RUNNING, CALL_BLOCKED, CALL_UNREADABLE };

struct call {
    enum call_state state;
    long number; /* -1: blocked outside a system call, that is in a page fault */
    uint64_t arg[6];
};

/* Parses a line of /proc/PID/task/TID/syscall. */
bool proc_parse_call(const char *line, struct call *c);

/* What a descriptor is. */
enum fd_kind { FD_UNKNOWN, FD_FILE, FD_REMOTE_FILE, FD_PIPE, FD_NETWORK, FD_DEVICE };

/* Asks about descriptor `fd`, or about the first one of the poll set at `address` when fd is -1. */
struct fd_lookup {
    enum fd_kind (*kind_of)(void *ctx, int fd);
    int (*first_polled)(void *ctx, uint64_t address, uint64_t count); /* -1: cannot be read */
    int (*first_epolled)(void *ctx, int epoll_fd);
    void *ctx;
};

/* Pure, given the answers of `ask`. */
enum wait_kind proc_wait_kind(const struct call *c, const struct fd_lookup *ask);

#endif
