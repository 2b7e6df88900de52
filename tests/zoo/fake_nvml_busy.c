/* A stand-in for NVML whose one device is as busy as the emulated accelerator writes into the file ZOO_GPU: (busy seconds, time). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct utilization {
    unsigned gpu, memory;
};
struct memory {
    unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetUtilizationRates(void *device, struct utilization *u);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);

int nvmlInit_v2(void)
{
    return 0;
}
int nvmlShutdown(void)
{
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = 1;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    static int one;
    *device = &one;
    return index ? 2 : 0;
}
int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    (void)device;
    snprintf(name, length, "emulated accelerator");
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int nvmlDeviceGetUtilizationRates(void *device, struct utilization *u)
{
    (void)device;
    static double busy_before, at_before, share;
    double row[2] = {0};
    const char *path = getenv("ZOO_GPU");
    FILE *f = path ? fopen(path, "rb") : NULL;
    if (f) {
        if (fread(row, sizeof(row), 1, f) != 1)
            memset(row, 0, sizeof(row));
        fclose(f);
    }
    double at = now();
    if (at > at_before + 0.1) {
        share = at_before > 0 ? (row[0] - busy_before) / (at - at_before) : 0;
        busy_before = row[0];
        at_before = at;
    }
    u->gpu = (unsigned)(100 * (share < 0 ? 0 : share > 1 ? 1 : share));
    u->memory = 0;
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, struct memory *m)
{
    (void)device;
    m->total = 24000000000ull;
    m->used = 3000000000ull;
    m->free = m->total - m->used;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 133000;
    return 0;
}
