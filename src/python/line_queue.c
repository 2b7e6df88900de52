#include "python/line_queue.h"

#include <stdio.h>

void line_queue_reset(struct line_queue *q)
{
    pthread_mutex_init(&q->mutex, NULL);
    atomic_init(&q->count, 0);
    atomic_init(&q->dropped, 0);
    q->first = 0;
}

void line_queue_put(struct line_queue *q, int level, const char *text)
{
    pthread_mutex_lock(&q->mutex);
    if (q->count == LINE_QUEUE_LINES) {
        q->dropped++;
    } else {
        struct line *l = &q->line[(q->first + q->count) % LINE_QUEUE_LINES];
        l->level = level;
        snprintf(l->text, sizeof(l->text), "%s", text);
        q->count++;
    }
    pthread_mutex_unlock(&q->mutex);
}

static bool take_line(struct line_queue *q, struct line *out)
{
    if (q->count > 0) {
        *out = q->line[q->first];
        q->first = (q->first + 1) % LINE_QUEUE_LINES;
        q->count--;
        return true;
    }
    if (q->dropped > 0) {
        out->level = 1;
        snprintf(out->text, sizeof(out->text), "%u more lines were dropped", atomic_load(&q->dropped));
        q->dropped = 0;
        return true;
    }
    return false;
}

bool line_queue_take(struct line_queue *q, struct line *out)
{
    /* relaxed: a line put at this instant is taken at the next call */
    if (atomic_load_explicit(&q->count, memory_order_relaxed) == 0 && atomic_load_explicit(&q->dropped, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&q->mutex);
    bool is_there = take_line(q, out);
    pthread_mutex_unlock(&q->mutex);
    return is_there;
}
