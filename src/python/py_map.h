/* Functions of the user's inside the engine: the workers call them, one sample at a time, with Python's lock taken for just that long.
 *
 * What a function gets is the engine's own memory, without a copy, as an object that knows whether anybody still refers to it afterwards:
 * if so the memory is the object's from then on and the engine takes other. Results are copied unless they are that very memory and nobody
 * keeps it.
 *
 * Life: the calls outlive the loader object if a function does not come back in time; so they are an object of their own, which the engine
 * lets go of (map_done) when it will never call again.
 */
#ifndef FB_PYTHON_PY_MAP_H
#define FB_PYTHON_PY_MAP_H

#include "python/module.h"

struct map_calls;

/* steps: a list with (callable, does it want labels) per map step: callable(pixels, labels, seed, seed) -> (result, labels or None).
 * Sets o->map and its context. The engine owns the calls from fb_open on, whether that fails or not. -1: an exception. */
int map_calls_new(struct module_state *m, PyObject *steps, fb_options *o);

/* The exception that made this sample's function fail, a new reference; NULL: not known. */
PyObject *map_failure_of(struct map_calls *c, int64_t sample);
void map_calls_hold(struct map_calls *c);
void map_calls_drop(struct map_calls *c); /* with Python's lock held */

/* map_end(): the interpreter is about to end; no function is called any more. */
PyObject *map_end(PyObject *module, PyObject *unused);

extern PyType_Spec pixels_spec;
extern PyMethodDef random_methods[];

#endif
