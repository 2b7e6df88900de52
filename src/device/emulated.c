#include "device/emulated.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "base/thread.h"

/* ---- "12GB/s,20us,8GB" ---- */

static bool parse_rate(const char *s, double *bytes_per_ns)
{
    char size[32];
    size_t length = strlen(s);
    uint64_t bytes;
    if (length < 3 || length >= sizeof(size) || strcmp(s + length - 2, "/s") != 0)
        return false;
    snprintf(size, sizeof(size), "%.*s", (int)(length - 2), s);
    if (!text_parse_size(size, &bytes) || bytes == 0)
        return false;
    *bytes_per_ns = (double)bytes / 1e9;
    return true;
}

static bool parse_time(const char *s, uint64_t *ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    double n;
    const char *end;
    if (!text_parse_double(s, &n, &end) || n < 0)
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(end, units[i].unit) == 0 && n * units[i].ns <= 60e9) {
            *ns = (uint64_t)(n * units[i].ns);
            return true;
        }
    return false;
}

static int parse_spec(struct emulated *d, const char *spec, struct fb_error *e)
{
    char text[128], *rest = text;
    bool is_fine = strlen(spec) < sizeof(text);
    snprintf(text, sizeof(text), "%s", spec);
    for (int part = 0; is_fine && *spec && rest; part++) {
        char *one = strsep(&rest, ",");
        is_fine = part == 0   ? parse_rate(one, &d->bytes_per_ns)
                  : part == 1 ? parse_time(one, &d->latency_ns)
                  : part == 2 ? text_parse_size(one, &d->memory_limit)
                              : false;
    }
    if (is_fine)
        return 0;
    char shown[64];
    return error_advise(e, error_set(e, FB_E_USAGE, "device", "'emulated:%s' is not a device", text_escape(spec, shown, sizeof(shown))),
                        "say its rate, its latency and, if it matters, its memory: emulated:12GB/s,20us,8GB");
}

/* ---- opening, closing ---- */

static void emulated_close(struct device *device)
{
    struct emulated *d = (struct emulated *)device;
    pthread_mutex_lock(&d->lock);
    d->is_closing = true;
    pthread_cond_broadcast(&d->wakes);
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < ENGINES; i++)
        engine_stop(&d->engine[i]);
    pthread_cond_destroy(&d->wakes);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static int open_parts(struct emulated *d, const char *spec, struct fb_error *e)
{
    FB_TRY(parse_spec(d, spec, e));
    char rate[32];
    text_format(d->device.title, sizeof(d->device.title), "emulated, %s/s, %.0f us",
                text_size((uint64_t)(d->bytes_per_ns * 1e9), rate, sizeof(rate)), (double)d->latency_ns / 1e3);
    for (int i = 0; i < ENGINES; i++)
        FB_TRY(engine_start(&d->engine[i], e));
    return 0;
}

static int emulated_open(struct device **out, const char *spec, struct fb_error *e)
{
    struct emulated *d = calloc(1, sizeof(*d));
    if (!d)
        return error_set_errno(e, "device", ENOMEM, "open a device");
    d->device.ops = &device_emulated;
    d->bytes_per_ns = 12;
    d->latency_ns = 20000;
    for (int i = 0; i < ENGINES; i++)
        d->engine[i] = (struct emulated_engine){.owner = d, .which = i};
    pthread_mutex_init(&d->lock, NULL);
    thread_cond_init(&d->wakes);
    error_clear(&d->fault);
    int rc = open_parts(d, spec, e);
    if (rc < 0) {
        emulated_close(&d->device);
        return rc;
    }
    *out = &d->device;
    return 0;
}

/* ---- memory ---- */

static void count(struct emulated *d, uint64_t *what, uint64_t plus, uint64_t minus)
{
    pthread_mutex_lock(&d->lock);
    *what += plus;
    *what -= minus;
    pthread_mutex_unlock(&d->lock);
}

/* Nothing has to be locked: there is no bus. Counted, so that tests see who pins what. */
static int emulated_pin(struct device *device, void *memory, size_t bytes, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    (void)memory, (void)e;
    count(d, &d->figures.pinned_bytes, bytes, 0);
    return 0;
}

static void emulated_unpin(struct device *device, void *memory, size_t bytes)
{
    struct emulated *d = (struct emulated *)device;
    (void)memory;
    count(d, &d->figures.pinned_bytes, 0, bytes);
}

static int emulated_take(struct device *device, size_t bytes, uintptr_t *out, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    pthread_mutex_lock(&d->lock);
    bool is_full = d->memory_limit && d->figures.memory_bytes + bytes > d->memory_limit;
    d->figures.memory_bytes += is_full ? 0 : bytes;
    pthread_mutex_unlock(&d->lock);
    void *memory = is_full ? NULL : memory_map(bytes);
    if (memory) {
        *out = (uintptr_t)memory;
        return 0;
    }
    if (!is_full)
        count(d, &d->figures.memory_bytes, 0, bytes);
    return error_set(e, FB_E_NOMEM, "device", "the emulated device has no memory for another %zu bytes", bytes);
}

