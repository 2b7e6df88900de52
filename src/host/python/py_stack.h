/* One look at the stack of one thread of a CPython process, through its memory, while it runs.
 *
 * Nothing is stopped, so the stack may change under the look: pointers may be torn and objects gone. Every pointer, length and type is
 * checked, the number of frames and of bytes is bounded, and whatever does not fit makes the look one that is not known. A look whose
 * innermost frame has changed meanwhile is repeated; it counts when two in a row say the same.
 */
#ifndef FB_HOST_PYTHON_PY_STACK_H
#define FB_HOST_PYTHON_PY_STACK_H

#include "host/python/py_activity.h"
#include "host/python/py_layout.h"
#include "host/python/py_memory.h"

enum { STACK_DEPTH = 96, STACK_TRIES = 3, STACK_THREADS_MOST = 4096, CODE_CACHE = 1024, CODE_LOOKS = 400 };

/* A code object that was read before: the functions of a program are few and live long. After CODE_LOOKS it is read again, because its
 * memory may have become another one's. */
struct code_known {
    uint64_t address;
    uint32_t until; /* the look at which it is read again */
    struct frame_meaning meaning;
    bool holds_step; /* a step was seen inside: whatever its name, it is a training loop and no loader */
};

struct py_stack {
    struct py_layout layout;
    uint64_t runtime, code_type;      /* addresses of _PyRuntime and PyCode_Type; the latter may be 0: types are not checked */
    uint64_t thread, thread_check[2]; /* the main thread's state, and what must not have changed in it */
    uint32_t looks;
    struct code_known code[CODE_CACHE];
    struct memory_view view;
};

/* `native_id`: the main thread's number as its own process sees it; without a thread of that number the oldest one is taken. False: there
 * is no thread yet, or it cannot be read. */
bool py_stack_find_thread(struct py_stack *s, uint64_t native_id);
/* What the thread does now. False: not known this time; s->thread becomes 0 if it must be found again. */
bool py_stack_look(struct py_stack *s, struct stack_meaning *out);

#endif
