/* A loader. Each method enters the gate, gives the interpreter's lock away, calls the engine, takes it back, and hands on what the engine
 * said meanwhile. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "python/gate.h"
#include "python/line_queue.h"
#include "python/module.h"

#define WAIT_NS 100000000u /* between looks at signals: what the engine promises for its own waits too */

struct loader_object {
    PyObject_HEAD
    fb_loader *loader;         /* NULL: closed. Changed with the interpreter's lock held */
    pid_t owner;
    struct gate gate;
    PyObject *say;             /* called with (level, line) */
    PyObject *show;            /* called with (what, done, total) while scanning, or None */
    PyThreadState *inside;     /* of the thread that is inside the engine, while it has given the interpreter's lock away */
    char state[1024];          /* after the last batch returned: kept here, so that a signal handler can ask for it inside next() */
};

static struct line_queue lines;

static void forget_lines(void)
{
    line_queue_reset(&lines);
}

void loader_prepare_fork(void)
{
    pthread_atfork(NULL, NULL, forget_lines);
}

/* ------------------------------------------------------------------------------------------ what the engine calls meanwhile */

static void report(PyObject *result)
{
    if (result)
        Py_DECREF(result);
    else
        PyErr_WriteUnraisable(NULL);
}

/* Leaves an exception that is on its way as it is. */
static void say_lines(struct loader_object *self)
{
    struct line line;
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    while (line_queue_take(&lines, &line)) {
        PyObject *text = PyUnicode_DecodeUTF8(line.text, (Py_ssize_t)strlen(line.text), "backslashreplace");
        report(text ? PyObject_CallFunction(self->say, "iN", line.level, text) : NULL);
    }
    PyErr_Restore(type, value, trace);
}

static void take_line(void *ctx, int level, const char *text)
{
    (void)ctx; /* may be gone, when the thread could not be stopped */
    line_queue_put(&lines, level, text);
}

static int ask_interrupted(void *ctx)
{
    struct loader_object *self = ctx;
    if (self->gate.is_closing)
        return 1;
    PyEval_RestoreThread(self->inside);
    say_lines(self);
    int is_raised = PyErr_CheckSignals() < 0; /* the exception stays set until the method returns */
    self->inside = PyEval_SaveThread();
    return is_raised || self->gate.is_closing; /* a handler may have closed us */
}

static void show_progress(void *ctx, const struct fb_progress *p)
{
    struct loader_object *self = ctx;
    PyEval_RestoreThread(self->inside);
    report(PyObject_CallFunction(self->show, "sKK", p->what, (unsigned long long)p->done, (unsigned long long)p->total));
    self->inside = PyEval_SaveThread();
}

/* --------------------------------------------------------------------------------------------------- getting in and out */

static int raise_closed(void)
{
    raise_code(FB_E_STATE, "the loader is closed", "open a new one");
    return -1;
}

static int refuse(enum gate_answer answer)
{
    if (answer == GATE_CLOSED)
        return raise_closed();
    raise_code(FB_E_STATE, "the loader is inside another call of this thread, which a signal handler interrupted",
               "set a flag in the handler and act on it between batches");
    return -1;
}

/* 0: this thread is alone inside, and must call leave. */
static int enter(struct loader_object *self)
{
    if (raise_if_forked(self->owner))
        return -1;
    if (!self->loader)
        return raise_closed();
    enum gate_answer answer = gate_enter(&self->gate, 0);
    while (answer == GATE_BUSY) {
        Py_BEGIN_ALLOW_THREADS
        answer = gate_enter(&self->gate, WAIT_NS);
        Py_END_ALLOW_THREADS
        if (answer == GATE_BUSY && PyErr_CheckSignals() < 0)
            return -1;
    }
    return answer == GATE_IN ? 0 : refuse(answer);
}

/* Closes unless another thread was faster; that nobody is inside is the caller's to know. */
static void close_engine(struct loader_object *self)
{
    fb_loader *l = self->loader;
    self->loader = NULL;
    Py_BEGIN_ALLOW_THREADS
    fb_close(l);
    Py_END_ALLOW_THREADS
}

static void leave(struct loader_object *self)
{
    say_lines(self);
    bool is_closing_mine = self->gate.is_closing && self->loader; /* a handler closed us, or another thread waits to */
    gate_leave(&self->gate);
    if (is_closing_mine) {
        Py_BEGIN_ALLOW_THREADS
        gate_wait_empty(&self->gate);
        Py_END_ALLOW_THREADS
        close_engine(self);
    }
}

#define BEGIN_ENGINE(self) (self)->inside = PyEval_SaveThread()
#define END_ENGINE(self) PyEval_RestoreThread((self)->inside)

