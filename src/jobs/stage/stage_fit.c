/* Where the source and the target lie, and whether it fits. A target in memory must leave a quarter of what the machine (or the control
 * group) has free, since the training program wants some, too; a disk 1 % of its size. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/proc/proc_mounts.h"
#include "jobs/stage/stage_internal.h"

/* The path, or the nearest folder above it that exists. */
static bool nearest(const char *path, char *out, size_t out_size)
{
    struct stat st;
    if (snprintf(out, out_size, "%s", path) >= (int)out_size)
        return false;
    while (stat(out, &st) < 0) {
        char *slash = strrchr(out, '/');
        if (!slash) {
            snprintf(out, out_size, ".");
            return true;
        }
        slash[slash == out ? 1 : 0] = 0;
    }
    return true;
}

void stage_device(const char *path, char *out, size_t out_size, bool *is_memory, bool *is_ssd)
{
    char there[PATH_MAX];
    struct stat st;
    struct mounts *m = malloc(sizeof(*m));
    const struct mount_entry *entry = NULL;
    *is_memory = *is_ssd = false;
    snprintf(out, out_size, "unknown");
    if (strstr(path, "://"))
        snprintf(out, out_size, "%.*s", (int)strcspn(path, ":"), path);
    else if (m && nearest(path, there, sizeof(there)) && stat(there, &st) == 0 && mounts_read(m, "/proc", getpid(), "/sys"))
        entry = mounts_find(m, st.st_dev);
    if (entry) {
        snprintf(out, out_size, "%s, %s", snapshot_file_kind_name(entry->kind), entry->type);
        if (entry->kind == FILE_MEMORY)
            snprintf(out, out_size, "%s", snapshot_file_kind_name(entry->kind));
        *is_memory = entry->kind == FILE_MEMORY;
        *is_ssd = entry->kind == FILE_SSD || entry->kind == FILE_NVME || entry->kind == FILE_VIRTUAL;
    }
    free(m);
}

int stage_check_kind(const struct stage_request *q, const struct stage_result *out, struct fb_error *e)
{
    char device[64];
    bool is_memory, is_ssd;
    stage_device(q->target, device, sizeof(device), &is_memory, &is_ssd);
    if (q->to == STAGE_TO_ANY || (q->to == STAGE_TO_RAM && is_memory) || (q->to == STAGE_TO_SSD && is_ssd))
        return 0;
    error_set(e, FB_E_USAGE, "stage", "--to %s, but the target lies on: %s", q->to == STAGE_TO_RAM ? "ram" : "ssd", out->target_device);
    error_remedy(e, q->to == STAGE_TO_RAM ? "a folder in /dev/shm, or on another tmpfs, is in memory" : "choose a folder on an SSD");
    error_at(e, q->target, -1);
    return FB_E_USAGE;
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

void stage_fit(const struct stage_request *q, uint64_t needed, uint64_t memory, struct stage_result *out)
{
    char there[PATH_MAX];
    struct statvfs v;
    bool is_ssd;
    stage_device(q->source, out->source_device, sizeof(out->source_device), &out->is_memory, &is_ssd);
    stage_device(q->target, out->target_device, sizeof(out->target_device), &out->is_memory, &is_ssd);
    out->needed_bytes = needed;
    out->fits = true;
    out->fits_share = 1;
    if (!nearest(q->target, there, sizeof(there)) || statvfs(there, &v) < 0)
        return;
    uint64_t unit = v.f_frsize ? v.f_frsize : v.f_bsize;
    out->free_bytes = (uint64_t)v.f_bavail * unit;
    out->keep_bytes = (uint64_t)v.f_blocks / 100 * unit;
    if (out->is_memory && less(memory, memory / 4) < less(out->free_bytes, out->keep_bytes)) {
        out->free_bytes = memory;
        out->keep_bytes = memory / 4;
    }
    uint64_t room = less(out->free_bytes, out->keep_bytes);
    out->fits = needed <= room;
    out->fits_share = out->fits ? 1 : (double)room / (double)needed;
}
