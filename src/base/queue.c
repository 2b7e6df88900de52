#include "base/queue.h"

#include <assert.h>

#include "base/thread.h"

void queue_init(struct queue *q)
{
    *q = (struct queue){.count = 0};
    pthread_mutex_init(&q->lock, NULL);
    thread_cond_init(&q->changed);
}

void queue_destroy(struct queue *q)
{
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
}

void queue_put(struct queue *q, struct queue_item *item)
{
    item->next = NULL;
    pthread_mutex_lock(&q->lock);
    assert(!q->is_closed);
    if (q->first)
        q->last->next = item;
    else
        q->first = item;
    q->last = item;
    q->count++;
    pthread_cond_signal(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void *queue_take(struct queue *q)
{
    return queue_take_until(q, UINT64_MAX);
}

static bool wait_until(struct queue *q, uint64_t deadline_ns)
{
    if (deadline_ns != UINT64_MAX)
        return thread_cond_wait_until(&q->changed, &q->lock, deadline_ns);
    pthread_cond_wait(&q->changed, &q->lock);
    return true;
}

void *queue_take_until(struct queue *q, uint64_t deadline_ns)
{
    pthread_mutex_lock(&q->lock);
    while (!q->first && !q->is_closed && wait_until(q, deadline_ns))
        ;
    struct queue_item *item = q->first;
    if (item) {
        q->first = item->next;
        q->count--;
    }
    pthread_mutex_unlock(&q->lock);
    return item;
}

void queue_close(struct queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->is_closed = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}
