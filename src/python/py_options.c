/* A dict of plain values -> struct fb_options, by a table. Python's side has checked the meaning; here only types and memory matter.
 * Texts come as bytes, so that any file name passes. Everything points into the dict's values, which the caller keeps alive. */
#include <stdlib.h>
#include <string.h>

#include "python/module.h"

enum kind { TEXT, UNSIGNED, SIGNED, INTEGER, REAL };

static const struct entry {
    const char *name;
    enum kind kind;
    size_t offset;
} entries[] = {
    {"source", TEXT, offsetof(fb_options, source)},
    {"catalog_dir", TEXT, offsetof(fb_options, catalog_dir)},
    {"classes", TEXT, offsetof(fb_options, classes)},
    {"class_count", UNSIGNED, offsetof(fb_options, class_count)},
    {"class_seed", UNSIGNED, offsetof(fb_options, class_seed)},
    {"per_class", UNSIGNED, offsetof(fb_options, per_class)},
    {"fraction", REAL, offsetof(fb_options, fraction)},
    {"split", TEXT, offsetof(fb_options, split)},
    {"split_share", REAL, offsetof(fb_options, split_share)},
    {"batch_size", UNSIGNED, offsetof(fb_options, batch_size)},
    {"global_batch_size", UNSIGNED, offsetof(fb_options, global_batch_size)},
    {"shuffle", INTEGER, offsetof(fb_options, shuffle)},
    {"seed", UNSIGNED, offsetof(fb_options, seed)},
    {"drop_last", INTEGER, offsetof(fb_options, drop_last)},
    {"rank", INTEGER, offsetof(fb_options, rank)},
    {"world_size", INTEGER, offsetof(fb_options, world_size)},
    {"transforms", TEXT, offsetof(fb_options, transforms)},
    {"dtype", INTEGER, offsetof(fb_options, dtype)},
    {"layout", INTEGER, offsetof(fb_options, layout)},
    {"exif", INTEGER, offsetof(fb_options, exif)},
    {"threads", INTEGER, offsetof(fb_options, threads)},
    {"memory", UNSIGNED, offsetof(fb_options, memory)},
    {"on_error", INTEGER, offsetof(fb_options, on_error)},
    {"max_errors", SIGNED, offsetof(fb_options, max_errors)},
    {"column_rows", UNSIGNED, offsetof(fb_options, column_rows)},
    {"fields", TEXT, offsetof(fb_options, fields)},
    {"masks", TEXT, offsetof(fb_options, masks)},
    {"group_by", TEXT, offsetof(fb_options, group_by)},
    {"is_balanced", INTEGER, offsetof(fb_options, is_balanced)},
    {"takes_order", INTEGER, offsetof(fb_options, takes_order)},
    {"sample", INTEGER, offsetof(fb_options, sample)},
    {"collate", INTEGER, offsetof(fb_options, collate)},
    {"preload", INTEGER, offsetof(fb_options, preload)},
    {"allow_external", INTEGER, offsetof(fb_options, allow_external)},
    {"window", UNSIGNED, offsetof(fb_options, window)},
    {"io", TEXT, offsetof(fb_options, io)},
    {"pin_memory", INTEGER, offsetof(fb_options, pin_memory)},
    {"device", TEXT, offsetof(fb_options, device)},
    {"cache_dir", TEXT, offsetof(fb_options, cache_dir)},
    {"cache_limit", UNSIGNED, offsetof(fb_options, cache_limit)},
    {"cache_ram", UNSIGNED, offsetof(fb_options, cache_ram)},
};

struct open_request {
    fb_options options;
    const char **paths;
    struct fb_column column[FB_MAX_FIELDS];
    Py_buffer view[FB_MAX_FIELDS + 2]; /* columns, indices, weights */
    int view_count;
};

