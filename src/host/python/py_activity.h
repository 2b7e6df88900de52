/* What a function on the main thread's stack says about what the thread is busy with: names only, one table, pure functions. */
#ifndef FB_HOST_PYTHON_PY_ACTIVITY_H
#define FB_HOST_PYTHON_PY_ACTIVITY_H

#include <stdbool.h>

#include "model/snapshot.h"

/* How much a frame decides. A SURE one is believed whatever runs inside or around it (a transform that is a torch module, called by a data
 * set, is loading); a STEP one beats what only looks like loading or saving; a HINT counts when there is nothing better. */
enum frame_weight { FRAME_NOTHING, FRAME_HINT, FRAME_STEP, FRAME_SURE };

struct frame_meaning {
    enum frame_weight weight;
    enum activity activity;
    bool is_validation; /* a function that validates, evaluates or tests */
    bool is_own;        /* of the program itself: neither an installed package nor Python's own library */
};

/* `function` and `file` as the code object names them. */
struct frame_meaning frame_meaning_of(const char *function, const char *file, bool is_generator);

/* Frames from the innermost outward; of equal weight the innermost counts. */
struct stack_meaning {
    enum frame_weight weight;
    enum activity activity;
    bool is_validation;
    bool is_empty; /* no function runs: the interpreter starts or ends */
};
void stack_add_frame(struct stack_meaning *s, struct frame_meaning f);

#endif
