#include "python/py_map.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "python/py_pixels.h"

enum { MOST_FAILURES = 64 }; /* exceptions kept for whoever takes the batch; each may hold an image */

struct map_calls {
    struct module_state *module;
    PyObject *steps;     /* list of callables */
    PyObject *failures;  /* dict: sample -> exception */
    int refs;            /* under Python's lock */
    bool keeps_failures; /* not when bad samples are skipped: nobody would ask */
    sigset_t signals; /* those that the loader's maker blocks: a function runs with them, because a program that it starts inherits them */
};

static atomic_bool is_over; /* the interpreter is about to end: threads that could not be stopped leave it and their state alone */

/* ---- life; Python's lock is held ---- */

void map_calls_hold(struct map_calls *c)
{
    c->refs++;
}

void map_calls_drop(struct map_calls *c)
{
    if (!c || --c->refs > 0)
        return;
    Py_XDECREF(c->steps);
    Py_XDECREF(c->failures);
    free(c);
}

/* Called by close, or later by a thread that close left behind: also when the interpreter has ended, and nothing can be given back. */
static void done(void *ctx)
{
    if (atomic_load(&is_over) || !Py_IsInitialized())
        return;
    PyGILState_STATE gil = PyGILState_Ensure();
    map_calls_drop(ctx);
    PyGILState_Release(gil);
}

PyObject *map_failure_of(struct map_calls *c, int64_t sample)
{
    PyObject *key = c ? PyLong_FromLongLong(sample) : NULL;
    PyObject *failure = key ? Py_XNewRef(PyDict_GetItem(c->failures, key)) : NULL;
    if (failure)
        PyDict_Clear(c->failures);
    Py_XDECREF(key);
    return failure;
}

/* ---- a failed call ---- */

