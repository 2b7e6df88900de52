/* Arrays for other libraries without a copy: DLPack's two capsules (before 1.0, and from 1.0 on with a version and flags).
 *
 * The consumer calls the deleter from any thread, with or without the interpreter's lock, perhaps after the interpreter is gone. So it
 * holds a reference to the batch itself and touches nothing of Python.
 */
#include <stdlib.h>

#include "python/module.h"

/* The layouts that the protocol fixes. */
struct dl_tensor {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    struct {
        uint8_t code, bits;
        uint16_t lanes;
    } dtype;
    int64_t *shape, *strides; /* both in elements */
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *);
};

struct dl_managed_versioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager;
    void (*deleter)(struct dl_managed_versioned *);
    uint64_t flags; /* 1: read only; ours may be written to: a batch belongs to who took it */
    struct dl_tensor tensor;
};

enum { DL_CPU = 1, DL_CUDA = 2 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

static const uint8_t code_of[] = {
    [FB_UINT8] = DL_UINT,    [FB_INT8] = DL_INT,      [FB_UINT16] = DL_UINT, [FB_INT16] = DL_INT,     [FB_UINT32] = DL_UINT,
    [FB_INT32] = DL_INT,     [FB_UINT64] = DL_UINT,   [FB_INT64] = DL_INT,   [FB_FLOAT16] = DL_FLOAT, [FB_BFLOAT16] = DL_BFLOAT,
    [FB_FLOAT32] = DL_FLOAT, [FB_FLOAT64] = DL_FLOAT, [FB_BOOL] = DL_BOOL,
};

/* One export: whichever of the two structs was asked for, and what it points to. */
struct dl_export {
    union {
        struct dl_managed plain;
        struct dl_managed_versioned versioned;
    };
    fb_batch *batch;
    pid_t owner;
    int64_t shape[FB_MAX_DIMS], strides[FB_MAX_DIMS];
};

static void end_export(struct dl_export *x)
{
    drop_batch(x->batch, x->owner);
    free(x);
}

static void delete_plain(struct dl_managed *m)
{
    end_export(m->manager);
}

static void delete_versioned(struct dl_managed_versioned *m)
{
    end_export(m->manager);
}

/* A consumer renames the capsule when it takes the tensor over; one that still has its name was never used. */
static void end_plain_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_plain(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void end_versioned_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_versioned(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

void dlpack_place(const fb_batch *b, int *type, int *id)
{
    *type = fb_batch_memory(b, id) == FB_CUDA ? DL_CUDA : DL_CPU;
    *id = *type == DL_CUDA ? *id : 0;
}

static void describe(struct dl_export *x, struct dl_tensor *t, const struct fb_array *a)
{
    int64_t element_bytes = (int64_t)fb_dtype_size(a->dtype);
    int type, id;
    dlpack_place(x->batch, &type, &id);
    t->data = a->data;
    t->device.type = type;
    t->device.id = id;
    t->ndim = a->ndim;
    t->dtype.code = code_of[a->dtype];
    t->dtype.bits = (uint8_t)(element_bytes * 8);
    t->dtype.lanes = 1;
    t->shape = x->shape;
    t->strides = x->strides;
    for (int i = 0; i < a->ndim; i++) {
        x->shape[i] = a->shape[i];
        x->strides[i] = a->strides[i] / element_bytes;
    }
}

static PyObject *make_plain(struct dl_export *x, const struct fb_array *a)
{
    describe(x, &x->plain.tensor, a);
    x->plain.manager = x;
    x->plain.deleter = delete_plain;
    return PyCapsule_New(&x->plain, "dltensor", end_plain_capsule);
}

static PyObject *make_versioned(struct dl_export *x, const struct fb_array *a)
{
    describe(x, &x->versioned.tensor, a);
    x->versioned.version.major = 1;
    x->versioned.manager = x;
    x->versioned.deleter = delete_versioned;
    return PyCapsule_New(&x->versioned, "dltensor_versioned", end_versioned_capsule);
}

PyObject *dlpack_capsule(fb_batch *b, const struct fb_array *a, pid_t owner, int is_versioned)
{
    struct dl_export *x = calloc(1, sizeof(*x));
    if (!x)
        return PyErr_NoMemory();
    fb_retain_batch(b);
    x->batch = b;
    x->owner = owner;
    PyObject *capsule = is_versioned ? make_versioned(x, a) : make_plain(x, a);
    if (!capsule)
        end_export(x);
    return capsule;
}
