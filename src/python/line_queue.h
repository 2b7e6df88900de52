/* Log lines of the engine's threads, queued until a Python thread hands them to logging.
 *
 * To speak, the engine's threads never take the interpreter's lock (they do only to call functions of the user's): so they cannot deadlock
 * with a thread that holds it, and cannot be caught inside it when the interpreter ends. Python threads empty the queue after every call
 * and ten times a second while they wait. One queue for the process, never freed: a thread that could not be stopped at close may still
 * speak. Holds the first 32 lines; more are counted. Not a queue of base/:
 * a line that nobody takes must not cost memory, and a forked child must be able to forget a lock.
 */
#ifndef FB_PYTHON_LINE_QUEUE_H
#define FB_PYTHON_LINE_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { LINE_QUEUE_LINES = 32, LINE_BYTES = 1024 };

struct line {
    int level;
    char text[LINE_BYTES];
};

struct line_queue { /* zero-initialised it is empty and valid */
    pthread_mutex_t mutex;
    atomic_int count; /* both written under the mutex, read without it to see that there is nothing to do */
    atomic_uint dropped;
    int first;
    struct line line[LINE_QUEUE_LINES];
};

/* In a forked child: forgets everything, also a lock that a thread of the parent held. */
void line_queue_reset(struct line_queue *q);
void line_queue_put(struct line_queue *q, int level, const char *text);
/* False: empty. */
bool line_queue_take(struct line_queue *q, struct line *out);

#endif
