#include "meter/trace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/json_writer.h"

enum { TRACE_THREADS = 256, RING_EVENTS = 1 << 16 };

struct event {
    const char *name;
    uint64_t start_ns, end_ns, bytes;
};

/* One thread's. Only that thread writes; read after the trace has ended. */
struct ring {
    struct event *event; /* NULL: no memory for it */
    uint64_t count;      /* ever written */
    int tid;
    char thread[16];
};

struct trace {
    const void *owner;
    uint64_t generation, started_ns;
    FILE *file;
    char path[512];
    _Atomic int64_t batches_left;
    _Atomic uint32_t rings, missed; /* missed: events of threads beyond the most */
    struct ring ring[TRACE_THREADS];
};

_Atomic(struct trace *) trace_running;
static _Atomic uint32_t writers; /* inside trace_note */
static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
static uint64_t generations; /* under `starting` */

static _Thread_local uint64_t own_generation;
static _Thread_local struct ring *own_ring;

int trace_start(const void *owner, const char *path, uint64_t batches, struct fb_error *e)
{
    struct trace *t = calloc(1, sizeof(*t)), *none = NULL;
    if (!t || !(t->file = fopen(path, "we"))) {
        int error = t ? errno : ENOMEM;
        free(t);
        return error_set_errno(e, "trace", error, "write %s", path);
    }
    t->owner = owner;
    t->started_ns = clock_now_ns();
    snprintf(t->path, sizeof(t->path), "%s", path);
    atomic_store_explicit(&t->batches_left, batches ? (int64_t)batches : 1, memory_order_relaxed);
    pthread_mutex_lock(&starting);
    t->generation = ++generations;
    bool is_alone = atomic_compare_exchange_strong(&trace_running, &none, t); /* publishes what was written above */
    pthread_mutex_unlock(&starting);
    if (is_alone)
        return 0;
    fclose(t->file);
    free(t);
    return error_advise(e, error_set(e, FB_E_STATE, "trace", "a trace is being recorded already"),
                        "only one trace can be recorded at a time: wait until its batches have passed, or close its loader");
}

/* ---- writing events ---- */

/* Thread names may be anything the program chose. */
static void name_thread(char name[16])
{
    prctl(PR_GET_NAME, name);
    for (char *p = name; *p; p++)
        *p = *p < 32 || *p > 126 || *p == '"' || *p == '\\' ? '?' : *p;
}

/* The calling thread's ring; memory is taken here, once per thread and only while a trace is on. */
static struct ring *ring_of(struct trace *t)
{
    if (own_generation == t->generation)
        return own_ring;
    uint32_t i = atomic_fetch_add_explicit(&t->rings, 1, memory_order_relaxed);
    own_generation = t->generation;
    own_ring = i < TRACE_THREADS ? &t->ring[i] : NULL;
    if (own_ring) {
        own_ring->event = malloc(RING_EVENTS * sizeof(*own_ring->event));
        own_ring->tid = (int)syscall(SYS_gettid);
        name_thread(own_ring->thread);
    }
    return own_ring;
}

static void write_event(struct trace *t, const char *name, uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
    struct ring *r = ring_of(t);
    if (r && r->event)
        r->event[r->count++ % RING_EVENTS] = (struct event){name, start_ns, end_ns, bytes};
    else
        atomic_fetch_add_explicit(&t->missed, 1, memory_order_relaxed);
}

/* Counts itself in before it looks for the trace; trace_finish takes the trace away before it counts. Both sequentially consistent: either
 * this thread sees that the trace is gone, or the other one sees this thread. */
static struct trace *hold(const void *owner)
{
    atomic_fetch_add(&writers, 1);
    struct trace *t = atomic_load(&trace_running);
    if (t && t->owner == owner)
        return t;
    atomic_fetch_sub(&writers, 1);
    return NULL;
}

static void let_go(void)
{
    atomic_fetch_sub(&writers, 1);
}

void trace_note(const void *owner, const char *name, uint64_t start_ns, uint64_t end_ns, uint64_t bytes)
{
    struct trace *t = hold(owner);
    if (!t)
        return;
    write_event(t, name, start_ns, end_ns, bytes);
    let_go();
}

void trace_deliver(const void *owner, uint64_t since_ns, uint64_t asked_ns, uint64_t now_ns)
{
    struct trace *t = hold(owner);
    if (!t)
        return;
    if (since_ns >= t->started_ns)
        write_event(t, "step", since_ns, asked_ns, 0);
    write_event(t, "wait", asked_ns, now_ns, 0);
    atomic_fetch_sub_explicit(&t->batches_left, 1, memory_order_relaxed);
    let_go();
}

bool trace_is_over(const void *owner)
{
    struct trace *t = hold(owner);
    bool is_over = t && atomic_load_explicit(&t->batches_left, memory_order_relaxed) <= 0;
    if (t)
        let_go();
    return is_over;
}

