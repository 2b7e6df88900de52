/* A stand-in for the NVIDIA driver library. FAKE_NVML is "function=code function=code ...": what each call returns (default 0). */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/gpu_nvml.h"

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
int nvmlDeviceGetName(void *device, char *name, unsigned length);
int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *u);
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *m);
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts);
int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *kib);
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *gen);
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width);

static int code_of(const char *function)
{
    const char *all = getenv("FAKE_NVML"), *at = all ? strstr(all, function) : NULL;
    return at && at[strlen(function)] == '=' ? atoi(at + strlen(function) + 1) : 0;
}

int nvmlInit_v2(void)
{
    return code_of("init");
}
int nvmlShutdown(void)
{
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)(getenv("FAKE_NVML_COUNT") ? atoi(getenv("FAKE_NVML_COUNT")) : 1);
    return code_of("count");
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    static int devices[64];
    devices[index % 64] = (int)index;
    *device = &devices[index % 64];
    return code_of("handle");
}
int nvmlDeviceGetName(void *device, char *name, unsigned length)
{
    (void)device;
    snprintf(name, length, "Fake GPU");
    return code_of("name");
}
int nvmlDeviceGetUtilizationRates(void *device, struct nvml_utilization *u)
{
    bool is_idle = getenv("FAKE_NVML_IDLE") && *(int *)device > 0; /* all but the first */
    u->gpu = is_idle ? 0 : 85;
    u->memory = 10;
    return code_of("utilization");
}
int nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *m)
{
    bool is_idle = getenv("FAKE_NVML_IDLE") && *(int *)device > 0;
    *m = (struct nvml_memory){24000000000ull, 11700000000ull, is_idle ? 1000000 : 12300000000ull};
    return code_of("memory");
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts)
{
    (void)device;
    *milliwatts = 312000;
    return code_of("power");
}
int nvmlDeviceGetPcieThroughput(void *device, int counter, unsigned *kib)
{
    (void)device, (void)counter;
    *kib = 1000000;
    return code_of("pcie");
}
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *gen)
{
    (void)device;
    *gen = 4;
    return code_of("gen");
}
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *width)
{
    (void)device;
    *width = 16;
    return code_of("width");
}
