/* The few functions of NVML that are used, by their exported names; types as the vendor documents them. */
#ifndef FB_HOST_GPU_NVML_H
#define FB_HOST_GPU_NVML_H

enum nvml_code {
    NVML_OK = 0,
    NVML_UNINITIALIZED = 1,
    NVML_INVALID_ARGUMENT = 2,
    NVML_NOT_SUPPORTED = 3,
    NVML_NO_PERMISSION = 4,
    NVML_NOT_FOUND = 6,
    NVML_DRIVER_NOT_LOADED = 9,
    NVML_TIMEOUT = 10,
    NVML_LIBRARY_MISMATCH = 18,
    NVML_GPU_IS_LOST = 15,
    NVML_UNKNOWN = 999
};

struct nvml_utilization {
    unsigned gpu, memory; /* per cent */
};
struct nvml_memory {
    unsigned long long total, free, used;
};

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*by_index)(unsigned index, void **device);
    int (*name)(void *device, char *name, unsigned length);
    int (*utilization)(void *device, struct nvml_utilization *u);
    int (*memory)(void *device, struct nvml_memory *m);
    int (*power)(void *device, unsigned *milliwatts);
    int (*pcie)(void *device, int counter, unsigned *kib_per_s); /* counter 1: received by the device */
    int (*link_gen)(void *device, unsigned *gen);
    int (*link_width)(void *device, unsigned *width);
};

#endif
