/* Single images, and checksums: the buffers are Python's, made to measure there; their sizes are checked again here. */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/text/text.h"
#include "python/module.h"

/* True, or an exception: `view` holds height x width x channels bytes. */
static int holds(const Py_buffer *view, int height, int width, int channels)
{
    if (height > 0 && width > 0 && channels > 0 && view->len / channels / width >= height)
        return 1;
    PyErr_SetString(PyExc_ValueError, "the buffer is too small");
    return 0;
}

static PyObject *finish(int rc, const struct fb_error *e)
{
    return rc < 0 ? raise_error(e) : Py_NewRef(Py_None);
}

static PyObject *ops_image_size(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer bytes;
    struct fb_error e = {0};
    int exif, height, width, rc;
    if (!PyArg_ParseTuple(args, "y*p", &bytes, &exif))
        return NULL;
    Py_BEGIN_ALLOW_THREADS rc = fb_image_size(bytes.buf, (size_t)bytes.len, exif, &height, &width, &e);
    Py_END_ALLOW_THREADS PyBuffer_Release(&bytes);
    return rc < 0 ? raise_error(&e) : Py_BuildValue("(ii)", height, width);
}

static PyObject *ops_decode_region(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer bytes, out;
    struct fb_error e = {0};
    int exif, top, left, height, width, rc;
    if (!PyArg_ParseTuple(args, "y*piiiiw*", &bytes, &exif, &top, &left, &height, &width, &out))
        return NULL;
    PyObject *result = NULL;
    if (holds(&out, height, width, 3)) {
        Py_BEGIN_ALLOW_THREADS rc = fb_decode_region(bytes.buf, (size_t)bytes.len, exif, top, left, height, width, out.buf, &e);
        Py_END_ALLOW_THREADS result = finish(rc, &e);
    }
    PyBuffer_Release(&bytes);
    PyBuffer_Release(&out);
    return result;
}

static PyObject *ops_resize_image(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer in, out;
    struct fb_error e = {0};
    int height, width, channels, filter, out_height, out_width, rc;
    if (!PyArg_ParseTuple(args, "y*iiiiiiw*", &in, &height, &width, &channels, &filter, &out_height, &out_width, &out))
        return NULL;
    PyObject *result = NULL;
    if (holds(&in, height, width, channels) && holds(&out, out_height, out_width, channels)) {
        Py_BEGIN_ALLOW_THREADS rc =
            fb_resize_image(in.buf, height, width, channels, (enum fb_filter)filter, out_height, out_width, out.buf, &e);
        Py_END_ALLOW_THREADS result = finish(rc, &e);
    }
    PyBuffer_Release(&in);
    PyBuffer_Release(&out);
    return result;
}

/* As many rows as `out` has room for, all of one size. */
static PyObject *ops_checksum_rows(PyObject *module, PyObject *args)
{
    (void)module;
    Py_buffer rows, out;
    if (!PyArg_ParseTuple(args, "y*w*", &rows, &out))
        return NULL;
    size_t count = (size_t)out.len / sizeof(uint64_t), bytes = count ? (size_t)rows.len / count : 0;
    int fits = bytes * count == (size_t)rows.len && count * sizeof(uint64_t) == (size_t)out.len;
    Py_BEGIN_ALLOW_THREADS for (size_t i = 0; fits && i < count; i++)
    {
        uint64_t hash = checksum_of((const char *)rows.buf + i * bytes, bytes);
        memcpy((char *)out.buf + i * sizeof(hash), &hash, sizeof(hash));
    }
    Py_END_ALLOW_THREADS PyBuffer_Release(&rows);
    PyBuffer_Release(&out);
    if (fits)
        Py_RETURN_NONE;
    PyErr_SetString(PyExc_ValueError, "the rows are not all of one size");
    return NULL;
}

static PyObject *ops_parse_size(PyObject *module, PyObject *arg)
{
    (void)module;
    uint64_t bytes;
    const char *text = PyUnicode_AsUTF8AndSize(arg, NULL);
    if (!text)
        return NULL;
    if (!text_parse_size(text, &bytes))
        return PyErr_Format(PyExc_ValueError, "not a size: %s", text);
    return PyLong_FromUnsignedLongLong(bytes);
}

/* What the environment says. */
static PyObject *ops_find_rank(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    struct fb_error e = {0};
    int rank, world_size;
    return fb_find_rank(&rank, &world_size, &e) < 0 ? raise_error(&e) : Py_BuildValue("ii", rank, world_size);
}

static PyObject *ops_version(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    return PyUnicode_FromString(fb_version());
}

static PyObject *ops_describe_stats(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    int length = fb_describe_stats(NULL, 0);
    char *json = malloc((size_t)length + 1);
    if (!json)
        return PyErr_NoMemory();
    fb_describe_stats(json, (size_t)length + 1);
    PyObject *text = PyUnicode_FromString(json);
    free(json);
    return text;
}

static PyObject *ops_dtype_code(PyObject *module, PyObject *arg)
{
    (void)module;
    const char *name = PyUnicode_AsUTF8AndSize(arg, NULL);
    return name ? PyLong_FromLong(fb_dtype_from_name(name)) : NULL;
}

PyMethodDef ops_methods[] = {
    {"image_size", ops_image_size, METH_VARARGS, "(bytes, exif) -> (height, width), from the header"},
    {"decode_region", ops_decode_region, METH_VARARGS, "(bytes, exif, top, left, height, width, out)"},
    {"resize_image", ops_resize_image, METH_VARARGS, "(pixels, height, width, channels, filter, out_height, out_width, out)"},
    {"checksum_rows", ops_checksum_rows, METH_VARARGS, "(rows, out): xxh3 of each row, as 64 bits"},
    {"parse_size", ops_parse_size, METH_O, "\"64MiB\" -> bytes"},
    {"dtype_code", ops_dtype_code, METH_O, "\"uint8\" -> the engine's number for it, 0: unknown"},
    {"find_rank", ops_find_rank, METH_NOARGS, "(rank, world size) by the environment"},
    {"describe_stats", ops_describe_stats, METH_NOARGS, "every figure of the statistics, as JSON"},
    {"version", ops_version, METH_NOARGS, "the library's version"},
    {0},
};
