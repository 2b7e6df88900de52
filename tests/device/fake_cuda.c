/* A stand-in for the CUDA driver library: enough of a device to see whether it is used as one may.
 *
 *   FAKE_CUDA="cuMemAlloc_v2=2 cuEventRecord=700@3"   what calls return: always, or only the third time
 *   FAKE_CUDA_COUNT=1                                 devices
 *   FAKE_CUDA_LATE=3                                  how often an event says "not yet" before it happens
 *
 * Work is done as late as possible: a copy reads its source when an event behind it happens, not before. Complaints are collected: a call
 * without a context, a copy to memory that is not there, memory given back or unlocked while queued work still uses it. fake_cuda_* are for
 * tests. The program's own streams (numbers that nobody created) exist as soon as they are named.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"

enum { MOST = 4096, CONTEXT_KEY = 0xc0de };

struct event {
    bool is_live, is_recorded, has_happened;
    void *stream;
    unsigned long at; /* what was queued on the stream before it */
    int asked;
    struct event *next; /* every event there ever was: who uses one that is gone is told */
};

struct work {
    void *stream;
    unsigned long number; /* on the stream, from 1 */
    char *to;
    const char *from; /* NULL: waits for an event */
    size_t bytes;
    struct event *event;
    unsigned long event_at;
    void *event_stream;
    bool is_done;
};

struct range {
    char *memory;
    size_t bytes;
};

struct stream {
    void *handle;
    unsigned long queued;
    bool is_ours; /* by cuStreamCreate */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct work work[MOST];
static int works;
static struct range pinned[MOST], memory[MOST];
static int pins, memories;
static struct stream streams[64];
static int stream_count, retained, events_live;
static struct event *all_events;
static char complaints[4096];
static struct {
    char name[40];
    int calls;
} counts[64];
static _Thread_local int depth;

const char *fake_cuda_complaints(void);
int fake_cuda_calls(const char *name);
int fake_cuda_live(void);
void fake_cuda_reset(void);

#define DECLARE(member, name, arguments) int fake_##member arguments __asm__(name);
CUDA_CALLS(DECLARE)
#undef DECLARE

/* ---- what tests ask ---- */

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    size_t used = strlen(complaints);
    va_list args;
    va_start(args, format);
    vsnprintf(complaints + used, sizeof(complaints) - used, format, args);
    va_end(args);
    used = strlen(complaints);
    snprintf(complaints + used, sizeof(complaints) - used, "\n");
}

const char *fake_cuda_complaints(void)
{
    return complaints;
}

int fake_cuda_calls(const char *name)
{
    for (int i = 0; i < 64 && counts[i].name[0]; i++)
        if (strcmp(counts[i].name, name) == 0)
            return counts[i].calls;
    return 0;
}

int fake_cuda_live(void)
{
    int ours = 0;
    for (int i = 0; i < stream_count; i++)
        ours += streams[i].is_ours;
    return retained + ours + events_live + pins + memories;
}

void fake_cuda_reset(void)
{
    works = pins = memories = stream_count = retained = events_live = 0;
    complaints[0] = 0;
    memset(counts, 0, sizeof(counts));
}

/* ---- failures by name ---- */

static int count_call(const char *name)
{
    int i = 0;
    while (i < 63 && counts[i].name[0] && strcmp(counts[i].name, name) != 0)
        i++;
    snprintf(counts[i].name, sizeof(counts[i].name), "%s", name);
    return ++counts[i].calls;
}

/* The lock is held. What FAKE_CUDA says this call returns, or 0. */
static int planned(const char *name)
{
    int nth = count_call(name);
    const char *all = getenv("FAKE_CUDA"), *at = all ? strstr(all, name) : NULL;
    size_t length = strlen(name);
    if (!at || at[length] != '=')
        return 0;
    char *end;
    long code = strtol(at + length + 1, &end, 10);
    return *end != '@' || strtol(end + 1, NULL, 10) == nth ? (int)code : 0;
}

static int begin(const char *name, bool needs_context)
{
    pthread_mutex_lock(&lock);
    int code = planned(name);
    if (needs_context && depth == 0) {
        complain("%s without a context", name);
        code = code ? code : CUDA_INVALID_CONTEXT;
    }
    return code;
}

