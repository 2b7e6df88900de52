/* A first-in-first-out queue between threads: lock, condition and a list of items.
 *
 * The link lies in the item (as its first member), so putting never allocates and never fails: a completion handler can do it. The queue
 * has no limit of its own; whoever makes the items limits them.
 *
 * Safety: nothing but the list is touched under the lock, no code of a caller runs under it, and an item is never looked into. An item
 * belongs to the queue from queue_put until the call that returns it, and to the taker afterwards; what the putter wrote before is visible
 * to the taker. An item may be in one queue at a time. The queue may be destroyed when the last item was taken and nobody waits: a putter
 * whose item was taken has nothing left to do but to let go of the lock.
 */
#ifndef FB_BASE_QUEUE_H
#define FB_BASE_QUEUE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct queue_item {
    struct queue_item *next; /* the queue's own */
};

struct queue {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct queue_item *first, *last;
    uint64_t count;
    bool is_closed;
};

void queue_init(struct queue *q);
/* Items that are still in it are left to whoever made them. */
void queue_destroy(struct queue *q);

/* Never blocks; wakes one taker. Not after queue_close. */
void queue_put(struct queue *q, struct queue_item *item);
/* The oldest item; waits for one. NULL: it is closed and empty. */
void *queue_take(struct queue *q);
/* The same until a time of clock_now_ns. NULL: the time is over, too. A time that is past takes what is there. */
void *queue_take_until(struct queue *q, uint64_t deadline_ns);
/* No more items will come: those who wait leave when it is empty. */
void queue_close(struct queue *q);

#endif
