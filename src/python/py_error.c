/* Error records -> exceptions. The classes are Python's (fullbore/errors.py): which one fits is decided there. */
#include "python/module.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"

static PyObject *as_text(const char *s)
{
    return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "backslashreplace"); /* a text cut in the middle of a character */
}

static PyObject *make_exception(const struct fb_error *e)
{
    PyObject *errors = PyImport_ImportModule("fullbore.errors");
    if (!errors)
        return NULL;
    PyObject *exception =
        PyObject_CallMethod(errors, "from_record", "iiLLNNNN", e->code, e->sys_errno, (long long)e->sample, (long long)e->offset,
                            as_text(e->stage), as_text(e->path), as_text(e->cause), as_text(e->remedy));
    Py_DECREF(errors);
    return exception;
}

PyObject *raise_error(const struct fb_error *e)
{
    PyObject *exception = make_exception(e);
    if (exception) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    }
    return NULL;
}

PyObject *raise_code(int code, const char *cause, const char *remedy)
{
    struct fb_error e = {.code = code, .sample = -1, .offset = -1, .stage = "feed"};
    text_words(e.cause, sizeof(e.cause), "%s", cause);
    text_words(e.remedy, sizeof(e.remedy), "%s", remedy);
    return raise_error(&e);
}

int raise_if_forked(pid_t owner)
{
    if (getpid() == owner)
        return 0;
    raise_code(FB_E_FORKED, "this loader was opened in the parent process; its threads were not copied by the fork",
               "open the loader in this process, or start processes by spawn or forkserver");
    return 1;
}
