/* One array of a batch: its memory by the buffer protocol and by DLPack. Holds the batch, so views outlive everything else. */
#include <stdbool.h>

#include "python/module.h"

struct array_object {
    PyObject_HEAD fb_batch *batch;
    const struct fb_array *array; /* the batch's */
    pid_t owner;
    Py_ssize_t shape[FB_MAX_DIMS], strides[FB_MAX_DIMS]; /* as Py_buffer wants them */
};

/* struct's letters; bfloat16 has none and goes as its 16 bits. */
static const char *const format_of[] = {
    [FB_UINT8] = "B", [FB_INT8] = "b",    [FB_UINT16] = "H",   [FB_INT16] = "h",   [FB_UINT32] = "I",  [FB_INT32] = "i", [FB_UINT64] = "Q",
    [FB_INT64] = "q", [FB_FLOAT16] = "e", [FB_BFLOAT16] = "H", [FB_FLOAT32] = "f", [FB_FLOAT64] = "d", [FB_BOOL] = "?",
};

PyObject *array_new(struct module_state *m, fb_batch *b, int field, pid_t owner)
{
    struct array_object *self = PyObject_New(struct array_object, m->array);
    if (!self)
        return NULL;
    fb_retain_batch(b);
    self->batch = b;
    self->array = fb_batch_array(b, field);
    self->owner = owner;
    for (int i = 0; i < self->array->ndim; i++) {
        self->shape[i] = (Py_ssize_t)self->array->shape[i];
        self->strides[i] = (Py_ssize_t)self->array->strides[i];
    }
    return (PyObject *)self;
}

static void array_dealloc(struct array_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    drop_batch(self->batch, self->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* For the CPU: what is on its way has to have come. */
static int make_readable(struct array_object *self)
{
    enum fb_memory memory = fb_batch_memory(self->batch, NULL);
    if (memory == FB_CUDA)
        return PyErr_SetString(PyExc_BufferError, "the array is on a CUDA device; torch.from_dlpack takes it"), -1;
    return memory == FB_EMULATED ? use_batch(self->batch, 0) : 0;
}

static int array_getbuffer(struct array_object *self, Py_buffer *view, int flags)
{
    const struct fb_array *a = self->array;
    if (make_readable(self) < 0)
        return -1;
    *view = (Py_buffer){
        .buf = a->data, .itemsize = (Py_ssize_t)fb_dtype_size(a->dtype), .ndim = a->ndim, .shape = self->shape, .strides = self->strides};
    view->len = view->itemsize;
    for (int i = 0; i < a->ndim; i++)
        view->len *= self->shape[i];
    bool is_c = PyBuffer_IsContiguous(view, 'C');
    if ((flags & PyBUF_C_CONTIGUOUS) == PyBUF_C_CONTIGUOUS || (flags & PyBUF_STRIDES) != PyBUF_STRIDES) {
        if (!is_c)
            return PyErr_SetString(PyExc_BufferError, "the array is not C-contiguous"), -1;
    } else if ((flags & PyBUF_F_CONTIGUOUS) == PyBUF_F_CONTIGUOUS && !PyBuffer_IsContiguous(view, 'F')) {
        return PyErr_SetString(PyExc_BufferError, "the array is not Fortran-contiguous"), -1;
    } else if ((flags & PyBUF_ANY_CONTIGUOUS) == PyBUF_ANY_CONTIGUOUS && !PyBuffer_IsContiguous(view, 'A')) {
        return PyErr_SetString(PyExc_BufferError, "the array is not contiguous"), -1;
    }
    if (flags & PyBUF_FORMAT)
        view->format = (char *)(uintptr_t)format_of[a->dtype];
    if ((flags & PyBUF_ND) != PyBUF_ND)
        view->shape = NULL;
    if ((flags & PyBUF_STRIDES) != PyBUF_STRIDES)
        view->strides = NULL;
    view->obj = Py_NewRef((PyObject *)self);
    return 0;
}

/* On a device the consumer's stream is made to wait for the copy. None is the legacy default stream; -1 wants nothing done, but the memory
 * must stay until somebody has used it, so it is the same. */
static int settle_stream(struct array_object *self, PyObject *stream)
{
    if (fb_batch_memory(self->batch, NULL) != FB_CUDA) {
        if (stream != Py_None)
            return PyErr_SetString(PyExc_BufferError, "the array is in main memory: it has no stream"), -1;
        return make_readable(self);
    }
    long long number = stream == Py_None ? 1 : PyLong_AsLongLong(stream);
    if (number == -1 && PyErr_Occurred())
        return -1;
    return use_batch(self->batch, number <= 0 ? 1 : (uintptr_t)number);
}

/* __dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None) */
static PyObject *array_dlpack(struct array_object *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0, device_type, device_id, type, id;
    dlpack_place(self->batch, &type, &id);
    device_type = type, device_id = id;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &max_version, &device, &copy))
        return NULL;
    if (max_version != Py_None && !PyArg_ParseTuple(max_version, "ii", &major, &minor))
        return NULL;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &device_type, &device_id))
        return NULL;
    if (device_type != type || device_id != id)
        return PyErr_SetString(PyExc_BufferError, "the array is somewhere else; copy it to that device afterwards"), NULL;
    if (copy == Py_True)
        return PyErr_SetString(PyExc_BufferError, "only exports without a copy; copy the result"), NULL;
    if (settle_stream(self, stream) < 0)
        return NULL;
    return dlpack_capsule(self->batch, self->array, self->owner, major >= 1);
}

static PyObject *array_dlpack_device(struct array_object *self, PyObject *unused)
{
    (void)unused;
    int type, id;
    dlpack_place(self->batch, &type, &id);
    return Py_BuildValue("(ii)", type, id);
}

static PyObject *get_name(struct array_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(self->array->name);
}

static PyObject *get_dtype(struct array_object *self, void *unused)
{
    (void)unused;
    return PyUnicode_FromString(fb_dtype_name(self->array->dtype));
}

static PyObject *get_packing(struct array_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromLong(self->array->packing);
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_VARARGS | METH_KEYWORDS, NULL},
    {"__dlpack_device__", (PyCFunction)array_dlpack_device, METH_NOARGS, NULL},
    {0},
};

static PyGetSetDef array_getset[] = {
    {"name", (getter)get_name, NULL, "the field's name", NULL},
    {"dtype", (getter)get_dtype, NULL, "\"uint8\", \"bfloat16\", ...", NULL},
    {"packing", (getter)get_packing, NULL, "0: one shape for all samples; 1: padded; 2: ragged", NULL},
    {0},
};

static PyType_Slot array_slots[] = {
    {Py_tp_doc, "One array of a batch, in the batch's own memory."},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_methods, array_methods},
    {Py_tp_getset, array_getset},
    {Py_bf_getbuffer, array_getbuffer},
    {0},
};

PyType_Spec array_spec = {
    .name = "fullbore._fullbore._Array",
    .basicsize = sizeof(struct array_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = array_slots,
};
