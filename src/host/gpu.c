#include "host/gpu.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "base/text/text.h"
#include "host/gpu_nvml.h"
#include "host/proc/proc_file.h"

enum { GPUS_MOST = 16, PCIE_IN = 1 };

static void give_reason(struct gpu *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The first reason is kept. */
static void give_reason(struct gpu *g, const char *format, ...)
{
    if (g->reason[0])
        return;
    va_list args;
    va_start(args, format);
    text_vwords(g->reason, sizeof(g->reason), format, args);
    va_end(args);
}

static const char *code_text(int code)
{
    switch (code) {
    case NVML_UNINITIALIZED: return "NVML is not initialised";
    case NVML_INVALID_ARGUMENT: return "the driver refuses the query";
    case NVML_NOT_SUPPORTED: return "the device does not report it (MIG, WSL2 or an old card)";
    case NVML_NO_PERMISSION: return "this user has no permission to ask";
    case NVML_NOT_FOUND: return "there is no such device";
    case NVML_DRIVER_NOT_LOADED: return "the NVIDIA driver is not loaded";
    case NVML_TIMEOUT: return "the driver did not answer in time";
    case NVML_LIBRARY_MISMATCH: return "driver and library have different versions";
    case NVML_GPU_IS_LOST: return "the device has fallen off the bus";
    default: return "an error the driver does not explain";
    }
}

/* ---- NVML ---- */

static struct nvml calls; /* one library per process */

static const struct dynlib_call wanted[] = {
    {"nvmlInit_v2", offsetof(struct nvml, init), false},
    {"nvmlShutdown", offsetof(struct nvml, shutdown), false},
    {"nvmlDeviceGetCount_v2", offsetof(struct nvml, count), false},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct nvml, by_index), false},
    {"nvmlDeviceGetName", offsetof(struct nvml, name), true},
    {"nvmlDeviceGetUtilizationRates", offsetof(struct nvml, utilization), true},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct nvml, memory), true},
    {"nvmlDeviceGetPowerUsage", offsetof(struct nvml, power), true},
    {"nvmlDeviceGetPcieThroughput", offsetof(struct nvml, pcie), true},
    {"nvmlDeviceGetCurrPcieLinkGeneration", offsetof(struct nvml, link_gen), true},
    {"nvmlDeviceGetCurrPcieLinkWidth", offsetof(struct nvml, link_width), true},
    {0},
};

static void open_devices(struct gpu *g)
{
    unsigned count = 0;
    int rc = calls.count(&count);
    if (rc != NVML_OK || count == 0) {
        give_reason(g, "%s", rc != NVML_OK ? code_text(rc) : "the driver reports no device");
        return; /* what a failed call wrote there is no count */
    }
    for (unsigned i = 0; i < count && g->count < GPUS_MOST; i++) {
        rc = calls.by_index(i, &g->device[g->count]);
        if (rc == NVML_OK)
            g->count++;
        else
            give_reason(g, "device %u: %s", i, code_text(rc));
    }
    if (g->count && calls.name && calls.name(g->device[0], g->name, sizeof(g->name)) != NVML_OK)
        g->name[0] = 0;
    g->name[sizeof(g->name) - 1] = 0;
}

static void open_nvml(struct gpu *g, const char *library)
{
    const struct dynlib nvml = {"NVIDIA driver library", (const char *const[]){library, NULL}, "host", "install the NVIDIA driver", wanted};
    struct fb_error e = {0};
    if (dynlib_open(&nvml, &calls, &e) < 0) {
        give_reason(g, "no AMD device, and %s", e.cause);
        return;
    }
    int rc = calls.init();
    if (rc != NVML_OK) {
        give_reason(g, "%s", code_text(rc));
        return;
    }
    g->nvml = &calls;
    open_devices(g);
}

/* Adds to a sum that is NAN until something is known. */
static void add(double *sum, double value)
{
    *sum = isnan(*sum) ? value : *sum + value;
}

/* GB/s per lane after coding: 0.25, 0.5, 0.985 and doubling. */
static double lane_bytes(unsigned gen)
{
    static const double per_lane[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};
    return gen < sizeof(per_lane) / sizeof(*per_lane) ? per_lane[gen] : NAN;
}

/* A device without work and with nearly no memory in use is not this program's. */
static bool is_in_use(struct gpu *g, int i)
{
    struct nvml_utilization u;
    struct nvml_memory m;
    const struct nvml *n = g->nvml;
    g->was_used[i] |= n->utilization && n->utilization(g->device[i], &u) == NVML_OK && u.gpu > 0;
    g->was_used[i] |= n->memory && n->memory(g->device[i], &m) == NVML_OK && m.used > 500ull << 20;
    return g->was_used[i];
}