/* ---- the file ---- */

/* Reads that a back-end brings are under way many at once on one thread: those become asynchronous events, with a number each. */
static void put_event(struct json_writer *w, const struct trace *t, const struct ring *r, const struct event *e, uint64_t *asyncs)
{
    uint64_t start_ns = e->start_ns > t->started_ns ? e->start_ns : t->started_ns, end_ns = e->end_ns > start_ns ? e->end_ns : start_ns;
    double start = (double)(start_ns - t->started_ns) / 1e3, end = (double)(end_ns - t->started_ns) / 1e3;
    int pid = (int)getpid();
    bool is_async = strcmp(e->name, "read") == 0 && strncmp(r->thread, "fb-w", 4) != 0;
    json_line(w);
    if (!is_async) {
        json_put(w, J_OBJECT(NULL, J("name", e->name), J("ph", "X"), J_FIXED("ts", 3, start), J_FIXED("dur", 3, end - start), J("pid", pid),
                             J("tid", r->tid), J_OBJECT("args", J("bytes", e->bytes))));
        return;
    }
    ++*asyncs;
    json_put(w, J_OBJECT(NULL, J("name", "read"), J("cat", "read"), J("ph", "b"), J("id", *asyncs), J_FIXED("ts", 3, start), J("pid", pid),
                         J("tid", r->tid), J_OBJECT("args", J("bytes", e->bytes))));
    json_line(w);
    json_put(w, J_OBJECT(NULL, J("name", "read"), J("cat", "read"), J("ph", "e"), J("id", *asyncs), J_FIXED("ts", 3, end), J("pid", pid),
                         J("tid", r->tid)));
}

/* The text goes to the file event by event: a trace has millions. */
static void write_out(struct text *text, FILE *f)
{
    fwrite(text->data, 1, text->length, f);
    text->length = 0;
}

static void print_ring(struct json_writer *w, const struct trace *t, const struct ring *r, uint64_t *asyncs)
{
    uint64_t first = r->count > RING_EVENTS ? r->count - RING_EVENTS : 0;
    json_line(w);
    json_put(w, J_OBJECT(NULL, J("name", "thread_name"), J("ph", "M"), J("pid", getpid()), J("tid", r->tid),
                         J_OBJECT("args", J("name", r->thread))));
    write_out(w->out, t->file);
    for (uint64_t i = first; i < r->count; i++) {
        put_event(w, t, r, &r->event[i % RING_EVENTS], asyncs);
        write_out(w->out, t->file);
    }
}

static uint64_t forgotten(const struct trace *t, uint32_t rings)
{
    uint64_t sum = atomic_load_explicit(&t->missed, memory_order_relaxed);
    for (uint32_t i = 0; i < rings; i++)
        sum += t->ring[i].count > RING_EVENTS ? t->ring[i].count - RING_EVENTS : 0;
    return sum;
}

static int write_file(struct trace *t, uint32_t rings, struct fb_error *e)
{
    char events[1024];
    uint64_t asyncs = 0;
    struct text text = TEXT_OVER(events);
    struct json_writer w = {.out = &text};
    json_begin_object(&w, NULL);
    json_put(&w, J("displayTimeUnit", "ms"), J_OBJECT("otherData", J("forgotten_events", forgotten(t, rings))));
    json_line(&w);
    json_begin_array(&w, "traceEvents");
    json_line(&w);
    json_put(&w, J_OBJECT(NULL, J("name", "process_name"), J("ph", "M"), J("pid", getpid()), J_OBJECT("args", J("name", "fullbore"))));
    for (uint32_t i = 0; i < rings; i++)
        if (t->ring[i].event)
            print_ring(&w, t, &t->ring[i], &asyncs);
    json_line(&w);
    json_end(&w);
    json_end(&w);
    text_append(&text, "\n", 1);
    write_out(&text, t->file);
    bool is_written = !ferror(t->file) && !text.failed;
    if (fclose(t->file) != 0 || !is_written)
        return error_set_errno(e, "trace", errno ? errno : EIO, "write %s", t->path);
    return 0;
}

int trace_finish(const void *owner, struct fb_error *e)
{
    struct trace *t = hold(owner);
    if (!t)
        return 0;
    let_go(); /* it stays: only its owner ends it */
    if (!atomic_compare_exchange_strong(&trace_running, &t, NULL))
        return 0;
    while (atomic_load(&writers))
        sched_yield();
    uint32_t rings = atomic_load_explicit(&t->rings, memory_order_relaxed);
    rings = rings < TRACE_THREADS ? rings : TRACE_THREADS;
    int rc = write_file(t, rings, e);
    for (uint32_t i = 0; i < rings; i++)
        free(t->ring[i].event);
    free(t);
    return rc;
}