static int set_plain(fb_options *o, const struct entry *entry, PyObject *value)
{
    void *place = (char *)o + entry->offset;
    if (entry->kind == TEXT) {
        char *text; /* refuses a NUL inside */
        if (PyBytes_AsStringAndSize(value, &text, NULL) < 0)
            return -1;
        memcpy(place, &text, sizeof(text));
    } else if (entry->kind == UNSIGNED) {
        uint64_t x = PyLong_AsUnsignedLongLong(value);
        memcpy(place, &x, sizeof(x));
    } else if (entry->kind == SIGNED) {
        int64_t x = PyLong_AsLongLong(value);
        memcpy(place, &x, sizeof(x));
    } else if (entry->kind == INTEGER) {
        long x = PyLong_AsLong(value);
        int narrow = (int)x;
        if (x != narrow)
            PyErr_Format(PyExc_OverflowError, "%s is too large", entry->name);
        memcpy(place, &narrow, sizeof(narrow));
    } else {
        double x = PyFloat_AsDouble(value);
        memcpy(place, &x, sizeof(x));
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* A contiguous array, held until the request is freed. */
static const void *hold_array(struct open_request *r, PyObject *value, size_t element_bytes, uint64_t *count)
{
    Py_buffer *view = &r->view[r->view_count];
    if (PyObject_GetBuffer(value, view, PyBUF_C_CONTIGUOUS) < 0)
        return NULL;
    r->view_count++;
    *count = (uint64_t)view->len / element_bytes;
    return view->buf;
}

static int set_paths(struct open_request *r, PyObject *list)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0)
        return -1;
    r->paths = calloc((size_t)count + 1, sizeof(*r->paths));
    if (!r->paths)
        return PyErr_NoMemory(), -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        char *path;
        PyObject *item = PyList_GetItem(list, i); /* borrowed; the list keeps it */
        if (!item || PyBytes_AsStringAndSize(item, &path, NULL) < 0)
            return -1;
        r->paths[i] = path;
    }
    r->options.paths = r->paths;
    r->options.path_count = (uint64_t)count;
    return 0;
}

/* One label column: (name, dtype, numbers per sample or 0 for one plain number, array). The dict has "paths" before "columns". */
static int set_column(struct open_request *r, PyObject *tuple)
{
    struct fb_column *c = &r->column[r->options.column_count];
    const char *name;
    int dtype;
    long long width;
    PyObject *array;
    if (!PyArg_ParseTuple(tuple, "yiLO", &name, &dtype, &width, &array))
        return -1;
    size_t element_bytes = fb_dtype_size((enum fb_dtype)dtype);
    if (element_bytes == 0 || width < 0)
        return PyErr_SetString(PyExc_ValueError, "not a column"), -1;
    uint64_t count;
    *c = (struct fb_column){.name = name, .dtype = (enum fb_dtype)dtype, .ndim = width > 0, .shape = {width}};
    c->data = hold_array(r, array, element_bytes, &count);
    if (!c->data)
        return -1;
    uint64_t rows = r->options.paths ? r->options.path_count : r->options.column_rows;
    if (count != rows * (uint64_t)(width > 0 ? width : 1))
        return PyErr_SetString(PyExc_ValueError, "a column is not as long as the list of paths"), -1;
    r->options.column_count++;
    return 0;
}

static int set_columns(struct open_request *r, PyObject *list)
{
    Py_ssize_t count = PyList_Size(list);
    if (count < 0)
        return -1;
    if (count > FB_MAX_FIELDS)
        return PyErr_Format(PyExc_ValueError, "more than %d label columns", FB_MAX_FIELDS), -1;
    for (Py_ssize_t i = 0; i < count; i++)
        if (set_column(r, PyList_GetItem(list, i)) < 0)
            return -1;
    r->options.columns = r->column;
    return 0;
}

static int set_one(struct open_request *r, const char *name, PyObject *value)
{
    fb_options *o = &r->options;
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
        if (strcmp(entries[i].name, name) == 0)
            return set_plain(o, &entries[i], value);
    if (strcmp(name, "paths") == 0)
        return set_paths(r, value);
    if (strcmp(name, "columns") == 0)
        return set_columns(r, value);
    if (strcmp(name, "indices") == 0)
        return (o->indices = hold_array(r, value, sizeof(uint64_t), &o->index_count)) ? 0 : -1;
    if (strcmp(name, "weights") == 0)
        return (o->weights = hold_array(r, value, sizeof(double), &o->weight_count)) ? 0 : -1;
    PyErr_Format(PyExc_TypeError, "no option is called %s", name);
    return -1;
}

static int set_all(struct open_request *r, PyObject *values)
{
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(values, &at, &key, &value);) {
        const char *name = PyUnicode_AsUTF8AndSize(key, NULL);
        if (!name || set_one(r, name, value) < 0)
            return -1;
    }
    return 0;
}

struct open_request *open_request_new(PyObject *values)
{
    struct open_request *r = calloc(1, sizeof(*r));
    if (!r)
        return PyErr_NoMemory(), NULL;
    fb_init_options(&r->options);
    if (set_all(r, values) < 0) {
        open_request_free(r);
        return NULL;
    }
    return r;
}

fb_options *open_request_options(struct open_request *r)
{
    return &r->options;
}

void open_request_free(struct open_request *r)
{
    for (int i = 0; i < r->view_count; i++)
        PyBuffer_Release(&r->view[i]);
    free(r->paths);
    free(r);
}
