/* Which Python threads are inside a loader.
 *
 * The engine allows one caller per loader at a time; Python programs have threads, and signal handlers that run in the middle of next(). A
 * caller enters alone (what changes the loader) or as a guest (what any thread may ask at any time); close waits until nobody is inside.
 *
 * Safety: the gate's mutex is held for a few instructions and never while the interpreter's lock is taken, so both may be held by a caller.
 * is_closing may be read without it: it only ever becomes true.
 */
#ifndef FB_PYTHON_LOADER_GATE_H
#define FB_PYTHON_LOADER_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct loader_gate {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_taken;   /* somebody is in alone */
    pthread_t owner; /* who, while is_taken */
    int guests;
    atomic_bool is_closing; /* relaxed: waiters look every 100 ms; the mutex orders everything else */
};

enum loader_gate_answer {
    GATE_IN,
    GATE_BUSY,   /* another thread is in and did not leave in time */
    GATE_INSIDE, /* this very thread is in already: a signal handler, most likely */
    GATE_CLOSED
};

void loader_gate_init(struct loader_gate *g);
void loader_gate_destroy(struct loader_gate *g);

enum loader_gate_answer loader_gate_enter(struct loader_gate *g, uint64_t timeout_ns);
void loader_gate_leave(struct loader_gate *g);
enum loader_gate_answer loader_gate_enter_as_guest(struct loader_gate *g);
void loader_gate_leave_as_guest(struct loader_gate *g);

/* Lets nobody in any more. GATE_INSIDE: this thread itself is in and must do what is left when it leaves. */
enum loader_gate_answer loader_gate_shut(struct loader_gate *g);
/* After loader_gate_shut: waits until everybody has left. */
void loader_gate_wait_empty(struct loader_gate *g);

#endif
