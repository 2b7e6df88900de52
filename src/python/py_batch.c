/* A batch: its arrays, and what it says of its samples, made when asked for. */
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "python/module.h"

struct batch_object {
    PyObject_HEAD fb_batch *batch;
    pid_t owner;
};

void drop_batch(fb_batch *b, pid_t owner)
{
    if (getpid() == owner)
        fb_release_batch(b);
}

PyObject *batch_new(struct module_state *m, fb_batch *b, pid_t owner)
{
    struct batch_object *self = PyObject_New(struct batch_object, m->batch);
    if (!self) {
        fb_release_batch(b);
        return NULL;
    }
    self->batch = b;
    self->owner = owner;
    return (PyObject *)self;
}

static void batch_dealloc(struct batch_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    drop_batch(self->batch, self->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

int use_batch(fb_batch *b, uintptr_t stream)
{
    struct fb_error e = {0};
    int rc;
    Py_BEGIN_ALLOW_THREADS rc = fb_use_batch(b, stream, &e);
    Py_END_ALLOW_THREADS if (rc < 0) raise_error(&e);
    return rc < 0 ? -1 : 0;
}

/* ("host", "pinned", "cuda" or "emulated", number of the device) */
static PyObject *batch_memory(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    static const char *const names[] = {[FB_HOST] = "host", [FB_PINNED] = "pinned", [FB_CUDA] = "cuda", [FB_EMULATED] = "emulated"};
    int device;
    enum fb_memory memory = fb_batch_memory(self->batch, &device);
    return Py_BuildValue("si", names[memory], device);
}

static PyObject *batch_use(struct batch_object *self, PyObject *arg)
{
    unsigned long long stream = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred() || raise_if_forked(self->owner) || use_batch(self->batch, (uintptr_t)stream) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *batch_arrays(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    struct module_state *m = PyType_GetModuleState(Py_TYPE((PyObject *)self));
    int count = fb_batch_array_count(self->batch);
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; tuple && i < count; i++) {
        PyObject *array = array_new(m, self->batch, i, self->owner);
        if (!array || PyTuple_SetItem(tuple, i, array) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

/* The program gets it now: the end of the wait for it. */
static PyObject *batch_deliver(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    if (getpid() == self->owner)
        fb_deliver_batch(self->batch);
    Py_RETURN_NONE;
}

/* A list with one object per sample. */
static PyObject *list_of(struct batch_object *self, PyObject *(*make)(const fb_batch *b, int place))
{
    int count = fb_batch_size(self->batch);
    PyObject *list = PyList_New(count);
    for (int i = 0; list && i < count; i++) {
        PyObject *item = make(self->batch, i);
        if (!item || PyList_SetItem(list, i, item) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *make_key(const fb_batch *b, int place)
{
    return PyUnicode_DecodeFSDefault(fb_batch_key(b, place));
}

static PyObject *make_sample(const fb_batch *b, int place)
{
    return PyLong_FromUnsignedLongLong(fb_batch_sample(b, place));
}

static PyObject *make_repeat(const fb_batch *b, int place)
{
    return PyBool_FromLong(fb_batch_is_repeat(b, place));
}

static PyObject *batch_keys(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, make_key);
}

static PyObject *batch_samples(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, make_sample);
}

static PyObject *batch_repeats(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    return list_of(self, make_repeat);
}

static PyObject *batch_state(struct batch_object *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(fb_batch_state(self->batch));
}

static PyObject *batch_draw(struct batch_object *self, PyObject *arg)
{
    char line[1024], *json = line;
    long place = PyLong_AsLong(arg);
    if (place == -1 && PyErr_Occurred())
        return NULL;
    if (place < 0 || place >= fb_batch_size(self->batch))
        return PyErr_SetString(PyExc_IndexError, "no such place in the batch"), NULL;
    int length = fb_batch_draw(self->batch, (int)place, line, sizeof(line));
    if (length >= (int)sizeof(line)) { /* many masks */
        json = PyMem_Malloc((size_t)length + 1);
        length = json ? fb_batch_draw(self->batch, (int)place, json, (size_t)length + 1) : FB_E_NOMEM;
    }
    PyObject *text = length < 0 ? PyErr_NoMemory() : PyUnicode_FromStringAndSize(json, length);
    if (json != line)
        PyMem_Free(json);
    return text;
}

static Py_ssize_t batch_length(struct batch_object *self)
{
    return fb_batch_size(self->batch);
}

static PyMethodDef batch_methods[] = {
    {"arrays", (PyCFunction)batch_arrays, METH_NOARGS, "its arrays: image first, then labels"},
    {"keys", (PyCFunction)batch_keys, METH_NOARGS, "paths relative to the source"},
    {"samples", (PyCFunction)batch_samples, METH_NOARGS, "indices in the data set's full catalog"},
    {"repeats", (PyCFunction)batch_repeats, METH_NOARGS, "which places only fill up a last batch smaller than the world"},
    {"memory", (PyCFunction)batch_memory, METH_NOARGS, "where its arrays lie, and on which device"},
    {"use", (PyCFunction)batch_use, METH_O, "use(stream): it is going to be used there"},
    {"deliver", (PyCFunction)batch_deliver, METH_NOARGS, "the program gets it now: the end of the wait for it"},
    {"state", (PyCFunction)batch_state, METH_NOARGS, "the loader's state after this batch, as JSON"},
    {"draw", (PyCFunction)batch_draw, METH_O, "the random parameters of one place, as JSON"},
    {0},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_doc, "A batch in the engine's memory, valid as long as this object or one of its arrays lives."},
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_sq_length, batch_length},
    {0},
};

PyType_Spec batch_spec = {
    .name = "fullbore._fullbore._Batch",
    .basicsize = sizeof(struct batch_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = batch_slots,
};
