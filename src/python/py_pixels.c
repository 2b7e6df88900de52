/* The memory that a function of the user's works on, height x width x 3 bytes, by the buffer protocol. */
#include <stdlib.h>

#include "python/py_pixels.h"

PyObject *pixels_new(struct module_state *m, uint8_t *data, int height, int width)
{
    struct pixels_object *self = PyObject_New(struct pixels_object, m->pixels);
    if (!self)
        return NULL;
    self->data = data;
    self->is_own = false;
    self->shape[0] = height;
    self->shape[1] = width;
    self->shape[2] = 3;
    self->strides[0] = (Py_ssize_t)width * 3;
    self->strides[1] = 3;
    self->strides[2] = 1;
    return (PyObject *)self;
}

bool pixels_are_kept(PyObject *pixels)
{
    return Py_REFCNT(pixels) > 1;
}

bool pixels_end(PyObject *pixels)
{
    struct pixels_object *self = (struct pixels_object *)pixels;
    self->is_own = pixels_are_kept(pixels);
    bool is_kept = self->is_own;
    Py_DECREF(pixels);
    return is_kept;
}

static void pixels_dealloc(struct pixels_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->is_own)
        free(self->data);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int pixels_getbuffer(struct pixels_object *self, Py_buffer *view, int flags)
{
    *view = (Py_buffer){.buf = self->data, .itemsize = 1, .ndim = 3, .len = self->shape[0] * self->shape[1] * 3};
    view->shape = (flags & PyBUF_ND) == PyBUF_ND ? self->shape : NULL;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? self->strides : NULL;
    view->format = flags & PyBUF_FORMAT ? "B" : NULL;
    view->obj = Py_NewRef((PyObject *)self);
    return 0;
}

static PyType_Slot pixels_slots[] = {
    {Py_tp_doc, "The pixels of one sample, height x width x 3."},
    {Py_tp_dealloc, pixels_dealloc},
    {Py_bf_getbuffer, pixels_getbuffer},
    {0},
};

PyType_Spec pixels_spec = {
    .name = "fullbore._fullbore._Pixels",
    .basicsize = sizeof(struct pixels_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = pixels_slots,
};