/* What a failed call raises: the interrupt that is already set, or the engine's error. */
static PyObject *raise_failure(struct loader_object *self, int code, const struct fb_error *e)
{
    if (PyErr_Occurred())
        return NULL;
    if (code == FB_E_INTERRUPTED && self->gate.is_closing)
        return raise_closed(), NULL;
    if (e->code == 0)
        return raise_code(code, "the engine failed without saying why", "please report this"), NULL;
    return raise_error(e);
}

static void keep_state(struct loader_object *self)
{
    char state[sizeof(self->state)];
    int length = fb_save_state(self->loader, state, sizeof(state));
    if (length > 0 && (size_t)length < sizeof(state))
        memcpy(self->state, state, (size_t)length + 1);
}

/* -------------------------------------------------------------------------------------------------------- opening, closing */

static int open_engine(struct loader_object *self, fb_options *o)
{
    struct fb_error e = {0};
    o->log = take_line;
    o->interrupted = ask_interrupted;
    o->progress = self->show == Py_None ? NULL : show_progress;
    o->ctx = self;
    BEGIN_ENGINE(self);
    int rc = fb_open(o, &self->loader, &e);
    END_ENGINE(self);
    if (rc < 0)
        raise_failure(self, rc, &e);
    else
        keep_state(self);
    say_lines(self);
    return rc < 0 ? -1 : 0;
}

static struct loader_object *make(PyTypeObject *type, PyObject *say, PyObject *show)
{
    struct loader_object *self = PyObject_New(struct loader_object, type);
    if (!self)
        return NULL;
    self->loader = NULL;
    self->owner = getpid();
    self->say = Py_NewRef(say);
    self->show = Py_NewRef(show);
    self->inside = NULL;
    self->state[0] = 0;
    gate_init(&self->gate);
    return self;
}

/* _Loader(values, say, show) */
static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"values", "say", "show", NULL};
    PyObject *values, *say, *show;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO", names, &PyDict_Type, &values, &say, &show))
        return NULL;
    struct open_request *r = open_request_new(values);
    if (!r)
        return NULL;
    struct loader_object *self = make(type, say, show);
    if (self && open_engine(self, open_request_options(r)) < 0)
        Py_CLEAR(self);
    open_request_free(r);
    return (PyObject *)self;
}

static void shut(struct loader_object *self)
{
    if (getpid() != self->owner) {
        self->loader = NULL; /* the parent's; its threads are not here and its locks may be taken for ever */
        return;
    }
    if (!self->loader || gate_shut(&self->gate) == GATE_INSIDE)
        return; /* inside: leave() will close */
    Py_BEGIN_ALLOW_THREADS
    gate_wait_empty(&self->gate);
    Py_END_ALLOW_THREADS
    if (self->loader)
        close_engine(self);
    say_lines(self);
}

static PyObject *loader_close(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    shut(self);
    Py_RETURN_NONE;
}

