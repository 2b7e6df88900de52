/* The few functions of the CUDA driver that are used, by their exported names; types as the vendor documents them. */
#ifndef FB_DEVICE_CUDA_DRIVER_H
#define FB_DEVICE_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

enum cuda_code {
    CUDA_OK = 0,
    CUDA_INVALID_VALUE = 1,
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_NOT_INITIALIZED = 3,
    CUDA_DEINITIALIZED = 4,
    CUDA_STUB_LIBRARY = 34,
    CUDA_NO_DEVICE = 100,
    CUDA_INVALID_DEVICE = 101,
    CUDA_INVALID_CONTEXT = 201,
    CUDA_ALREADY_REGISTERED = 712,
    CUDA_CONTEXT_DESTROYED = 709,
    CUDA_NOT_READY = 600,
    CUDA_ILLEGAL_ADDRESS = 700,
    CUDA_NOT_SUPPORTED = 801,
    CUDA_SYSTEM_DRIVER_MISMATCH = 803,
    CUDA_UNKNOWN = 999
};

enum { CUDA_HOST_REGISTER_PORTABLE = 1, CUDA_STREAM_NON_BLOCKING = 1, CUDA_EVENT_DISABLE_TIMING = 2 };

typedef void *cuda_context, *cuda_stream, *cuda_event;
typedef uint64_t cuda_pointer; /* CUdeviceptr on 64-bit systems */

/* Name in the library, and the member that holds it. Names with _v2 are what the vendor's header maps the plain ones to. */
#define CUDA_CALLS(X)                                                                           \
    X(init, "cuInit", (unsigned flags))                                                         \
    X(driver_version, "cuDriverGetVersion", (int *version))                                     \
    X(error_string, "cuGetErrorString", (int code, const char **text))                          \
    X(device_count, "cuDeviceGetCount", (int *count))                                           \
    X(device_get, "cuDeviceGet", (int *device, int ordinal))                                    \
    X(device_name, "cuDeviceGetName", (char *name, int length, int device))                     \
    X(context_retain, "cuDevicePrimaryCtxRetain", (cuda_context * context, int device))         \
    X(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                            \
    X(context_push, "cuCtxPushCurrent_v2", (cuda_context context))                              \
    X(context_pop, "cuCtxPopCurrent_v2", (cuda_context * context))                              \
    X(stream_new, "cuStreamCreate", (cuda_stream * stream, unsigned flags))                     \
    X(stream_free, "cuStreamDestroy_v2", (cuda_stream stream))                                  \
    X(stream_wait, "cuStreamWaitEvent", (cuda_stream stream, cuda_event event, unsigned flags)) \
    X(event_new, "cuEventCreate", (cuda_event * event, unsigned flags))                         \
    X(event_free, "cuEventDestroy_v2", (cuda_event event))                                      \
    X(event_record, "cuEventRecord", (cuda_event event, cuda_stream stream))                    \
    X(event_query, "cuEventQuery", (cuda_event event))                                          \
    X(host_register, "cuMemHostRegister_v2", (void *memory, size_t bytes, unsigned flags))      \
    X(host_unregister, "cuMemHostUnregister", (void *memory))                                   \
    X(memory_new, "cuMemAlloc_v2", (cuda_pointer * out, size_t bytes))                          \
    X(memory_free, "cuMemFree_v2", (cuda_pointer memory))                                       \
    X(copy_in, "cuMemcpyHtoDAsync_v2", (cuda_pointer to, const void *from, size_t bytes, cuda_stream stream))

#define CUDA_MEMBER(member, name, arguments) int(*member) arguments;
struct cuda_driver {
    CUDA_CALLS(CUDA_MEMBER)
};
#undef CUDA_MEMBER

#endif
