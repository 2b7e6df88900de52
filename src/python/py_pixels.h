#ifndef FB_PYTHON_PY_PIXELS_H
#define FB_PYTHON_PY_PIXELS_H

#include <stdbool.h>

#include "python/module.h"

struct pixels_object {
    PyObject_HEAD uint8_t *data;
    bool is_own; /* the engine gave the memory up: free it in the end */
    Py_ssize_t shape[3], strides[3];
};

PyObject *pixels_new(struct module_state *m, uint8_t *data, int height, int width);
/* Does anybody but us refer to it? */
bool pixels_are_kept(PyObject *pixels);
/* The function has returned: gives our reference back. True: somebody still refers to it, and the memory belongs to the object now. */
bool pixels_end(PyObject *pixels);

#endif
