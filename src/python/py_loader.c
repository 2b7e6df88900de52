/* The loader's methods. */
#include <stdlib.h>
#include <unistd.h>

#include "python/py_loader.h"

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
    self->maps = NULL;
    self->state[0] = 0;
    loader_gate_init(&self->gate);
    return self;
}

/* _Loader(values, say, show, maps=None) */
static PyObject *loader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"values", "say", "show", "maps", NULL};
    PyObject *values, *say, *show, *maps = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO|O", names, &PyDict_Type, &values, &say, &show, &maps))
        return NULL;
    struct open_request *r = open_request_new(values);
    if (!r)
        return NULL;
    struct loader_object *self = make(type, say, show);
    fb_options *o = open_request_options(r);
    if (self && maps != Py_None && map_calls_new(PyType_GetModuleState(type), maps, o) < 0)
        Py_CLEAR(self);
    if (self && o->map) { /* the engine has one reference, the object another */
        self->maps = o->map_ctx;
        map_calls_hold(self->maps);
    }
    if (self && open_engine(self, o) < 0)
        Py_CLEAR(self);
    open_request_free(r);
    return (PyObject *)self;
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
    loader_gate_destroy(&self->gate);
    Py_DECREF(self->say);
    Py_DECREF(self->show);
    map_calls_drop(self->maps);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *leave_with(struct loader_object *self, PyObject *result)
{
    leave(self);
    return result;
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
    return leave_with(self, started < 0 ? raise_failure(self, (int)started, &e) : PyLong_FromLongLong(started));
}

/* next(asked_ns): the next batch, or None at the end of the epoch. The wait counts from then until the batch's deliver(). */
static PyObject *loader_next(struct loader_object *self, PyObject *arg)
{
    struct fb_error e = {0};
    fb_batch *b = NULL;
    unsigned long long asked_ns = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred() || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int rc = fb_next_batch_since(self->loader, asked_ns, &b, &e);
    END_ENGINE(self);
    PyObject *result = NULL;
    if (rc < 0) {
        raise_failure(self, rc, &e);
    } else if (rc == 0) {
        keep_state(self);
        result = Py_NewRef(Py_None);
    } else {
        keep_state_of(self, b);
        result = batch_new(PyType_GetModuleState(Py_TYPE((PyObject *)self)), b, self->owner);
    }
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
    return leave_with(self, rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None));
}

static PyObject *loader_load_state(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    const char *json;
    int is_forced;
    if (!PyArg_ParseTuple(args, "sp", &json, &is_forced) || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int rc = is_forced ? fb_force_state(self->loader, json, &e) : fb_load_state(self->loader, json, &e);
    END_ENGINE(self);
    keep_state(self);
    return leave_with(self, rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None));
}

/* skip(batches): how many of them there were. */
static PyObject *loader_skip(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    unsigned long long batches;
    if (!PyArg_ParseTuple(args, "K", &batches) || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int64_t skipped = fb_skip(self->loader, batches, &e);
    END_ENGINE(self);
    keep_state(self);
    return leave_with(self, skipped < 0 ? raise_failure(self, (int)skipped, &e) : PyLong_FromLongLong(skipped));
}

static PyObject *loader_skip_range(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    unsigned long long first, last;
    if (!PyArg_ParseTuple(args, "KK", &first, &last) || enter(self) < 0)
        return NULL;
    BEGIN_ENGINE(self);
    int rc = fb_skip_range(self->loader, first, last, &e);
    END_ENGINE(self);
    keep_state(self);
    return leave_with(self, rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None));
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
        Py_BEGIN_ALLOW_THREADS wanted = fb_get_stats(self->loader, json, (size_t)size);
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
    enum loader_gate_answer answer = self->loader ? loader_gate_enter_as_guest(&self->gate) : GATE_CLOSED;
    if (answer != GATE_IN)
        return refuse(answer), NULL;
    PyObject *text = read_stats(self);
    loader_gate_leave_as_guest(&self->gate);
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

static PyObject *raise_pathless(void)
{
    return raise_code(FB_E_DATA, "samples have no paths of their own: rows of arrays have none, else the catalog is damaged",
                      "rows go by their numbers; a batch names them in sample_keys");
}

/* The path of each selected sample, relative to the source. */
static PyObject *loader_keys(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    if (enter(self) < 0)
        return NULL;
    uint64_t count = fb_sample_count(self->loader);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint64_t i = 0; list && i < count; i++) {
        const char *key = fb_selected_key(self->loader, i);
        PyObject *text = key ? PyUnicode_DecodeFSDefault(key) : raise_pathless();
        if (!text || PyList_SetItem(list, (Py_ssize_t)i, text) < 0)
            Py_CLEAR(list);
    }
    leave(self);
    return list;
}

static PyObject *describe_label(const struct fb_column *c)
{
    return Py_BuildValue("ssL", c->name, fb_dtype_name(c->dtype), c->ndim ? (long long)c->shape[0] : 0LL);
}

