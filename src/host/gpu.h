/* Accelerators: NVIDIA by NVML found at run time, AMD by sysfs. What cannot be read is NAN, and `reason` says why. */
#ifndef FB_HOST_GPU_H
#define FB_HOST_GPU_H

#include <stdbool.h>
#include <stddef.h>

struct gpu_figures {
    int count;         /* devices that count: those in use, or all that answered */
    double busy_ratio; /* mean over devices that tell; NAN: none does */
    double memory_bytes, memory_total_bytes, power_w;
    double pcie_in_bytes, pcie_cap_bytes; /* per second, host to device */
};

struct gpu {
    const struct nvml *nvml; /* NULL: there is none */
    char amd[16][64];        /* device folders in sysfs */
    int amd_count;
    int count;
    void *device[16];
    bool was_used[16]; /* since gpu_open */
    char name[96];
    char reason[160]; /* why a figure is missing; empty: none is */
};

/* `library` NULL: FULLBORE_NVML of the environment, else libnvidia-ml.so.1. Never fails: without a device every figure is NAN. */
void gpu_open(struct gpu *g, const char *library, const char *sys);
void gpu_read(struct gpu *g, struct gpu_figures *out);
void gpu_close(struct gpu *g);

#endif
