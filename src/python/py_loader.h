/* A loader object, and how its methods call the engine: enter the gate, give the interpreter's lock away, call, take it back, hand on what
 * the engine said meanwhile, leave. */
#ifndef FB_PYTHON_PY_LOADER_H
#define FB_PYTHON_PY_LOADER_H

#include "python/loader_gate.h"
#include "python/module.h"
#include "python/py_map.h"

struct loader_object {
    PyObject_HEAD fb_loader *loader; /* NULL: closed. Changed with the interpreter's lock held */
    pid_t owner;
    struct loader_gate gate;
    PyObject *say;          /* called with (level, line) */
    PyObject *show;         /* called with (what, done, total) while scanning, or None */
    struct map_calls *maps; /* functions of the user's, or NULL */
    PyThreadState *inside;  /* of the thread that is inside the engine, while it has given the interpreter's lock away */
    char state[1024];       /* after the last batch returned: kept here, so that a signal handler can ask for it inside next() */
};

/* 0: this thread is alone inside, and must call leave. Waits for other threads without the interpreter's lock; -1: an exception. */
int enter(struct loader_object *self);
/* Also closes, when a signal handler or another thread asked for that meanwhile. */
void leave(struct loader_object *self);
/* Raises what loader_gate_enter_as_guest answered; returns -1 always. */
int refuse(enum loader_gate_answer answer);

/* Around a call of the engine, by whoever is inside. */
#define BEGIN_ENGINE(self) (self)->inside = PyEval_SaveThread()
#define END_ENGINE(self) PyEval_RestoreThread((self)->inside)

/* What a failed call raises: the interrupt that is already set, or the engine's error. Returns NULL always. */
PyObject *raise_failure(struct loader_object *self, int code, const struct fb_error *e);
void keep_state(struct loader_object *self);
/* The batch that was just taken has the same state, written long before. */
void keep_state_of(struct loader_object *self, const fb_batch *b);

/* What the engine calls; ctx is the loader. */
void take_line(void *ctx, int level, const char *text);
int ask_interrupted(void *ctx);
void show_progress(void *ctx, const struct fb_progress *p);
/* Hands lines to logging; leaves an exception that is on its way as it is. */
void say_lines(struct loader_object *self);

/* Waits until nobody is inside, then closes; a call from inside (a signal handler) leaves it to leave(). In a forked child: forgets. */
void shut(struct loader_object *self);

/* py_monitor.c */
PyObject *loader_verdict(struct loader_object *self, PyObject *monitor);
PyObject *loader_status_line(struct loader_object *self, PyObject *monitor);
PyObject *loader_trace(struct loader_object *self, PyObject *args);

#endif
