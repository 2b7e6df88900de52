#include "device/device.h"

const struct device_ops *const device_list[] = {
    &device_cuda,
    &device_emulated,
    NULL,
};
