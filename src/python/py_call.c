/* Calling the engine from Python: one caller inside, signals seen every 100 ms, the engine's lines handed on. */
#include <string.h>
#include <unistd.h>

#include "python/line_queue.h"
#include "python/py_loader.h"

#define WAIT_NS 100000000u /* between looks at signals: what the engine promises for its own waits too */

static struct line_queue lines;

static void forget_lines(void)
{
    line_queue_reset(&lines);
}

void prepare_fork(void)
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

void say_lines(struct loader_object *self)
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

void take_line(void *ctx, int level, const char *text)
{
    (void)ctx; /* may be gone, when the thread could not be stopped */
    line_queue_put(&lines, level, text);
}

int ask_interrupted(void *ctx)
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

void show_progress(void *ctx, const struct fb_progress *p)
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

int refuse(enum loader_gate_answer answer)
{
    if (answer == GATE_CLOSED)
        return raise_closed();
    raise_code(FB_E_STATE, "the loader is inside another call of this thread, which a signal handler interrupted",
               "set a flag in the handler and act on it between batches");
    return -1;
}

int enter(struct loader_object *self)
{
    if (raise_if_forked(self->owner))
        return -1;
    if (!self->loader)
        return raise_closed();
    enum loader_gate_answer answer = loader_gate_enter(&self->gate, 0);
    while (answer == GATE_BUSY) {
        Py_BEGIN_ALLOW_THREADS answer = loader_gate_enter(&self->gate, WAIT_NS);
        Py_END_ALLOW_THREADS if (answer == GATE_BUSY && PyErr_CheckSignals() < 0) return -1;
    }
    return answer == GATE_IN ? 0 : refuse(answer);
}

/* Closes unless another thread was faster; that nobody is inside is the caller's to know. */
static void close_engine(struct loader_object *self)
{
    fb_loader *l = self->loader;
    self->loader = NULL;
    Py_BEGIN_ALLOW_THREADS fb_close(l);
    Py_END_ALLOW_THREADS
}

void leave(struct loader_object *self)
{
    say_lines(self);
    bool is_closing_mine = self->gate.is_closing && self->loader; /* a handler closed us, or another thread waits to */
    loader_gate_leave(&self->gate);
    if (is_closing_mine) {
        Py_BEGIN_ALLOW_THREADS loader_gate_wait_empty(&self->gate);
        Py_END_ALLOW_THREADS close_engine(self);
    }
}

PyObject *raise_failure(struct loader_object *self, int code, const struct fb_error *e)
{
    if (PyErr_Occurred())
        return NULL;
    if (code == FB_E_INTERRUPTED && self->gate.is_closing)
        return raise_closed(), NULL;
    if (e->code == 0)
        return raise_code(code, "the engine failed without saying why", "please report this"), NULL;
    raise_error(e);
    PyObject *failure = strcmp(e->stage, "map") == 0 ? map_failure_of(self->maps, e->sample) : NULL;
    if (failure) {
        PyObject *type, *value, *trace;
        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        PyException_SetCause(value, failure); /* takes the reference */
        PyErr_Restore(type, value, trace);
    }
    return NULL;
}

void keep_state(struct loader_object *self)
{
    char state[sizeof(self->state)];
    int length = fb_save_state(self->loader, state, sizeof(state));
    if (length > 0 && (size_t)length < sizeof(state))
        memcpy(self->state, state, (size_t)length + 1);
}

void keep_state_of(struct loader_object *self, const fb_batch *b)
{
    const char *state = fb_batch_state(b);
    size_t length = strlen(state);
    if (length > 0 && length < sizeof(self->state))
        memcpy(self->state, state, length + 1);
}

void shut(struct loader_object *self)
{
    if (getpid() != self->owner) {
        self->loader = NULL; /* the parent's; its threads are not here and its locks may be taken for ever */
        return;
    }
    if (!self->loader || loader_gate_shut(&self->gate) == GATE_INSIDE)
        return; /* inside: leave() will close */
    Py_BEGIN_ALLOW_THREADS loader_gate_wait_empty(&self->gate);
    Py_END_ALLOW_THREADS if (self->loader) close_engine(self);
    say_lines(self);
}