/* The exception that is set, as an object with its traceback. */
static PyObject *take_exception(void)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (value && trace)
        PyException_SetTraceback(value, trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

/* In one line, by Python's side: "ValueError: too dark (augment, train.py:12)". */
static void describe(PyObject *exception, struct fb_error *e)
{
    char text[sizeof(e->cause)] = "a function failed", remedy[sizeof(e->remedy)] = "";
    PyObject *module = PyImport_ImportModule("fullbore._map");
    PyObject *pair = module ? PyObject_CallMethod(module, "describe", "O", exception) : NULL;
    const char *cause, *help;
    if (pair && PyArg_ParseTuple(pair, "ss", &cause, &help)) {
        text_words(text, sizeof(text), "%s", cause);
        text_words(remedy, sizeof(remedy), "%s", help);
    }
    PyErr_Clear();
    Py_XDECREF(pair);
    Py_XDECREF(module);
    *e = (struct fb_error){.code = FB_E_DATA, .sample = -1, .offset = -1, .stage = "map"};
    memcpy(e->cause, text, sizeof(text));
    memcpy(e->remedy, remedy, sizeof(remedy));
}

static int fail(struct map_calls *c, const struct fb_map *m, struct fb_error *e)
{
    PyObject *exception = take_exception();
    if (!exception)
        return FB_E_DATA;
    if (e->code == 0)
        describe(exception, e);
    PyObject *key = PyLong_FromUnsignedLongLong(m->sample);
    if (key && c->keeps_failures && PyDict_Size(c->failures) < MOST_FAILURES)
        PyDict_SetItem(c->failures, key, exception);
    PyErr_Clear();
    Py_XDECREF(key);
    Py_DECREF(exception);
    return e->code ? e->code : FB_E_DATA;
}

/* ---- a call ---- */

static PyObject *labels_as_bytes(const struct fb_map *m)
{
    PyObject *tuple = PyTuple_New(m->label_count);
    for (int i = 0; tuple && i < m->label_count; i++) {
        PyObject *bytes = PyBytes_FromStringAndSize(m->labels[i].data, (Py_ssize_t)m->labels[i].bytes);
        if (!bytes || PyTuple_SetItem(tuple, i, bytes) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* labels: None, or a tuple with bytes for each field that changes and None for the others. */
static int take_labels(struct fb_map *m, PyObject *labels)
{
    if (labels == Py_None)
        return 0;
    for (int i = 0; i < m->label_count; i++) {
        PyObject *item = PyTuple_GetItem(labels, i);
        char *bytes;
        Py_ssize_t n;
        if (!item)
            return -1;
        if (item == Py_None)
            continue;
        if (PyBytes_AsStringAndSize(item, &bytes, &n) < 0)
            return -1;
        if ((size_t)n != m->labels[i].bytes)
            return PyErr_SetString(PyExc_ValueError, "a label of another size"), -1;
        memcpy(m->labels[i].data, bytes, (size_t)n);
    }
    return 0;
}

static int copy_result(struct fb_map *m, enum fb_dtype dtype, int height, int width, const void *from, struct fb_error *e)
{
    void *to = m->make(m, dtype, height, width, e);
    if (!to)
        return -2;
    memcpy(to, from, (size_t)height * (size_t)width * 3 * fb_dtype_size(dtype));
    return 0;
}

static bool is_image(const Py_buffer *v)
{
    return v->ndim == 3 && v->shape[2] == 3 && v->shape[0] <= INT32_MAX && v->shape[1] <= INT32_MAX &&
           (v->itemsize == 1 || v->itemsize == 4);
}

/* result: height x width x 3, C-contiguous, uint8 or float32; Python's side has checked. *is_same: it is the very memory that the function
 * got, and nothing was copied. */
static int take_result(struct fb_map *m, PyObject *result, bool *is_same, struct fb_error *e)
{
    Py_buffer view;
    if (PyObject_GetBuffer(result, &view, PyBUF_C_CONTIGUOUS) < 0)
        return -1;
    int rc = 0;
    *is_same = is_image(&view) && view.buf == m->pixels && view.itemsize == 1 && view.shape[0] == m->height && view.shape[1] == m->width;
    if (!is_image(&view)) {
        PyErr_SetString(PyExc_ValueError, "the result is not height x width x 3");
        rc = -1;
    } else if (!*is_same) {
        rc = copy_result(m, view.itemsize == 4 ? FB_FLOAT32 : FB_UINT8, (int)view.shape[0], (int)view.shape[1], view.buf, e);
    }
    PyBuffer_Release(&view);
    return rc;
}

static int call_step(struct map_calls *c, struct fb_map *m, PyObject *pixels, bool *is_same, struct fb_error *e)
{
    PyObject *pair = PyList_GetItem(c->steps, m->step), *step; /* borrowed */
    int wants_labels;
    if (!pair || !PyArg_ParseTuple(pair, "Op", &step, &wants_labels))
        return -1;
    PyObject *labels = wants_labels ? labels_as_bytes(m) : PyTuple_New(0), *answer = NULL;
    sigset_t ours;
    pthread_sigmask(SIG_SETMASK, &c->signals, &ours);
    if (labels)
        answer = PyObject_CallFunction(step, "OOKK", pixels, labels, (unsigned long long)m->random[0], (unsigned long long)m->random[1]);
    pthread_sigmask(SIG_SETMASK, &ours, NULL);
    Py_XDECREF(labels);
    PyObject *result, *changed;
    int rc = answer && PyArg_ParseTuple(answer, "OO", &result, &changed) ? 0 : -1;
    if (rc == 0)
        rc = take_labels(m, changed);
    if (rc == 0)
        rc = take_result(m, result, is_same, e);
    Py_XDECREF(answer);
    return rc;
}

static int run(struct map_calls *c, struct fb_map *m, struct fb_error *e)
{
    PyObject *pixels = pixels_new(c->module, m->pixels, m->height, m->width);
    bool is_same = false;
    int rc = pixels ? call_step(c, m, pixels, &is_same, e) : -1;
    if (rc == 0 && is_same && pixels_are_kept(pixels)) /* once the lock is given back, who keeps them may change or free them */
        rc = copy_result(m, FB_UINT8, m->height, m->width, m->pixels, e);
    if (rc == -1)
        rc = fail(c, m, e);
    else if (rc < 0)
        rc = e->code ? e->code : FB_E_DATA;
    if (pixels)
        m->keeps_pixels = pixels_end(pixels);
    return rc;
}

/* ---- the workers' thread states ----
 *
 * PyGILState_Ensure alone makes and ends a thread state per call: 16 KiB mapped, touched and unmapped each time. A worker keeps its own
 * from its first call to its end.
 */
static _Thread_local PyThreadState *own_state;

/* With Python's lock held to the last: without it, an interpreter that ends frees the state at the same time. */
static void end_state(void *state)
{
    if (atomic_load(&is_over) || !Py_IsInitialized())
        return;
    PyEval_RestoreThread(state);
    PyGILState_Release(PyGILState_UNLOCKED);
}

static void enter_python(void)
{
    if (own_state) {
        PyEval_RestoreThread(own_state);
        return;
    }
    PyGILState_Ensure();
    own_state = PyThreadState_Get();
    thread_at_end(end_state, own_state);
}

PyObject *map_end(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    atomic_store(&is_over, true);
    Py_RETURN_NONE;
}

static int call(void *ctx, struct fb_map *m, struct fb_error *e)
{
    uint64_t asked = clock_now_ns();
    if (atomic_load(&is_over) || !Py_IsInitialized())
        return error_set(e, FB_E_STATE, "map", "the interpreter has ended");
    enter_python();
    uint64_t let_in = clock_now_ns();
    int rc = run(ctx, m, e);
    PyEval_SaveThread();
    m->wait_ns = let_in - asked;
    m->busy_ns = clock_now_ns() - let_in;
    return rc;
}

int map_calls_new(struct module_state *m, PyObject *steps, fb_options *o)
{
    struct map_calls *c = calloc(1, sizeof(*c));
    if (!c)
        return PyErr_NoMemory(), -1;
    c->module = m;
    c->refs = 1;
    c->keeps_failures = o->on_error == FB_RAISE;
    pthread_sigmask(SIG_SETMASK, NULL, &c->signals);
    c->steps = Py_NewRef(steps);
    c->failures = PyDict_New();
    if (!c->failures || !PyList_Check(steps)) {
        map_calls_drop(c);
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "maps is not a list"), -1);
    }
    o->map = call;
    o->map_done = done;
    o->map_ctx = c;
    return 0;
}