static int end(int code)
{
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- streams ---- */

static struct stream *stream_of(void *handle)
{
    for (int i = 0; i < stream_count; i++)
        if (streams[i].handle == handle)
            return &streams[i];
    struct stream *s = &streams[stream_count++ % 64];
    *s = (struct stream){.handle = handle};
    return s;
}

static void run_until(void *stream, unsigned long number);

static void run_one(struct work *w)
{
    w->is_done = true;
    if (w->from)
        memcpy(w->to, w->from, w->bytes);
    else
        run_until(w->event_stream, w->event_at);
}

static void run_until(void *stream, unsigned long number)
{
    for (int i = 0; i < works; i++)
        if (!work[i].is_done && work[i].stream == stream && work[i].number <= number)
            run_one(&work[i]);
    while (works && work[works - 1].is_done)
        works--;
}

static void queue(struct work w)
{
    if (works == MOST) {
        complain("more than %d things are queued", MOST);
        return;
    }
    w.number = ++stream_of(w.stream)->queued;
    work[works++] = w;
}

static bool overlaps(const char *a, size_t n, const char *b, size_t m)
{
    return a < b + m && b < a + n;
}

/* Is it used by what is still queued? */
static bool is_in_use(const char *p, size_t bytes)
{
    for (int i = 0; i < works; i++)
        if (!work[i].is_done && work[i].from &&
            (overlaps(p, bytes, work[i].from, work[i].bytes) || overlaps(p, bytes, work[i].to, work[i].bytes)))
            return true;
    return false;
}

static struct range *find(struct range *list, int count, const char *p)
{
    for (int i = 0; i < count; i++)
        if (p >= list[i].memory && p < list[i].memory + list[i].bytes)
            return &list[i];
    return NULL;
}

/* ---- the library ---- */

int fake_init(unsigned flags)
{
    int code = begin("cuInit", false);
    if (flags)
        complain("cuInit with flags");
    return end(code);
}

int fake_driver_version(int *version)
{
    int code = begin("cuDriverGetVersion", false);
    *version = code ? 0 : 12040;
    return end(code);
}

int fake_error_string(int code, const char **text)
{
    int mine = begin("cuGetErrorString", false);
    *text = mine ? NULL : code == CUDA_OUT_OF_MEMORY ? "out of memory" : "a made-up failure";
    return end(mine);
}

int fake_device_count(int *count)
{
    int code = begin("cuDeviceGetCount", false);
    *count = getenv("FAKE_CUDA_COUNT") ? atoi(getenv("FAKE_CUDA_COUNT")) : 1;
    return end(code);
}

int fake_device_get(int *device, int ordinal)
{
    int code = begin("cuDeviceGet", false);
    *device = ordinal;
    return end(code);
}

int fake_device_name(char *name, int length, int device)
{
    int code = begin("cuDeviceGetName", false);
    if (code == 0)
        snprintf(name, (size_t)length, "Fake GPU %d", device);
    return end(code);
}

int fake_context_retain(cuda_context *context, int device)
{
    int code = begin("cuDevicePrimaryCtxRetain", false);
    if (code == 0) {
        retained++;
        *context = (cuda_context)(uintptr_t)(CONTEXT_KEY + device);
    }
    return end(code);
}

int fake_context_release(int device)
{
    (void)device;
    int code = begin("cuDevicePrimaryCtxRelease_v2", false);
    retained--;
    return end(code);
}

int fake_context_push(cuda_context context)
{
    int code = begin("cuCtxPushCurrent_v2", false);
    if ((uintptr_t)context < CONTEXT_KEY || retained <= 0)
        complain("a context that nobody has");
    depth += code == 0;
    return end(code);
}

int fake_context_pop(cuda_context *context)
{
    int code = begin("cuCtxPopCurrent_v2", true);
    *context = NULL;
    depth -= depth > 0;
    return end(code);
}

int fake_stream_new(cuda_stream *stream, unsigned flags)
{
    int code = begin("cuStreamCreate", true);
    if (flags != CUDA_STREAM_NON_BLOCKING)
        complain("a stream that waits for the default one");
    if (code == 0) {
        static uintptr_t next = 0x51000;
        *stream = (cuda_stream)(next++);
        stream_of(*stream)->is_ours = true;
    }
    return end(code);
}

int fake_stream_free(cuda_stream stream)
{
    int code = begin("cuStreamDestroy_v2", true);
    if (!stream_of(stream)->is_ours)
        complain("a stream is destroyed that is not ours");
    stream_of(stream)->is_ours = false;
    return end(code);
}

int fake_stream_wait(cuda_stream stream, cuda_event event, unsigned flags)
{
    struct event *e = event;
    int code = begin("cuStreamWaitEvent", true);
    if (flags || !e->is_live)
        complain("cuStreamWaitEvent for an event that is not there");
    if (code == 0 && e->is_recorded)
        queue((struct work){.stream = stream, .event = e, .event_at = e->at, .event_stream = e->stream});
    return end(code);
}

int fake_event_new(cuda_event *event, unsigned flags)
{
    int code = begin("cuEventCreate", true);
    struct event *e = code ? NULL : calloc(1, sizeof(*e));
    if (flags != CUDA_EVENT_DISABLE_TIMING)
        complain("an event that takes the time");
    if (e) {
        e->is_live = true;
        events_live++;
        e->next = all_events;
        all_events = e;
        *event = e;
    }
    return end(code);
}

int fake_event_free(cuda_event event)
{
    struct event *e = event;
    int code = begin("cuEventDestroy_v2", true);
    if (!e->is_live)
        complain("an event is destroyed twice");
    e->is_live = false;
    events_live--;
    return end(code);
}

int fake_event_record(cuda_event event, cuda_stream stream)
{
    struct event *e = event;
    int code = begin("cuEventRecord", true);
    if (!e->is_live)
        complain("an event is recorded that is not there");
    if (code == 0)
        *e = (struct event){.is_live = true, .is_recorded = true, .stream = stream, .at = stream_of(stream)->queued, .next = e->next};
    return end(code);
}

int fake_event_query(cuda_event event)
{
    struct event *e = event;
    int code = begin("cuEventQuery", true), late = getenv("FAKE_CUDA_LATE") ? atoi(getenv("FAKE_CUDA_LATE")) : 0;
    if (!e->is_live)
        complain("an event is asked that is not there");
    if (code == 0 && e->is_recorded && !e->has_happened) {
        if (e->asked++ < late)
            return end(CUDA_NOT_READY);
        run_until(e->stream, e->at);
        e->has_happened = true;
    }
    return end(code);
}

int fake_host_register(void *p, size_t bytes, unsigned flags)
{
    int code = begin("cuMemHostRegister_v2", true);
    if (flags != CUDA_HOST_REGISTER_PORTABLE || (uintptr_t)p % 4096)
        complain("cuMemHostRegister of memory that is no pages");
    if (code == 0 && find(pinned, pins, p))
        code = CUDA_ALREADY_REGISTERED;
    if (code == 0)
        pinned[pins++ % MOST] = (struct range){p, bytes};
    return end(code);
}

int fake_host_unregister(void *p)
{
    int code = begin("cuMemHostUnregister", true);
    struct range *r = find(pinned, pins, p);
    if (!r)
        complain("memory is unlocked that was not locked");
    else if (is_in_use(r->memory, r->bytes))
        complain("memory is unlocked while a copy still reads it");
    if (r)
        *r = pinned[--pins];
    return end(code);
}

int fake_memory_new(cuda_pointer *out, size_t bytes)
{
    int code = begin("cuMemAlloc_v2", true);
    if (code == 0) {
        char *p = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
        memory[memories++ % MOST] = (struct range){p, bytes};
        *out = (cuda_pointer)(uintptr_t)p;
    }
    return end(code);
}

int fake_memory_free(cuda_pointer p)
{
    int code = begin("cuMemFree_v2", true);
    struct range *r = find(memory, memories, (char *)(uintptr_t)p);
    if (!r)
        complain("memory is given back that was not taken");
    else if (is_in_use(r->memory, r->bytes))
        complain("memory is given back while a copy still writes it");
    if (r) {
        free(r->memory);
        *r = memory[--memories];
    }
    return end(code);
}

int fake_copy_in(cuda_pointer to, const void *from, size_t bytes, cuda_stream stream)
{
    int code = begin("cuMemcpyHtoDAsync_v2", true);
    struct range *r = find(memory, memories, (char *)(uintptr_t)to);
    if (!r || (char *)(uintptr_t)to + bytes > r->memory + r->bytes)
        complain("a copy to memory that is not there");
    if (code == 0)
        queue((struct work){.stream = stream, .to = (char *)(uintptr_t)to, .from = from, .bytes = bytes});
    return end(code);
}