/* Devices that were used since watching began; all of them as long as none was. */
static int choose_devices(struct gpu *g, bool chosen[GPUS_MOST])
{
    int used = 0;
    for (int i = 0; g->nvml && i < g->count; i++)
        used += chosen[i] = g->count == 1 || is_in_use(g, i);
    for (int i = 0; i < g->count && !used; i++)
        chosen[i] = true;
    return used ? used : g->count;
}

static void read_nvml_device(struct gpu *g, void *device, struct gpu_figures *out, int *told)
{
    const struct nvml *n = g->nvml;
    struct nvml_utilization u;
    struct nvml_memory m;
    unsigned milliwatts, kib, gen, width;
    int rc = n->utilization ? n->utilization(device, &u) : NVML_NOT_SUPPORTED;
    if (rc == NVML_OK && u.gpu <= 100) {
        add(&out->busy_ratio, u.gpu / 100.0);
        ++*told;
    } else {
        give_reason(g, "no utilisation: %s", code_text(rc == NVML_OK ? NVML_UNKNOWN : rc));
    }
    if (n->memory && n->memory(device, &m) == NVML_OK) {
        add(&out->memory_bytes, (double)m.used);
        add(&out->memory_total_bytes, (double)m.total);
    }
    if (n->power && n->power(device, &milliwatts) == NVML_OK)
        add(&out->power_w, milliwatts / 1e3);
    if (n->pcie && n->pcie(device, PCIE_IN, &kib) == NVML_OK)
        add(&out->pcie_in_bytes, kib * 1024.0);
    if (n->link_gen && n->link_width && n->link_gen(device, &gen) == NVML_OK && n->link_width(device, &width) == NVML_OK && width <= 64)
        add(&out->pcie_cap_bytes, lane_bytes(gen) * width);
}

/* ---- AMD ---- */

static bool read_amd_number(const struct gpu *g, int i, const char *name, double *value)
{
    char path[PATH_MAX], text[64];
    uint64_t n;
    snprintf(path, sizeof(path), "%s/%s", g->amd[i], name);
    if (proc_read(AT_FDCWD, path, text, sizeof(text)) <= 0 || proc_numbers(text, &n, 1) != 1)
        return false;
    *value = (double)n;
    return true;
}

static void open_amd(struct gpu *g, const char *sys)
{
    double ignored;
    for (int i = 0; i < GPUS_MOST; i++) {
        snprintf(g->amd[g->amd_count], sizeof(g->amd[0]), "%.32s/class/drm/card%d/device", sys, i);
        if (read_amd_number(g, g->amd_count, "gpu_busy_percent", &ignored) ||
            read_amd_number(g, g->amd_count, "mem_info_vram_total", &ignored))
            g->amd_count++;
    }
    if (g->amd_count)
        snprintf(g->name, sizeof(g->name), "AMD GPU");
}

static void read_amd(struct gpu *g, struct gpu_figures *out, int *told)
{
    double n;
    for (int i = 0; i < g->amd_count; i++) {
        if (read_amd_number(g, i, "gpu_busy_percent", &n) && n <= 100) {
            add(&out->busy_ratio, n / 100);
            ++*told;
        } else {
            give_reason(g, "the AMD driver does not report gpu_busy_percent");
        }
        if (read_amd_number(g, i, "mem_info_vram_used", &n))
            add(&out->memory_bytes, n);
        if (read_amd_number(g, i, "mem_info_vram_total", &n))
            add(&out->memory_total_bytes, n);
    }
}

/* ---- both ---- */

void gpu_open(struct gpu *g, const char *library, const char *sys)
{
    memset(g, 0, sizeof(*g));
    const char *chosen = library ? library : getenv("FULLBORE_NVML");
    open_amd(g, sys);
    if (!g->amd_count)
        open_nvml(g, chosen && *chosen ? chosen : "libnvidia-ml.so.1");
}

void gpu_read(struct gpu *g, struct gpu_figures *out)
{
    int told = 0;
    bool chosen[GPUS_MOST] = {false};
    int count = g->nvml ? choose_devices(g, chosen) : 0;
    *out = (struct gpu_figures){count + g->amd_count, NAN, NAN, NAN, NAN, NAN, NAN};
    for (int i = 0; g->nvml && i < g->count; i++)
        if (chosen[i])
            read_nvml_device(g, g->device[i], out, &told);
    read_amd(g, out, &told);
    if (told)
        out->busy_ratio /= told;
}

void gpu_close(struct gpu *g)
{
    if (g->nvml)
        g->nvml->shutdown();
    memset(g, 0, sizeof(*g));
}
