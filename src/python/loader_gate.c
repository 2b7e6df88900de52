#include "python/loader_gate.h"

#include "base/clock.h"
#include "base/thread.h"

void loader_gate_init(struct loader_gate *g)
{
    pthread_mutex_init(&g->mutex, NULL);
    thread_cond_init(&g->changed);
    g->is_taken = false;
    g->guests = 0;
    atomic_init(&g->is_closing, false);
}

void loader_gate_destroy(struct loader_gate *g)
{
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->mutex);
}

static bool is_inside(const struct loader_gate *g)
{
    return g->is_taken && pthread_equal(g->owner, pthread_self());
}

enum loader_gate_answer loader_gate_enter(struct loader_gate *g, uint64_t timeout_ns)
{
    uint64_t deadline = clock_now_ns() + timeout_ns;
    enum loader_gate_answer answer = GATE_IN;
    pthread_mutex_lock(&g->mutex);
    while (g->is_taken && !is_inside(g) && !g->is_closing)
        if (!thread_cond_wait_until(&g->changed, &g->mutex, deadline))
            break;
    if (is_inside(g))
        answer = GATE_INSIDE;
    else if (g->is_closing)
        answer = GATE_CLOSED;
    else if (g->is_taken)
        answer = GATE_BUSY;
    else
        g->is_taken = true, g->owner = pthread_self();
    pthread_mutex_unlock(&g->mutex);
    return answer;
}

void loader_gate_leave(struct loader_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->is_taken = false;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

enum loader_gate_answer loader_gate_enter_as_guest(struct loader_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    enum loader_gate_answer answer = is_inside(g) ? GATE_INSIDE : g->is_closing ? GATE_CLOSED : GATE_IN;
    if (answer == GATE_IN)
        g->guests++;
    pthread_mutex_unlock(&g->mutex);
    return answer;
}

void loader_gate_leave_as_guest(struct loader_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->guests--;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
}

enum loader_gate_answer loader_gate_shut(struct loader_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->is_closing = true;
    enum loader_gate_answer answer = is_inside(g) ? GATE_INSIDE : GATE_CLOSED;
    pthread_cond_broadcast(&g->changed);
    pthread_mutex_unlock(&g->mutex);
    return answer;
}

void loader_gate_wait_empty(struct loader_gate *g)
{
    pthread_mutex_lock(&g->mutex);
    while (g->is_taken || g->guests > 0)
        pthread_cond_wait(&g->changed, &g->mutex);
    pthread_mutex_unlock(&g->mutex);
}
