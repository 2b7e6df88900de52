/* _Ahead: threads that have files read into the page cache before somebody else reads them, without the interpreter's lock.
 *
 * Files are numbered as they are pushed. A thread takes the next one unless its reader was given it already (`passed`), and waits while
 * the bytes between what was read and what was passed exceed the limit. On a local disk a file is asked for as a whole
 * (POSIX_FADV_WILLNEED: nothing is copied) and then touched here and there until it has come. On other file systems (FUSE, networks) the
 * kernel asks ahead with little depth; there it is really read, into memory that is used again and again (measured at 3 ms a read: half as
 * fast again as asking), and many threads that wait are what keeps requests under way. Errors are left to the later reader of the file.
 *
 * Safety: everything in struct ahead is under its lock; paths are constant once pushed. The object is freed when the last thread has left
 * it.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/thread.h"
#include "python/module.h"

enum { TOUCH_EVERY = 128 << 10, CHUNK = 1 << 20, MOST_THREADS = 256 };

struct ahead_file {
    char *path;     /* freed when it was taken */
    uint64_t bytes; /* once it was read */
};

struct ahead {
    pthread_mutex_t lock;
    pthread_cond_t wakes;
    struct ahead_file *file; /* those from `first` on */
    uint64_t first, pushed, taken, passed, capacity;
    uint64_t bytes, limit; /* read and not passed */
    unsigned delay_us;     /* constant: tests have slower storage with it */
    int refs;              /* threads, and the object */
    bool is_over;
};

struct ahead_object {
    PyObject_HEAD struct ahead *ahead;
    pid_t owner;
};

static struct ahead_file *file_of(struct ahead *a, uint64_t number)
{
    return &a->file[number - a->first];
}

static void drop(struct ahead *a)
{
    pthread_mutex_lock(&a->lock);
    bool is_last = --a->refs == 0;
    pthread_mutex_unlock(&a->lock);
    if (!is_last)
        return;
    for (uint64_t i = a->first; i < a->pushed; i++)
        free(file_of(a, i)->path);
    free(a->file);
    pthread_cond_destroy(&a->wakes);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

/* ---- threads ---- */

/* By the numbers that statfs(2) lists: ext4, XFS, btrfs, tmpfs, overlayfs, F2FS. */
static bool is_local(int fd)
{
    static const unsigned long local[] = {0xef53, 0x58465342, 0x9123683e, 0x01021994, 0x794c7630, 0xf2f52010};
    struct statfs s;
    if (fstatfs(fd, &s) != 0)
        return false;
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        if ((unsigned long)s.f_type == local[i])
            return true;
    return false;
}

static void ask_and_touch(int fd, uint64_t bytes)
{
    char byte;
    posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    for (uint64_t at = 0; at < bytes; at += TOUCH_EVERY) {
        uint64_t last = at + TOUCH_EVERY < bytes ? at + TOUCH_EVERY : bytes;
        if (file_read_all_at(fd, &byte, 1, last - 1) != 1)
            return;
    }
}

static void read_through(int fd, char *scratch)
{
    for (uint64_t at = 0; file_read_all_at(fd, scratch, CHUNK, at) == CHUNK; at += CHUNK)
        ;
}

static uint64_t have_read(const char *path, char *scratch)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return 0;
    uint64_t bytes = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? (uint64_t)s.st_size : 0;
    if (bytes && scratch && !is_local(fd))
        read_through(fd, scratch);
    else if (bytes)
        ask_and_touch(fd, bytes);
    close(fd);
    return bytes;
}

/* The lock is held. NULL: it is over. */
static char *take(struct ahead *a, uint64_t *number)
{
    for (;;) {
        if (a->is_over)
            return NULL;
        if (a->taken < a->passed) {
            a->taken = a->passed; /* too late for these: their reader is at them */
        } else if (a->taken < a->pushed && a->bytes < a->limit) {
            *number = a->taken++;
            char *path = file_of(a, *number)->path;
            file_of(a, *number)->path = NULL;
            return path;
        } else {
            pthread_cond_wait(&a->wakes, &a->lock);
        }
    }
}

static void *ahead_main(void *arg)
{
    struct ahead *a = arg;
    uint64_t number;
    char *scratch = malloc(CHUNK); /* without it, asking does as well */
    pthread_mutex_lock(&a->lock);
    for (char *path; (path = take(a, &number));) {
        pthread_mutex_unlock(&a->lock);
        if (a->delay_us)
            usleep(a->delay_us);
        uint64_t bytes = have_read(path, scratch);
        free(path);
        pthread_mutex_lock(&a->lock);
        if (number >= a->passed) {
            file_of(a, number)->bytes = bytes;
            a->bytes += bytes;
        }
    }
    pthread_mutex_unlock(&a->lock);
    free(scratch);
    drop(a);
    return NULL;
}

/* ---- the object ---- */

static struct ahead *ahead_new(unsigned long long limit, unsigned delay_us)
{
    struct ahead *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    pthread_mutex_init(&a->lock, NULL);
    thread_cond_init(&a->wakes);
    a->limit = limit;
    a->delay_us = delay_us;
    a->refs = 1;
    return a;
}

