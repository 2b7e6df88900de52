/* The extension module: three types over the public header and a handful of functions. Python's side (fullbore/) checks arguments and gives
 * them nice shapes; this side converts, calls and gives the interpreter's lock away while the engine waits or works.
 *
 *   loader_gate.h        who is inside a loader: the engine allows one caller, Python has any number
 *   line_queue.h  lines that the engine's threads say, until a Python thread comes by
 *   py_map.h      functions of the user's, the one reason for which the engine's threads touch Python
 *
 * After a fork the child must not touch the engine: every object remembers the process it was made in.
 */
#ifndef FB_PYTHON_MODULE_H
#define FB_PYTHON_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <fullbore/fullbore.h>
#include <sys/types.h>

struct module_state {
    PyTypeObject *loader, *batch, *array, *pixels, *monitor, *ahead;
};

/* py_error.c: raises what the record says as the fitting exception of fullbore.errors; returns NULL always. */
PyObject *raise_error(const struct fb_error *e);
/* The same from parts; stage "feed". */
PyObject *raise_code(int code, const char *cause, const char *remedy);
/* Raises and returns true when this is not the process `owner`. */
int raise_if_forked(pid_t owner);

/* py_options.c: a dict of plain values -> struct fb_options. */
struct open_request;
struct open_request *open_request_new(PyObject *values); /* NULL with an exception. `values` must outlive it */
fb_options *open_request_options(struct open_request *r);
void open_request_free(struct open_request *r);

/* py_array.c, py_batch.c, py_loader.c: the types. Each array holds its own reference to the batch. */
extern PyType_Spec array_spec, batch_spec, loader_spec, ahead_spec, monitor_spec;
PyObject *array_new(struct module_state *m, fb_batch *b, int field, pid_t owner);
PyObject *batch_new(struct module_state *m, fb_batch *b, pid_t owner); /* takes over the caller's reference, also on failure */

/* py_dlpack.c */
PyObject *dlpack_capsule(fb_batch *b, const struct fb_array *a, pid_t owner, int is_versioned);
/* The protocol's numbers for where a batch lies. */
void dlpack_place(const fb_batch *b, int *type, int *id);

/* py_batch.c: `stream` is going to use the batch; the interpreter's lock is free while it waits. Raises and returns -1 on failure. */
int use_batch(fb_batch *b, uintptr_t stream);

/* Gives a reference back; in a child process it is left alone. Needs no interpreter. */
void drop_batch(fb_batch *b, pid_t owner);

/* py_call.c: once per process. */
void prepare_fork(void);

/* py_ops.c */
extern PyMethodDef ops_methods[];

#endif
