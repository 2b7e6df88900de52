/* The cache's threads: some look requests up, others store what was fetched. They block on files, so there may be many of them; but often
 * they only use the CPU, and then work for the next batch matters more: storing threads have a low priority.
 *
 * Closing: no thread leaves before all work is done, because a lookup may become a fetch, and a fetch something to store. The thread that
 * finishes the last of them wakes all others, once. If each woken thread woke the others instead, the many lookup threads would keep the
 * lock from the few storing threads, which finish last.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "cache/cache_internal.h"

void teams_init(struct cache *c)
{
    uint32_t most = c->depth < CACHE_THREADS_MOST ? c->depth : CACHE_THREADS_MOST;
    c->lookup_team = (struct team){.name = "fb-c", .most = most};
    c->store_team = (struct team){.name = "fb-keep", .most = CACHE_STORERS_MOST};
    thread_cond_init(&c->lookup_team.wake);
    thread_cond_init(&c->store_team.wake);
}

/* A flight that is being stored, or waits for that, still counts as alive. */
static bool is_over(const struct cache *c)
{
    return c->is_closing && !c->asked && c->lookups == 0 && c->flights_alive == 0;
}

void teams_wake_if_over(struct cache *c)
{
    if (!is_over(c))
        return;
    pthread_cond_broadcast(&c->lookup_team.wake);
    pthread_cond_broadcast(&c->store_team.wake);
}

/* ---- work; under lock, which is released meanwhile ---- */

static void look_up_next(struct cache *c)
{
    struct io_request *r = c->asked;
    c->asked = r->next;
    c->lookups++;
    pthread_mutex_unlock(&c->lock);
    cache_look_up(c, r);
    pthread_mutex_lock(&c->lock);
    c->lookups--;
    teams_wake_if_over(c);
}

static void store(struct cache *c)
{
    struct flight *f = c->stores;
    c->stores = f->next_store;
    bool has_time = !c->is_draining_over;
    pthread_mutex_unlock(&c->lock);
    if (has_time)
        store_keep(c, f);
    else
        store_drop(c, f);
    pthread_mutex_lock(&c->lock);
}

static void wait_for_call(struct cache *c, struct team *t)
{
    t->idle++;
    pthread_cond_wait(&t->wake, &c->lock);
    t->idle--;
    if (t->woken > 0)
        t->woken--;
}

static void *work(struct cache *c, struct team *t)
{
    bool is_lookup = t == &c->lookup_team;
    pthread_mutex_lock(&c->lock);
    while (!is_over(c)) {
        if (is_lookup && c->asked)
            look_up_next(c);
        else if (!is_lookup && c->stores)
            store(c);
        else
            wait_for_call(c, t);
    }
    c->alive--;
    pthread_cond_broadcast(&c->quiet);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void *lookup_main(void *arg)
{
    struct cache *c = arg;
    return work(c, &c->lookup_team);
}

static void *store_main(void *arg)
{
    struct cache *c = arg;
    thread_be_nice(CACHE_NICE);
    return work(c, &c->store_team);
}

/* ---- */

bool team_call(struct cache *c, struct team *t)
{
    if (t->idle > t->woken) {
        t->woken++;
        pthread_cond_signal(&t->wake);
        return true;
    }
    if (t->started >= t->most)
        return true;
    char name[16];
    snprintf(name, sizeof(name), "%s%u", t->name, t->started);
    if (thread_start(&t->thread[t->started], name, t == &c->lookup_team ? lookup_main : store_main, c, NULL) == 0) {
        t->started++;
        c->alive++;
    }
    return t->started > 0;
}

static bool is_busy(const struct cache *c)
{
    return c->alive > 0 || (c->has_filler && !c->is_filler_over);
}

static void let_go(const struct team *t, bool is_stuck)
{
    for (uint32_t i = 0; i < t->started; i++)
        if (is_stuck)
            pthread_detach(t->thread[i]);
        else
            pthread_join(t->thread[i], NULL);
}

uint32_t teams_end(struct cache *c, uint64_t deadline_ns)
{
    pthread_mutex_lock(&c->lock);
    teams_wake_if_over(c);
    while (is_busy(c) && thread_cond_wait_until(&c->quiet, &c->lock, deadline_ns))
        ;
    c->is_draining_over = true; /* only what was claimed and reserved is given back; by the store_team, for the disk may hang */
    uint64_t last_ns = clock_now_ns() + 50000000;
    while (is_busy(c) && thread_cond_wait_until(&c->quiet, &c->lock, last_ns))
        ;
    uint32_t stuck = c->alive + (c->has_filler && !c->is_filler_over);
    pthread_mutex_unlock(&c->lock);
    let_go(&c->lookup_team, stuck > 0);
    let_go(&c->store_team, stuck > 0);
    if (c->has_filler && stuck)
        pthread_detach(c->filler);
    else if (c->has_filler)
        pthread_join(c->filler, NULL);
    return stuck;
}
