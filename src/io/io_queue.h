/* Requests that wait for their turn: those that go first before all others, else in the order they came.
 *
 * What goes first is the rest of a load that has begun (the range of a file whose head is there, the mask of a picture that is there), or
 * the stand-in for a bad sample: its batch is wanted sooner than anything that queues behind, which the look-ahead put there. There are
 * never more of them than loads under way, so nobody else waits for ever. That turn, and taking a request under the lock that says whether
 * the back-end is closing, is why this is no queue of base/.
 *
 * Safety: under the lock of whoever owns it.
 */
#ifndef FB_IO_QUEUE_H
#define FB_IO_QUEUE_H

#include "model/io_ops.h"

struct io_queue {
    struct io_request *head, *tail;
    struct io_request *last_first; /* the last one that goes first; NULL: none does */
};

static inline void io_queue_add(struct io_queue *q, struct io_request *r)
{
    struct io_request *before = r->goes_first ? q->last_first : q->head ? q->tail : NULL;
    struct io_request **at = before ? &before->next : &q->head;
    r->next = *at;
    *at = r;
    if (!r->next)
        q->tail = r;
    if (r->goes_first)
        q->last_first = r;
}

/* NULL: it is empty. */
static inline struct io_request *io_queue_take(struct io_queue *q)
{
    struct io_request *r = q->head;
    if (!r)
        return NULL;
    q->head = r->next;
    if (q->last_first == r)
        q->last_first = NULL;
    return r;
}

/* Everything, linked; then it is empty. */
static inline struct io_request *io_queue_take_all(struct io_queue *q)
{
    struct io_request *all = q->head;
    *q = (struct io_queue){0};
    return all;
}

#endif
