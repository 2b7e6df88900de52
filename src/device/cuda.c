/* "cuda:N": an NVIDIA device, through the driver's own library.
 *
 * The library (libcuda.so.1) comes with the driver and is loaded when a device is opened: nothing is linked, and a machine without one
 * only gets to hear so. FULLBORE_CUDA names another library. We work in the device's primary context, the one that torch and everything
 * else made on CUDA's runtime uses, so their streams and our memory know each other; it is current only inside our calls, and the caller's
 * own is back afterwards. Streams of the caller's are CUstream handles: 1 is the legacy default stream, 2 the one per thread (0 is taken
 * for 1).
 *
 * Not tried on hardware: tests/device runs it against a stand-in that checks contexts, order and what is still in use.
 */
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dynlib.h"
#include "base/text/text.h"
#include "device/cuda_driver.h"
#include "device/device.h"

struct cuda {
    struct device device;
    const struct cuda_driver *driver;
    int handle;
    cuda_context context;
    cuda_stream copies;
    _Atomic uint64_t copy_count, copy_bytes, pinned_bytes, memory_bytes;
};

/* ---- the library: once per process, never unloaded (a driver does not like that) ---- */

static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_driver calls;
static bool is_loaded;

static int load_library(struct fb_error *e)
{
#define CALL(member, name, arguments) {name, offsetof(struct cuda_driver, member), false},
    static const struct dynlib_call wanted[] = {CUDA_CALLS(CALL){0}};
#undef CALL
    const char *chosen = getenv("FULLBORE_CUDA"), *const names[] = {chosen && *chosen ? chosen : "libcuda.so.1", NULL};
    const struct dynlib library = {"CUDA driver", names, "device", "install the NVIDIA driver, or leave the device out", wanted};
    int rc = dynlib_open(&library, &calls, e);
    is_loaded = rc == 0;
    return rc;
}

static int get_driver(struct fb_error *e)
{
    pthread_mutex_lock(&library_lock);
    int rc = is_loaded ? 0 : load_library(e);
    pthread_mutex_unlock(&library_lock);
    return rc;
}

/* ---- errors ---- */

static int our_code(int code)
{
    switch (code) {
    case CUDA_OUT_OF_MEMORY: return FB_E_NOMEM;
    case CUDA_DEINITIALIZED:
    case CUDA_CONTEXT_DESTROYED: return FB_E_STATE;
    case CUDA_NO_DEVICE:
    case CUDA_STUB_LIBRARY:
    case CUDA_NOT_SUPPORTED:
    case CUDA_SYSTEM_DRIVER_MISMATCH: return FB_E_UNSUPPORTED;
    default: return FB_E_IO;
    }
}

static int check(int code, const char *what, struct fb_error *e)
{
    if (code == CUDA_OK)
        return 0;
    const char *text = NULL;
    if (calls.error_string(code, &text) != CUDA_OK || !text)
        text = "an error the driver does not explain";
    return error_set(e, our_code(code), "device", "CUDA cannot %s: %s (%d)", what, text, code);
}

/* The context is current between these; a failed `enter` needs no `leave`. */
static int enter(const struct cuda *c, struct fb_error *e)
{
    return check(c->driver->context_push(c->context), "use the device's context", e);
}

static void leave(const struct cuda *c)
{
    cuda_context ours;
    c->driver->context_pop(&ours);
}

/* ---- opening, closing ---- */

static int parse_index(const char *spec, int *index, struct fb_error *e)
{
    char *end;
    errno = 0;
    long n = *spec ? strtol(spec, &end, 10) : 0;
    if (*spec && (!isdigit((unsigned char)*spec) || *end || errno || n > 1023)) {
        char shown[64];
        return error_advise(e, error_set(e, FB_E_USAGE, "device", "'cuda:%s' is not a device", text_escape(spec, shown, sizeof(shown))),
                            "use cuda or cuda:N");
    }
    *index = (int)n;
    return 0;
}

static int check_count(int index, struct fb_error *e)
{
    int count = 0;
    FB_TRY(check(calls.device_count(&count), "count its devices", e));
    if (index < count)
        return 0;
    error_set(e, FB_E_UNSUPPORTED, "device", "there is no device cuda:%d: CUDA sees %d", index, count);
    if (count)
        error_remedy(e, "use cuda:0 to cuda:%d, and look at CUDA_VISIBLE_DEVICES", count - 1);
    else
        error_remedy(e, "look at CUDA_VISIBLE_DEVICES and the driver");
    return FB_E_UNSUPPORTED;
}

static void describe(struct cuda *c)
{
    int version = 0;
    char name[64] = "";
    if (calls.device_name(name, sizeof(name), c->handle) != CUDA_OK)
        snprintf(name, sizeof(name), "CUDA device");
    name[sizeof(name) - 1] = 0;
    calls.driver_version(&version);
    snprintf(c->device.title, sizeof(c->device.title), "%s, CUDA %d.%d", name, version / 1000, version % 1000 / 10);
}

static int make_stream(struct cuda *c, struct fb_error *e)
{
    FB_TRY(enter(c, e));
    int rc = check(calls.stream_new(&c->copies, CUDA_STREAM_NON_BLOCKING), "make a stream", e);
    leave(c);
    return rc;
}

static void cuda_close(struct device *d)
{
    struct cuda *c = (struct cuda *)d;
    if (c->copies && enter(c, NULL) == 0) {
        calls.stream_free(c->copies);
        leave(c);
    }
    if (c->context)
        calls.context_release(c->handle);
    free(c);
}