static void loader_dealloc(struct loader_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    shut(self);
    gate_destroy(&self->gate);
    Py_DECREF(self->say);
    Py_DECREF(self->show);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------------------------------------------------- iterating */

static PyObject *loader_start_epoch(struct loader_object *self, PyObject *arg)
{
    struct fb_error e = {0};
    long long epoch = PyLong_AsLongLong(arg);
    if ((epoch == -1 && PyErr_Occurred()) || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int64_t started = fb_start_epoch(self->loader, epoch, &e);
    END_ENGINE(self);
    keep_state(self);
    PyObject *result = started < 0 ? raise_failure(self, (int)started, &e) : PyLong_FromLongLong(started);
    leave(self);
    return result;
}

/* The next batch, or None at the end of the epoch. */
static PyObject *loader_next(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    struct fb_error e = {0};
    fb_batch *b = NULL;
    if (enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int rc = fb_next_batch(self->loader, &b, &e);
    END_ENGINE(self);
    PyObject *result = NULL;
    if (rc >= 0)
        keep_state(self);
    if (rc < 0)
        raise_failure(self, rc, &e);
    else if (rc == 0)
        result = Py_NewRef(Py_None);
    else
        result = batch_new(PyType_GetModuleState(Py_TYPE((PyObject *)self)), b, self->owner);
    leave(self);
    return result;
}

static PyObject *loader_set_rank(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    int rank, world_size;
    if (!PyArg_ParseTuple(args, "ii", &rank, &world_size) || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int rc = fb_set_rank(self->loader, rank, world_size, &e);
    END_ENGINE(self);
    PyObject *result = rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None);
    leave(self);
    return result;
}

static PyObject *loader_load_state(struct loader_object *self, PyObject *arg)
{
    struct fb_error e = {0};
    const char *json = PyUnicode_AsUTF8AndSize(arg, NULL);
    if (!json || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int rc = fb_load_state(self->loader, json, &e);
    END_ENGINE(self);
    keep_state(self);
    PyObject *result = rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None);
    leave(self);
    return result;
}

/* Needs no gate: the text is ours. */
static PyObject *loader_save_state(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    return raise_if_forked(self->owner) ? NULL : PyUnicode_FromString(self->state);
}

/* --------------------------------------------------------------------------------------------------------------- asking */

static PyObject *read_stats(struct loader_object *self)
{
    char *json = NULL;
    int wanted = 4096, size = 0;
    while (wanted >= size) { /* it may grow between two calls */
        size = wanted + 1024;
        char *larger = realloc(json, (size_t)size);
        if (!larger)
            break;
        json = larger;
        Py_BEGIN_ALLOW_THREADS
        wanted = fb_get_stats(self->loader, json, (size_t)size);
        Py_END_ALLOW_THREADS
    }
    PyObject *text = wanted >= 0 && wanted < size ? PyUnicode_DecodeUTF8(json, wanted, "backslashreplace") : PyErr_NoMemory();
    free(json);
    return text;
}

static PyObject *loader_stats(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    if (raise_if_forked(self->owner))
        return NULL;
    enum gate_answer answer = self->loader ? gate_enter_as_guest(&self->gate) : GATE_CLOSED;
    if (answer != GATE_IN)
        return refuse(answer), NULL;
    PyObject *text = read_stats(self);
    gate_leave_as_guest(&self->gate);
    return text;
}

/* (samples, fingerprint). Asking does not settle the rank. */
static PyObject *loader_counts(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    if (enter(self) < 0)
        return NULL;
    unsigned long long samples = fb_sample_count(self->loader), fingerprint = fb_fingerprint(self->loader);
    leave(self);
    return Py_BuildValue("KK", samples, fingerprint);
}

/* (batches per epoch, rank, world size), after set_rank. */
static PyObject *loader_ranks(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    int rank, world_size;
    if (enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    unsigned long long batches = fb_batch_count(self->loader);
    fb_get_rank(self->loader, &rank, &world_size);
    END_ENGINE(self);
    leave(self);
    return Py_BuildValue("Kii", batches, rank, world_size);
}

static PyObject *list_classes(const fb_loader *l)
{
    int count = fb_class_count(l);
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(fb_class_name(l, i));
        if (!name || PyList_SetItem(list, i, name) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *loader_classes(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    if (enter(self) < 0)
        return NULL;
    PyObject *list = list_classes(self->loader);
    leave(self);
    return list;
}

static PyObject *get_closed(struct loader_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!self->loader || self->gate.is_closing);
}

static PyMethodDef loader_methods[] = {
    {"start_epoch", (PyCFunction)loader_start_epoch, METH_O, "starts that epoch, or the next one for -1; returns its number"},
    {"next", (PyCFunction)loader_next, METH_NOARGS, "the next batch, or None at the end of the epoch"},
    {"set_rank", (PyCFunction)loader_set_rank, METH_VARARGS, "fixes rank and world size before the first epoch; -1, -1: from the environment"},
    {"save_state", (PyCFunction)loader_save_state, METH_NOARGS, "the state after the last batch returned, as JSON"},
    {"load_state", (PyCFunction)loader_load_state, METH_O, "continues at a state with the next epoch that is started"},
    {"stats", (PyCFunction)loader_stats, METH_NOARGS, "what the loader has done since it was opened, as JSON"},
    {"counts", (PyCFunction)loader_counts, METH_NOARGS, "(samples, fingerprint)"},
    {"ranks", (PyCFunction)loader_ranks, METH_NOARGS, "(batches per epoch, rank, world size)"},
    {"classes", (PyCFunction)loader_classes, METH_NOARGS, "the names of the classes, by label"},
    {"close", (PyCFunction)loader_close, METH_NOARGS, "stops and frees everything but batches that are still held"},
    {0},
};

static PyGetSetDef loader_getset[] = {
    {"closed", (getter)get_closed, NULL, "no more batches will come", NULL},
    {0},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_doc, "_Loader(values, say, show): the engine, opened."},
    {Py_tp_new, loader_new},
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_methods, loader_methods},
    {Py_tp_getset, loader_getset},
    {0},
};

PyType_Spec loader_spec = {
    .name = "fullbore._fullbore._Loader",
    .basicsize = sizeof(struct loader_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = loader_slots,
};
