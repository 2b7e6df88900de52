/* Randomness for functions of the user's: the engine's counter-based generator behind numpy's interface for bit generators.
 *
 * numpy.random.Generator takes any object with a capsule named "BitGenerator" that holds the five pointers below (numpy/random/bitgen.h;
 * part of numpy's documented C interface). Starting a stream is then a few stores, where making a numpy generator takes 20 us.
 */
#include <stdlib.h>

#include "base/rng.h"
#include "python/py_map.h"

struct bit_generator { /* numpy's bitgen_t */
    void *state;
    uint64_t (*next_uint64)(void *state);
    uint32_t (*next_uint32)(void *state);
    double (*next_double)(void *state);
    uint64_t (*next_raw)(void *state);
};

struct random_source {
    struct bit_generator numpy;
    struct rng rng;
};

static const char capsule_name[] = "BitGenerator";

static uint64_t next_u64(void *state)
{
    return rng_u64(state);
}

static uint32_t next_u32(void *state)
{
    return rng_u32(state);
}

static double next_double(void *state)
{
    return rng_double(state);
}

static void free_source(PyObject *capsule)
{
    free(PyCapsule_GetPointer(capsule, capsule_name));
}

static PyObject *random_new(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    struct random_source *r = calloc(1, sizeof(*r));
    if (!r)
        return PyErr_NoMemory();
    r->rng = rng_stream(RNG_MAP, 0, 0, 0, 0);
    r->numpy = (struct bit_generator){&r->rng, next_u64, next_u32, next_double, next_u64};
    PyObject *capsule = PyCapsule_New(r, capsule_name, free_source);
    if (!capsule)
        free(r);
    return capsule;
}

static PyObject *random_start(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *capsule;
    unsigned long long a, b;
    if (!PyArg_ParseTuple(args, "OKK", &capsule, &a, &b))
        return NULL;
    struct random_source *r = PyCapsule_GetPointer(capsule, capsule_name);
    if (!r)
        return NULL;
    r->rng = rng_stream(RNG_MAP, a, b, 0, 0);
    Py_RETURN_NONE;
}

PyMethodDef random_methods[] = {
    {"random_new", random_new, METH_NOARGS, "a capsule for numpy.random.Generator"},
    {"random_start", random_start, METH_VARARGS, "random_start(capsule, a, b): the stream of that name from its beginning"},
    {"map_end", map_end, METH_NOARGS, "no function is called any more: the interpreter is about to end"},
    {0},
};