static int open_parts(struct cuda *c, const char *spec, struct fb_error *e)
{
    FB_TRY(parse_index(spec, &c->device.index, e));
    FB_TRY(get_driver(e));
    FB_TRY(check(calls.init(0), "start", e));
    FB_TRY(check_count(c->device.index, e));
    FB_TRY(check(calls.device_get(&c->handle, c->device.index), "find the device", e));
    FB_TRY(check(calls.context_retain(&c->context, c->handle), "make a context on the device", e));
    describe(c);
    return make_stream(c, e);
}

static int cuda_open(struct device **out, const char *spec, struct fb_error *e)
{
    struct cuda *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set_errno(e, "device", ENOMEM, "open a device");
    c->device.ops = &device_cuda;
    c->driver = &calls;
    int rc = open_parts(c, spec, e);
    if (rc < 0) {
        cuda_close(&c->device);
        return rc;
    }
    *out = &c->device;
    return 0;
}

/* ---- memory ---- */

static int cuda_pin(struct device *d, void *memory, size_t bytes, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    FB_TRY(enter(c, e));
    int rc = check(calls.host_register(memory, bytes, CUDA_HOST_REGISTER_PORTABLE), "page-lock memory", e);
    leave(c);
    if (rc == 0)
        atomic_fetch_add_explicit(&c->pinned_bytes, bytes, memory_order_relaxed);
    return rc;
}

static void cuda_unpin(struct device *d, void *memory, size_t bytes)
{
    struct cuda *c = (struct cuda *)d;
    if (enter(c, NULL) < 0)
        return; /* the driver is gone, and its locks with it */
    calls.host_unregister(memory);
    leave(c);
    atomic_fetch_sub_explicit(&c->pinned_bytes, bytes, memory_order_relaxed);
}

static int cuda_take(struct device *d, size_t bytes, uintptr_t *out, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    cuda_pointer p = 0;
    FB_TRY(enter(c, e));
    int rc = check(calls.memory_new(&p, bytes), "allocate memory on the device", e);
    leave(c);
    if (rc < 0)
        return rc;
    *out = (uintptr_t)p;
    atomic_fetch_add_explicit(&c->memory_bytes, bytes, memory_order_relaxed);
    return 0;
}

static void cuda_give(struct device *d, uintptr_t memory, size_t bytes)
{
    struct cuda *c = (struct cuda *)d;
    if (enter(c, NULL) < 0)
        return;
    calls.memory_free(memory);
    leave(c);
    atomic_fetch_sub_explicit(&c->memory_bytes, bytes, memory_order_relaxed);
}

/* ---- streams and events: a device_event is the driver's own handle ---- */

static cuda_event handle_of(struct device_event *event)
{
    return (cuda_event)event;
}

static cuda_stream stream_of(const struct cuda *c, uintptr_t stream)
{
    uintptr_t legacy = 1;
    return stream == DEVICE_COPY_STREAM ? c->copies : (cuda_stream)(stream ? stream : legacy);
}

static int cuda_event_new(struct device *d, struct device_event **out, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    cuda_event event = NULL;
    FB_TRY(enter(c, e));
    int rc = check(calls.event_new(&event, CUDA_EVENT_DISABLE_TIMING), "make an event", e);
    leave(c);
    if (rc == 0)
        *out = (struct device_event *)event;
    return rc;
}

static void cuda_event_free(struct device *d, struct device_event *event)
{
    struct cuda *c = (struct cuda *)d;
    if (enter(c, NULL) < 0)
        return;
    calls.event_free(handle_of(event));
    leave(c);
}

static int cuda_copy(struct device *d, uintptr_t to, const void *from, size_t bytes, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    FB_TRY(enter(c, e));
    int rc = check(calls.copy_in(to, from, bytes, c->copies), "copy a batch to the device", e);
    leave(c);
    if (rc < 0)
        return rc;
    atomic_fetch_add_explicit(&c->copy_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->copy_bytes, bytes, memory_order_relaxed);
    return 0;
}

static int cuda_record(struct device *d, struct device_event *event, uintptr_t stream, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    FB_TRY(enter(c, e));
    int rc = check(calls.event_record(handle_of(event), stream_of(c, stream)), "record an event", e);
    leave(c);
    return rc;
}

static int cuda_wait(struct device *d, struct device_event *event, uintptr_t stream, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    FB_TRY(enter(c, e));
    int rc = check(calls.stream_wait(stream_of(c, stream), handle_of(event), 0), "make a stream wait", e);
    leave(c);
    return rc;
}

static int cuda_query(struct device *d, struct device_event *event, struct fb_error *e)
{
    struct cuda *c = (struct cuda *)d;
    FB_TRY(enter(c, e));
    int code = calls.event_query(handle_of(event));
    leave(c);
    return code == CUDA_NOT_READY ? 0 : code == CUDA_OK ? 1 : check(code, "tell whether a copy is done", e);
}

static void cuda_figures(struct device *d, struct device_figures *f)
{
    struct cuda *c = (struct cuda *)d;
    *f = (struct device_figures){
        .copies = atomic_load_explicit(&c->copy_count, memory_order_relaxed),
        .bytes = atomic_load_explicit(&c->copy_bytes, memory_order_relaxed),
        .pinned_bytes = atomic_load_explicit(&c->pinned_bytes, memory_order_relaxed),
        .memory_bytes = atomic_load_explicit(&c->memory_bytes, memory_order_relaxed),
    };
}

const struct device_ops device_cuda = {
    .name = "cuda",
    .memory = FB_CUDA,
    .open = cuda_open,
    .pin = cuda_pin,
    .unpin = cuda_unpin,
    .take = cuda_take,
    .give = cuda_give,
    .event_new = cuda_event_new,
    .event_free = cuda_event_free,
    .copy = cuda_copy,
    .record = cuda_record,
    .wait = cuda_wait,
    .query = cuda_query,
    .figures = cuda_figures,
    .close = cuda_close,
};
