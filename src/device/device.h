/* Devices by name: "cuda", "cuda:1", "emulated:12GB/s,20us". */
#ifndef FB_DEVICE_DEVICE_H
#define FB_DEVICE_DEVICE_H

#include "device/device_ops.h"

/* FB_E_USAGE: there is no such kind, the remedy names those there are; else as `open` of device_ops.h. */
int device_open(struct device **out, const char *spec, struct fb_error *e);

extern const struct device_ops *const device_list[]; /* ends with NULL */
extern const struct device_ops device_cuda, device_emulated;

#endif
