#include "host/proc/proc_mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/text/text.h"
#include "host/proc/proc_file.h"

enum { MOUNTINFO_BYTES = 1 << 17 };

static const struct {
    const char *type;
    enum file_kind kind;
} kinds[] = {
    {"tmpfs", FILE_MEMORY},
    {"ramfs", FILE_MEMORY},
    {"devtmpfs", FILE_MEMORY},
    {"hugetlbfs", FILE_MEMORY},
    {"nfs", FILE_NFS},
    {"nfs4", FILE_NFS},
    {"9p", FILE_9P},
    {"virtiofs", FILE_9P},
    {"cifs", FILE_OTHER_REMOTE},
    {"smb3", FILE_OTHER_REMOTE},
    {"ceph", FILE_OTHER_REMOTE},
    {"lustre", FILE_OTHER_REMOTE},
    {"gpfs", FILE_OTHER_REMOTE},
    {"beegfs", FILE_OTHER_REMOTE},
    {"glusterfs", FILE_OTHER_REMOTE},
    {"overlay", FILE_OTHER_LOCAL},
    {"btrfs", FILE_OTHER_LOCAL},
    {"zfs", FILE_OTHER_LOCAL},
    {"squashfs", FILE_OTHER_LOCAL},
};

enum file_kind mounts_kind(const char *type, const char *source)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (strcmp(type, kinds[i].type) == 0)
            return kinds[i].kind;
    if (strncmp(type, "fuse", 4) != 0)
        return FILE_NONE;
    if (strcmp(type, "fuseblk") == 0)
        return FILE_OTHER_LOCAL;
    static const char *const s3[] = {"mountpoint-s3", "s3fs", "goofys", "gcsfuse", "geesefs", "rclone"};
    for (size_t i = 0; i < sizeof(s3) / sizeof(*s3); i++)
        if (strstr(type, s3[i]) || strcmp(source, s3[i]) == 0)
            return FILE_S3;
    return FILE_FUSE;
}

bool mounts_is_remote(enum file_kind kind)
{
    return kind == FILE_NFS || kind == FILE_9P || kind == FILE_S3 || kind == FILE_FUSE || kind == FILE_OTHER_REMOTE;
}

/* A partition has no queue/ of its own: the disk above it has. */
static int read_rotational(const char *sys, dev_t device)
{
    static const char *const forms[] = {"%s/dev/block/%u:%u/queue/rotational", "%s/dev/block/%u:%u/../queue/rotational"};
    char path[PATH_MAX], text[16];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), forms[i], sys, major(device), minor(device));
        if (proc_read(AT_FDCWD, path, text, sizeof(text)) > 0)
            return text[0] == '1';
    }
    return -1;
}

static enum file_kind block_kind(const char *sys, dev_t device, const char *source)
{
    const char *name = text_last_part(source);
    if (strncmp(name, "nvme", 4) == 0)
        return FILE_NVME;
    if (strncmp(name, "vd", 2) == 0 || strncmp(name, "xvd", 3) == 0)
        return FILE_VIRTUAL; /* what it says about rotating is the host's guess */
    int rotational = read_rotational(sys, device);
    return rotational < 0 ? FILE_OTHER_LOCAL : rotational ? FILE_ROTATING : FILE_SSD;
}

/* "36 35 98:0 /root /point options [tags] - type source superoptions" */
static bool parse_line(char *line, struct mount_entry *m, const char *sys)
{
    unsigned a = 0, b = 0;
    char point[256] = "", *dash = strstr(line, " - ");
    if (!dash || sscanf(line, "%*d %*d %u:%u %*s %255s", &a, &b, point) != 3)
        return false;
    char type[32] = "", source[256] = "";
    if (sscanf(dash + 3, "%31s %255s", type, source) < 1)
        return false;
    *m = (struct mount_entry){.device = makedev(a, b)};
    snprintf(m->point, sizeof(m->point), "%.127s", point);
    snprintf(m->type, sizeof(m->type), "%s", type);
    snprintf(m->source, sizeof(m->source), "%.63s", source);
    m->kind = mounts_kind(type, source);
    m->has_device = m->kind == FILE_NONE && a != 0;
    if (m->kind == FILE_NONE)
        m->kind = a ? block_kind(sys, m->device, source) : FILE_OTHER_LOCAL;
    return true;
}

bool mounts_read(struct mounts *m, const char *proc, pid_t pid, const char *sys)
{
    char path[PATH_MAX], *save = NULL;
    char *text = malloc(MOUNTINFO_BYTES);
    m->count = 0;
    snprintf(path, sizeof(path), "%s/%d/mountinfo", proc, (int)pid);
    bool is_read = text && proc_read(AT_FDCWD, path, text, MOUNTINFO_BYTES) > 0;
    for (char *line = is_read ? strtok_r(text, "\n", &save) : NULL; line && m->count < MOUNTS_MOST; line = strtok_r(NULL, "\n", &save))
        m->count += parse_line(line, &m->entry[m->count], sys);
    free(text);
    return is_read;
}

const struct mount_entry *mounts_find(const struct mounts *m, dev_t device)
{
    for (int i = 0; i < m->count; i++)
        if (m->entry[i].device == device)
            return &m->entry[i];
    return NULL;
}
