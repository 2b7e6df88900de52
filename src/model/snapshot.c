#include "model/snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

_Static_assert(sizeof(struct snapshot) % sizeof(double) == 0, "a snapshot is a row of doubles");

const char *snapshot_file_kind_name(enum file_kind k)
{
    static const char *const names[FILE_KINDS] = {"unknown",
                                                  "rotating disk",
                                                  "SSD",
                                                  "NVMe",
                                                  "virtual disk",
                                                  "memory (tmpfs)",
                                                  "NFS",
                                                  "9p",
                                                  "S3 by mountpoint-s3",
                                                  "FUSE",
                                                  "remote file system",
                                                  "local file system"};
    return k < FILE_KINDS ? names[k] : "unknown";
}

void snapshot_forget_stacks(struct snapshot *s)
{
    for (size_t at = offsetof(struct snapshot, stack_known) / sizeof(double); at < sizeof(*s) / sizeof(double); at++)
        ((double *)s)[at] = NAN;
}

/* What is not a sum over the interval: GAUGE is weighed by time, LAST is replaced, LOW and HIGH are extremes. */
enum merge { MERGE_GAUGE, MERGE_LAST, MERGE_LOW, MERGE_HIGH };

#define AT(field) offsetof(struct snapshot, field) / sizeof(double)
static const struct {
    size_t at;
    enum merge how;
} not_sums[] = {
    {AT(at_s), MERGE_LAST},
    {AT(calls_known), MERGE_GAUGE},
    {AT(code_bytes), MERGE_LAST},
    {AT(rss_bytes), MERGE_HIGH},
    {AT(cpu_ratio), MERGE_GAUGE},
    {AT(cores), MERGE_LAST},
    {AT(quota_cores), MERGE_LAST},
    {AT(memory_used_bytes), MERGE_HIGH},
    {AT(memory_total_bytes), MERGE_LAST},
    {AT(memory_limit_bytes), MERGE_LAST},
    {AT(memory_group_bytes), MERGE_HIGH},
    {AT(psi_cpu), MERGE_GAUGE},
    {AT(psi_io), MERGE_GAUGE},
    {AT(psi_memory), MERGE_GAUGE},
    {AT(psi_memory_full), MERGE_GAUGE},
    {AT(disk_cap_bytes), MERGE_LAST},
    {AT(disk_cap_reads), MERGE_LAST},
    {AT(file_kind), MERGE_LAST},
    {AT(net_cap_bytes), MERGE_LAST},
    {AT(gpu_count), MERGE_LAST},
    {AT(gpu_ratio), MERGE_GAUGE},
    {AT(gpu_low_ratio), MERGE_LOW},
    {AT(gpu_high_ratio), MERGE_HIGH},
    {AT(gpu_memory_bytes), MERGE_HIGH},
    {AT(gpu_memory_total_bytes), MERGE_LAST},
    {AT(gpu_power_w), MERGE_GAUGE},
    {AT(pcie_in_bytes), MERGE_GAUGE},
    {AT(pcie_cap_bytes), MERGE_LAST},
    {AT(stack_known), MERGE_GAUGE},
};

static double merge_one(double a, double b, enum merge how, double weight_a, double weight_b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    switch (how) {
    case MERGE_GAUGE: return weight_a + weight_b > 0 ? (a * weight_a + b * weight_b) / (weight_a + weight_b) : b;
    case MERGE_LOW: return a < b ? a : b;
    case MERGE_HIGH: return a > b ? a : b;
    default: return b;
    }
}

void snapshot_merge(struct snapshot *a, const struct snapshot *b)
{
    double *x = (double *)a;
    const double *y = (const double *)b;
    double kept[sizeof(not_sums) / sizeof(*not_sums)], weight_a = a->wall_s, weight_b = b->wall_s;
    for (size_t i = 0; i < sizeof(not_sums) / sizeof(*not_sums); i++)
        kept[i] = merge_one(x[not_sums[i].at], y[not_sums[i].at], not_sums[i].how, weight_a, weight_b);
    double threads[ROLE_COUNT], processes[ROLE_COUNT];
    for (int r = 0; r < ROLE_COUNT; r++) {
        threads[r] = b->role[r].threads;
        processes[r] = b->role[r].processes;
    }
    for (size_t i = 0; i < sizeof(*a) / sizeof(double); i++)
        x[i] = isnan(x[i]) ? y[i] : isnan(y[i]) ? x[i] : x[i] + y[i];
    for (size_t i = 0; i < sizeof(not_sums) / sizeof(*not_sums); i++)
        x[not_sums[i].at] = kept[i];
    for (int r = 0; r < ROLE_COUNT; r++) {
        a->role[r].threads = threads[r];
        a->role[r].processes = processes[r];
    }
}

static void halve(struct series *s)
{
    int kept = 0;
    for (int i = 0; i + 1 < s->count; i += 2, kept++) {
        s->row[kept] = s->row[i];
        snapshot_merge(&s->row[kept], &s->row[i + 1]);
    }
    if (s->count % 2)
        s->row[kept++] = s->row[s->count - 1];
    s->count = kept;
    s->merged *= 2;
}

int series_add(struct series *s, const struct snapshot *row)
{
    if (!s->row) {
        s->row = malloc(SERIES_MOST * sizeof(*s->row));
        if (!s->row)
            return FB_E_NOMEM;
        s->merged = 1;
    }
    if (s->count && s->in_last < s->merged) {
        snapshot_merge(&s->row[s->count - 1], row);
        s->in_last++;
        return 0;
    }
    if (s->count == SERIES_MOST)
        halve(s);
    s->row[s->count++] = *row;
    s->in_last = 1;
    return 0;
}

void series_free(struct series *s)
{
    free(s->row);
    *s = (struct series){0};
}