/* [(name, dtype, numbers per sample or 0), ...] */
static PyObject *loader_label_fields(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    if (enter(self) < 0)
        return NULL;
    PyObject *list = PyList_New(0);
    const struct fb_column *c;
    for (int i = 0; list && (c = fb_label_field(self->loader, i)); i++) {
        PyObject *item = describe_label(c);
        if (!item || PyList_Append(list, item) < 0)
            Py_CLEAR(list);
        Py_XDECREF(item);
    }
    leave(self);
    return list;
}

static PyObject *loader_class_field(struct loader_object *self, PyObject *unused)
{
    (void)unused;
    if (enter(self) < 0)
        return NULL;
    int field = fb_class_field(self->loader);
    PyObject *name = field < 0 ? Py_NewRef(Py_None) : PyUnicode_FromString(fb_label_field(self->loader, field)->name);
    leave(self);
    return name;
}

/* label_column(name, bytes per value, out): the label of every selected sample. */
static PyObject *loader_label_column(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    const char *name;
    Py_ssize_t size;
    Py_buffer out;
    if (!PyArg_ParseTuple(args, "snw*", &name, &size, &out))
        return NULL;
    PyObject *result = NULL;
    if (enter(self) == 0) {
        uint64_t count = fb_sample_count(self->loader);
        int rc = size > 0 && out.len == (Py_ssize_t)count * size ? 0 : FB_E_USAGE;
        for (uint64_t i = 0; rc == 0 && i < count; i++)
            rc = fb_selected_label(self->loader, i, name, (char *)out.buf + i * (uint64_t)size, (size_t)size, &e);
        result = rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None);
        leave(self);
    }
    PyBuffer_Release(&out);
    return result;
}

/* push_order(array of uint64, is_last) */
static PyObject *loader_push_order(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    Py_buffer samples;
    int is_last;
    if (!PyArg_ParseTuple(args, "y*p", &samples, &is_last))
        return NULL;
    PyObject *result = NULL;
    if (enter(self) == 0) {
        BEGIN_ENGINE(self);
        int rc = fb_push_order(self->loader, samples.buf, (uint64_t)samples.len / sizeof(uint64_t), is_last, &e);
        END_ENGINE(self);
        result = rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None);
        leave(self);
    }
    PyBuffer_Release(&samples);
    return result;
}

static PyObject *get_closed(struct loader_object *self, void *unused)
{
    (void)unused;
    return PyBool_FromLong(!self->loader || self->gate.is_closing);
}

static PyMethodDef loader_methods[] = {
    {"start_epoch", (PyCFunction)loader_start_epoch, METH_O, "starts that epoch, or the next one for -1; returns its number"},
    {"next", (PyCFunction)loader_next, METH_O, "next(asked_ns): the next batch, or None at the end of the epoch"},
    {"set_rank", (PyCFunction)loader_set_rank, METH_VARARGS, "fixes rank and world size; -1, -1: from the environment"},
    {"save_state", (PyCFunction)loader_save_state, METH_NOARGS, "the state after the last batch returned, as JSON"},
    {"load_state", (PyCFunction)loader_load_state, METH_VARARGS, "load_state(json, force): the next epoch started continues there"},
    {"skip", (PyCFunction)loader_skip, METH_VARARGS, "leaves out the next batches of the epoch; returns how many there were"},
    {"skip_range", (PyCFunction)loader_skip_range, METH_VARARGS, "skip_range(first, last): leaves out these batches of the epoch"},
    {"stats", (PyCFunction)loader_stats, METH_NOARGS, "what the loader has done since it was opened, as JSON"},
    {"verdict", (PyCFunction)loader_verdict, METH_O, "verdict(monitor or None): what the loop waits for, as JSON"},
    {"status_line", (PyCFunction)loader_status_line, METH_O, "status_line(monitor or None): the line of this moment"},
    {"trace", (PyCFunction)loader_trace, METH_VARARGS, "trace(path, batches): Chrome trace events of the next batches"},
    {"counts", (PyCFunction)loader_counts, METH_NOARGS, "(samples, fingerprint)"},
    {"ranks", (PyCFunction)loader_ranks, METH_NOARGS, "(batches per epoch, rank, world size)"},
    {"classes", (PyCFunction)loader_classes, METH_NOARGS, "the names of the classes, by label"},
    {"keys", (PyCFunction)loader_keys, METH_NOARGS, "the path of each selected sample"},
    {"label_fields", (PyCFunction)loader_label_fields, METH_NOARGS, "[(name, dtype, numbers per sample or 0)]"},
    {"class_field", (PyCFunction)loader_class_field, METH_NOARGS, "the name of the label that numbers the classes, or None"},
    {"label_column", (PyCFunction)loader_label_column, METH_VARARGS, "label_column(name, bytes per value, out)"},
    {"push_order", (PyCFunction)loader_push_order, METH_VARARGS, "push_order(indices, is_last): the next samples of the epoch"},
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
