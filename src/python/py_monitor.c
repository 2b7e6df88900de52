/* A monitor of a training loop, and what a loader says about itself. The interpreter's lock is kept: each call takes microseconds, or for a
 * verdict a few milliseconds, and the thread that looks never needs Python. */
#include <stdlib.h>
#include <unistd.h>

#include "python/py_loader.h"

struct monitor_object {
    PyObject_HEAD fb_monitor *monitor; /* NULL: closed */
    pid_t owner;
};

/* ---- texts of unknown length */

typedef int (*ask_text)(const fb_loader *l, fb_monitor *m, char *out, size_t out_size);

static PyObject *read_text(ask_text ask, const fb_loader *l, fb_monitor *m)
{
    char *text = NULL;
    int wanted = 4096, size = 0;
    while (wanted >= size) { /* it may grow between two calls */
        size = wanted + 1024;
        char *larger = realloc(text, (size_t)size);
        if (!larger)
            break;
        text = larger;
        wanted = ask(l, m, text, (size_t)size);
    }
    PyObject *result = wanted >= 0 && wanted < size ? PyUnicode_DecodeUTF8(text, wanted, "backslashreplace") : PyErr_NoMemory();
    free(text);
    return result;
}

static int ask_figures(const fb_loader *l, fb_monitor *m, char *out, size_t out_size)
{
    (void)l;
    return fb_get_monitor(m, out, out_size);
}

/* ---- the monitor */

static fb_monitor *monitor_of(struct monitor_object *self)
{
    if (raise_if_forked(self->owner))
        return NULL;
    if (!self->monitor)
        raise_code(FB_E_STATE, "the monitor is closed", "make a new one");
    return self->monitor;
}

static PyObject *monitor_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"look", NULL};
    int look = FB_LOOK_PROGRAM;
    struct fb_error e = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i", names, &look))
        return NULL;
    struct monitor_object *self = PyObject_New(struct monitor_object, type);
    if (!self)
        return NULL;
    self->owner = getpid();
    self->monitor = NULL;
    if (fb_open_monitor((enum fb_look)look, &self->monitor, &e) < 0) {
        Py_DECREF(self);
        return raise_error(&e);
    }
    return (PyObject *)self;
}

static PyObject *monitor_close(struct monitor_object *self, PyObject *unused)
{
    (void)unused;
    fb_monitor *m = self->monitor;
    self->monitor = NULL;
    Py_BEGIN_ALLOW_THREADS fb_close_monitor(m);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static void monitor_dealloc(struct monitor_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    fb_close_monitor(self->monitor);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *monitor_begin(struct monitor_object *self, PyObject *arg)
{
    fb_monitor *m = monitor_of(self);
    unsigned long long batches = m ? PyLong_AsUnsignedLongLong(arg) : 0;
    if (!m || PyErr_Occurred())
        return NULL;
    fb_begin_epoch(m, batches);
    Py_RETURN_NONE;
}

static PyObject *monitor_ask(struct monitor_object *self, PyObject *unused)
{
    (void)unused;
    fb_monitor *m = monitor_of(self);
    if (!m)
        return NULL;
    fb_ask_batch(m);
    Py_RETURN_NONE;
}

static PyObject *monitor_take(struct monitor_object *self, PyObject *arg)
{
    fb_monitor *m = monitor_of(self);
    unsigned long long samples = m ? PyLong_AsUnsignedLongLong(arg) : 0;
    if (!m || PyErr_Occurred())
        return NULL;
    fb_take_batch(m, samples);
    Py_RETURN_NONE;
}

static PyObject *monitor_end(struct monitor_object *self, PyObject *unused)
{
    (void)unused;
    fb_monitor *m = monitor_of(self);
    if (!m)
        return NULL;
    fb_end_epoch(m);
    Py_RETURN_NONE;
}

static PyObject *monitor_figures(struct monitor_object *self, PyObject *unused)
{
    (void)unused;
    fb_monitor *m = monitor_of(self);
    return m ? read_text(ask_figures, NULL, m) : NULL;
}

static PyObject *monitor_verdict(struct monitor_object *self, PyObject *unused)
{
    (void)unused;
    fb_monitor *m = monitor_of(self);
    return m ? read_text(fb_get_verdict, NULL, m) : NULL;
}

static PyObject *monitor_status_line(struct monitor_object *self, PyObject *unused)
{
    (void)unused;
    fb_monitor *m = monitor_of(self);
    return m ? read_text(fb_get_status_line, NULL, m) : NULL;
}

static PyMethodDef monitor_methods[] = {
    {"begin", (PyCFunction)monitor_begin, METH_O, "an epoch of so many batches begins; 0: not known"},
    {"ask", (PyCFunction)monitor_ask, METH_NOARGS, "the loop wants a batch from now on"},
    {"take", (PyCFunction)monitor_take, METH_O, "it has got one of so many samples"},
    {"end", (PyCFunction)monitor_end, METH_NOARGS, "the epoch is over"},
    {"figures", (PyCFunction)monitor_figures, METH_NOARGS, "the loop's figures as JSON"},
    {"verdict", (PyCFunction)monitor_verdict, METH_NOARGS, "what the loop waits for, as JSON"},
    {"status_line", (PyCFunction)monitor_status_line, METH_NOARGS, "the line of this moment"},
    {"close", (PyCFunction)monitor_close, METH_NOARGS, "stops observing"},
    {0},
};

static PyType_Slot monitor_slots[] = {
    {Py_tp_doc, "_Monitor(look=2): exact waits of a loop; 1: and the machine, 2: and this program's threads and processes; 3: silent."},
    {Py_tp_new, monitor_new},
    {Py_tp_dealloc, monitor_dealloc},
    {Py_tp_methods, monitor_methods},
    {0},
};

PyType_Spec monitor_spec = {
    .name = "fullbore._fullbore._Monitor",
    .basicsize = sizeof(struct monitor_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = monitor_slots,
};

/* ---- a loader about itself */

static PyObject *ask_loader(struct loader_object *self, PyObject *arg, ask_text ask)
{
    struct module_state *m = PyType_GetModuleState(Py_TYPE((PyObject *)self));
    if (arg != Py_None && Py_TYPE(arg) != m->monitor) {
        PyErr_SetString(PyExc_TypeError, "a _Monitor or None");
        return NULL;
    }
    if (raise_if_forked(self->owner))
        return NULL;
    enum loader_gate_answer answer = self->loader ? loader_gate_enter_as_guest(&self->gate) : GATE_CLOSED;
    if (answer != GATE_IN)
        return refuse(answer), NULL;
    PyObject *text = read_text(ask, self->loader, arg == Py_None ? NULL : ((struct monitor_object *)arg)->monitor);
    loader_gate_leave_as_guest(&self->gate);
    return text;
}

PyObject *loader_verdict(struct loader_object *self, PyObject *arg)
{
    return ask_loader(self, arg, fb_get_verdict);
}

PyObject *loader_status_line(struct loader_object *self, PyObject *arg)
{
    return ask_loader(self, arg, fb_get_status_line);
}

PyObject *loader_trace(struct loader_object *self, PyObject *args)
{
    struct fb_error e = {0};
    PyObject *path;
    unsigned long long batches;
    if (!PyArg_ParseTuple(args, "O&K", PyUnicode_FSConverter, &path, &batches))
        return NULL;
    PyObject *result = NULL;
    if (enter(self) == 0) {
        int rc = fb_trace(self->loader, PyBytes_AsString(path), batches, &e);
        result = rc < 0 ? raise_failure(self, rc, &e) : Py_NewRef(Py_None);
        leave(self);
    }
    Py_DECREF(path);
    return result;
}