static void emulated_give(struct device *device, uintptr_t memory, size_t bytes)
{
    struct emulated *d = (struct emulated *)device;
    memory_unmap((void *)memory, bytes);
    count(d, &d->figures.memory_bytes, 0, bytes);
}

/* ---- streams and events: an event is the point that it was recorded at ---- */

static int emulated_event_new(struct device *device, struct device_event **out, struct fb_error *e)
{
    (void)device;
    struct emulated_point *p = calloc(1, sizeof(*p));
    *out = (struct device_event *)p;
    return p ? 0 : error_set_errno(e, "device", ENOMEM, "make an event");
}

static void emulated_event_free(struct device *device, struct device_event *event)
{
    (void)device;
    free(event);
}

static int emulated_copy(struct device *device, uintptr_t to, const void *from, size_t bytes, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    struct emulated_work w = {.from = from,
                              .to = (void *)to,
                              .bytes = bytes,
                              .digest = checksum_of(from, bytes),
                              .lasts_ns = (uint64_t)((double)bytes / d->bytes_per_ns),
                              .begins_ns = clock_now_ns() + d->latency_ns};
    FB_TRY(engine_queue(&d->engine[ENGINE_COPY], DEVICE_COPY_STREAM, &w, e));
    pthread_mutex_lock(&d->lock);
    d->figures.copies++;
    d->figures.bytes += bytes;
    pthread_mutex_unlock(&d->lock);
    return 0;
}

int emulated_read(struct device *device, uintptr_t stream, const void *from, size_t bytes, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    struct emulated_work w = {.from = from,
                              .bytes = bytes,
                              .digest = checksum_of(from, bytes),
                              .lasts_ns = (uint64_t)((double)bytes / d->bytes_per_ns),
                              .begins_ns = clock_now_ns() + d->latency_ns};
    return engine_queue(&d->engine[ENGINE_COPY], stream, &w, e);
}

int emulated_kernel(struct device *device, uintptr_t stream, const void *memory, size_t bytes, uint64_t lasts_ns, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    struct emulated_work w = {.from = memory, .bytes = bytes, .lasts_ns = lasts_ns, .begins_ns = clock_now_ns() + d->latency_ns};
    return engine_queue(&d->engine[ENGINE_COMPUTE], stream, &w, e);
}

static int emulated_record(struct device *device, struct device_event *event, uintptr_t stream, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    int s = emulated_stream(stream, e);
    if (s < 0)
        return s;
    pthread_mutex_lock(&d->lock);
    *(struct emulated_point *)event = d->at[s];
    pthread_mutex_unlock(&d->lock);
    return 0;
}

/* The lock is held. */
static int fault_of(const struct emulated *d, struct fb_error *e)
{
    if (d->fault.code && e && !e->code)
        *e = d->fault;
    return d->fault.code;
}

static int emulated_wait(struct device *device, struct device_event *event, uintptr_t stream, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    const struct emulated_point *p = (const struct emulated_point *)event;
    int s = emulated_stream(stream, e), rc = 0;
    if (s < 0)
        return s;
    pthread_mutex_lock(&d->lock);
    if (s == 0) {
        while (!emulated_is_reached(d, p) && !d->fault.code)
            pthread_cond_wait(&d->wakes, &d->lock);
        rc = fault_of(d, e);
    }
    for (int k = 0; s > 0 && k < ENGINES; k++)
        d->at[s].done[k] = p->done[k] > d->at[s].done[k] ? p->done[k] : d->at[s].done[k];
    pthread_mutex_unlock(&d->lock);
    return rc;
}

static int emulated_query(struct device *device, struct device_event *event, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    pthread_mutex_lock(&d->lock);
    int rc = fault_of(d, e);
    if (rc == 0)
        rc = emulated_is_reached(d, (const struct emulated_point *)event);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

int emulated_settle(struct device *device, struct fb_error *e)
{
    struct emulated *d = (struct emulated *)device;
    pthread_mutex_lock(&d->lock);
    while (d->engine[ENGINE_COPY].first || d->engine[ENGINE_COMPUTE].first)
        pthread_cond_wait(&d->wakes, &d->lock);
    int rc = fault_of(d, e);
    pthread_mutex_unlock(&d->lock);
    return rc;
}

static void emulated_figures(struct device *device, struct device_figures *f)
{
    struct emulated *d = (struct emulated *)device;
    pthread_mutex_lock(&d->lock);
    *f = d->figures;
    pthread_mutex_unlock(&d->lock);
}

const struct device_ops device_emulated = {
    .name = "emulated",
    .memory = FB_EMULATED,
    .open = emulated_open,
    .pin = emulated_pin,
    .unpin = emulated_unpin,
    .take = emulated_take,
    .give = emulated_give,
    .event_new = emulated_event_new,
    .event_free = emulated_event_free,
    .copy = emulated_copy,
    .record = emulated_record,
    .wait = emulated_wait,
    .query = emulated_query,
    .figures = emulated_figures,
    .close = emulated_close,
};