static int start_threads(struct ahead *a, int threads)
{
    struct fb_error e = {0};
    for (int i = 0; i < threads; i++) {
        pthread_t t;
        pthread_mutex_lock(&a->lock);
        a->refs++;
        pthread_mutex_unlock(&a->lock);
        if (thread_start(&t, "fb-ahead", ahead_main, a, &e) == 0) {
            pthread_detach(t);
            continue;
        }
        drop(a);
        return i ? 0 : (raise_error(&e), -1); /* fewer do as well */
    }
    return 0;
}

static void stop(struct ahead_object *self)
{
    struct ahead *a = self->ahead;
    self->ahead = NULL;
    if (!a || self->owner != getpid()) /* a forked child has no such threads; what they hold is lost there */
        return;
    pthread_mutex_lock(&a->lock);
    a->is_over = true;
    pthread_cond_broadcast(&a->wakes);
    pthread_mutex_unlock(&a->lock);
    drop(a);
}

/* _Ahead(threads, bytes, delay_us=0) */
static PyObject *object_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"threads", "bytes", "delay_us", NULL};
    int threads;
    unsigned delay_us = 0;
    unsigned long long limit;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "iK|I", names, &threads, &limit, &delay_us))
        return NULL;
    if (threads < 1 || threads > MOST_THREADS)
        return PyErr_Format(PyExc_ValueError, "threads must be from 1 to %d", MOST_THREADS);
    struct ahead_object *self = PyObject_New(struct ahead_object, type);
    if (!self)
        return NULL;
    self->owner = getpid();
    self->ahead = ahead_new(limit, delay_us);
    if (!self->ahead)
        PyErr_NoMemory();
    if (!self->ahead || start_threads(self->ahead, threads) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void object_dealloc(struct ahead_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    stop(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The lock is held. Room for one more; what was passed makes it. */
static bool make_room(struct ahead *a)
{
    uint64_t settled = a->passed < a->taken ? a->passed : a->taken, count = a->pushed - a->first;
    if (count < a->capacity)
        return true;
    if (settled - a->first > count / 2) {
        memmove(a->file, file_of(a, settled), (a->pushed - settled) * sizeof(*a->file));
        a->first = settled;
        return true;
    }
    uint64_t capacity = a->capacity ? 2 * a->capacity : 1024;
    struct ahead_file *more = realloc(a->file, capacity * sizeof(*more));
    if (!more)
        return false;
    a->file = more;
    a->capacity = capacity;
    return true;
}

/* push(path): the next file, as bytes */
static PyObject *object_push(struct ahead_object *self, PyObject *arg)
{
    char *text;
    if (PyBytes_AsStringAndSize(arg, &text, NULL) < 0)
        return NULL;
    struct ahead *a = self->ahead;
    char *path = a ? strdup(text) : NULL;
    if (!a)
        Py_RETURN_NONE;
    pthread_mutex_lock(&a->lock);
    bool has_room = path && make_room(a);
    if (has_room) {
        a->file[a->pushed++ - a->first] = (struct ahead_file){path, 0};
        pthread_cond_signal(&a->wakes);
    }
    pthread_mutex_unlock(&a->lock);
    if (has_room)
        Py_RETURN_NONE;
    free(path);
    return PyErr_NoMemory();
}

/* pass_(n): readers were given the next n files */
static PyObject *object_pass(struct ahead_object *self, PyObject *arg)
{
    unsigned long long n = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred())
        return NULL;
    struct ahead *a = self->ahead;
    if (!a)
        Py_RETURN_NONE;
    pthread_mutex_lock(&a->lock);
    for (; n && a->passed < a->pushed; n--) {
        struct ahead_file *f = file_of(a, a->passed++);
        a->bytes -= f->bytes;
        f->bytes = 0;
        free(f->path);
        f->path = NULL;
    }
    pthread_cond_broadcast(&a->wakes);
    pthread_mutex_unlock(&a->lock);
    Py_RETURN_NONE;
}

/* (pushed, taken, passed, bytes ahead) */
static PyObject *object_figures(struct ahead_object *self, PyObject *unused)
{
    (void)unused;
    struct ahead *a = self->ahead;
    if (!a)
        return Py_BuildValue("KKKK", 0ull, 0ull, 0ull, 0ull);
    pthread_mutex_lock(&a->lock);
    unsigned long long pushed = a->pushed, taken = a->taken, passed = a->passed, bytes = a->bytes;
    pthread_mutex_unlock(&a->lock);
    return Py_BuildValue("KKKK", pushed, taken, passed, bytes);
}

static PyObject *object_stop(struct ahead_object *self, PyObject *unused)
{
    (void)unused;
    stop(self);
    Py_RETURN_NONE;
}

static PyMethodDef ahead_methods[] = {
    {"push", (PyCFunction)object_push, METH_O, "push(path): the next file"},
    {"pass_", (PyCFunction)object_pass, METH_O, "pass_(n): the next n files were given to their readers"},
    {"figures", (PyCFunction)object_figures, METH_NOARGS, "(pushed, taken, passed, bytes ahead)"},
    {"stop", (PyCFunction)object_stop, METH_NOARGS, "threads end after the file they are at"},
    {0},
};

static PyType_Slot ahead_slots[] = {
    {Py_tp_doc, "_Ahead(threads, bytes): has files read into the page cache, in order, on threads of its own."},
    {Py_tp_new, object_new},
    {Py_tp_dealloc, object_dealloc},
    {Py_tp_methods, ahead_methods},
    {0},
};

PyType_Spec ahead_spec = {
    .name = "fullbore._fullbore._Ahead",
    .basicsize = sizeof(struct ahead_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ahead_slots,
};
