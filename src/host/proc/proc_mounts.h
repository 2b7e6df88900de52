/* The file systems behind open files: which device, which kind, how it would behave. */
#ifndef FB_HOST_PROC_PROC_MOUNTS_H
#define FB_HOST_PROC_PROC_MOUNTS_H

#include <stdbool.h>
#include <sys/types.h>

#include "model/snapshot.h"

enum { MOUNTS_MOST = 256 };

struct mount_entry {
    dev_t device;
    enum file_kind kind;
    char point[128], type[32], source[64];
    bool has_device; /* a block device stands behind it: /proc/diskstats knows it */
};

struct mounts {
    struct mount_entry entry[MOUNTS_MOST];
    int count;
};

/* Reads PROC/PID/mountinfo; `sys` stands for /sys. False: not readable. */
bool mounts_read(struct mounts *m, const char *proc, pid_t pid, const char *sys);
const struct mount_entry *mounts_find(const struct mounts *m, dev_t device);
bool mounts_is_remote(enum file_kind kind);

/* Pure: what a mount's type and source say ("fuse.mountpoint-s3", "mountpoint-s3"); FILE_NONE: ask the block device. */
enum file_kind mounts_kind(const char *type, const char *source);

#endif
