/* Scheduling requests: which task gets a flight, which late flight gets a second one beside it, and what happens after an answer. Runs on
 * the loop's thread only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "io/s3/loop/s3_loop_internal.h"

enum { MOST_REDIRECTS = 3, FIRST_WAIT_MS = 50, MOST_WAIT_MS = 10000, MOST_CORRECTIONS = 3 };
static const uint64_t second_ns = 1000000000;

static void count(_Atomic uint64_t *n)
{
    atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* ---- over ---- */

/* Hands a task back, unless close has given up on us. */
static void deliver(struct s3_loop *l, struct s3_task *t)
{
    free(t->redirect);
    t->redirect = NULL;
    pthread_mutex_lock(&l->lock);
    bool is_abandoned = l->is_abandoned;
    l->is_delivering = !is_abandoned;
    l->tasks--;
    pthread_mutex_unlock(&l->lock);
    if (is_abandoned)
        return;
    t->done(t);
    pthread_mutex_lock(&l->lock);
    l->is_delivering = false;
    if (l->is_closing)
        pthread_cond_signal(&l->quiet);
    pthread_mutex_unlock(&l->lock);
}

static void fail(struct s3_loop *l, struct s3_task *t, const struct fb_error *e)
{
    t->status = e->code ? e->code : FB_E_IO;
    t->got = 0;
    if (t->error && t->error->code == 0)
        *t->error = *e;
    deliver(l, t);
}

static void fail_closed(struct s3_loop *l, struct s3_task *t)
{
    struct fb_error e;
    error_clear(&e);
    error_set(&e, FB_E_STATE, "read", "the reader was closed before this read was over");
    fail(l, t, &e);
}

/* ---- flights ---- */

static void unlist(struct s3_loop *l, struct s3_flight *f)
{
    if (!f->is_listed)
        return;
    *(f->before ? &f->before->after : &l->oldest) = f->after;
    *(f->after ? &f->after->before : &l->newest) = f->before;
    f->is_listed = false;
}

static void list(struct s3_loop *l, struct s3_flight *f)
{
    f->before = l->newest;
    f->after = NULL;
    *(l->newest ? &l->newest->after : &l->oldest) = f;
    l->newest = f;
    f->is_listed = true;
}

static void detach(struct s3_flight *f)
{
    if (f->task)
        f->task->flight[f->is_hedge] = NULL;
    f->task = NULL;
}

static void land(struct s3_loop *l, struct s3_flight *f)
{
    unlist(l, f);
    detach(f);
    curl_multi_remove_handle(l->sockets.multi, f->easy);
    f->is_flying = false;
    l->flight_count--;
    l->cost -= f->cost;
    f->after = l->free;
    l->free = f;
}

/* Inside libcurl, which does not let handles be removed: it is done after. */
static void retire_flight(struct s3_loop *l, struct s3_flight *f)
{
    if (f->first_ns == 0)
        s3_hedge_note(&l->hedge, clock_now_ns() - f->started_ns);
    unlist(l, f);
    detach(f);
    f->is_lost = true;
    f->after = l->lost;
    l->lost = f;
}

static void land_lost(struct s3_loop *l)
{
    while (l->lost) {
        struct s3_flight *f = l->lost;
        l->lost = f->after;
        land(l, f);
    }
}

void s3_loop_first_byte(void *ctx, struct s3_flight *f)
{
    struct s3_loop *l = ctx;
    if (f->is_lost)
        return;
    s3_hedge_note(&l->hedge, f->first_ns - f->started_ns);
    unlist(l, f);
}

void s3_loop_takes(void *ctx, struct s3_flight *f)
{
    struct s3_loop *l = ctx;
    struct s3_flight *other = f->task->flight[!f->is_hedge];
    if (f->is_hedge)
        count(&l->hedges_won);
    if (other)
        retire_flight(l, other);
}

int s3_loop_closes(void *ctx, curl_socket_t fd)
{
    return s3_sockets_close(&((struct s3_loop *)ctx)->sockets, fd);
}

static struct s3_flight *take_flight(struct s3_loop *l)
{
    struct s3_flight *f = l->free;
    if (f) {
        l->free = f->after;
        return f;
    }
    if (l->all_count == l->all_capacity) {
        uint32_t capacity = l->all_capacity ? 2 * l->all_capacity : 64;
        struct s3_flight **more = realloc(l->all, capacity * sizeof(*more));
        if (!more)
            return NULL;
        l->all = more;
        l->all_capacity = capacity;
    }
    f = s3_flight_new(&l->sender);
    if (f)
        l->all[l->all_count++] = f;
    return f;
}

/* False: no memory. The sender's keys are set. */
static bool launch(struct s3_loop *l, struct s3_task *t, bool is_hedge)
{
    struct s3_flight *f = take_flight(l);
    if (!f)
        return false;
    if (!s3_flight_prepare(f, t, &l->sender, is_hedge) || curl_multi_add_handle(l->sockets.multi, f->easy) != CURLM_OK) {
        f->task = NULL;
        f->after = l->free;
        l->free = f;
        return false;
    }
    t->flight[is_hedge] = f;
    f->is_flying = true;
    f->started_ns = clock_now_ns();
    f->cost = s3_pace_cost(t->wanted.length == S3_ALL ? t->wanted.expected_size : t->wanted.length);
    l->flight_count++;
    l->cost += f->cost;
    list(l, f);
    count(&l->requests);
    return true;
}

/* ---- what goes next ---- */

static void push_pending(struct s3_loop *l, struct s3_task *t)
{
    struct s3_task **at = l->pending && !t->goes_first ? &l->pending_last->next : &l->pending;
    while (*at && (*at)->goes_first)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
    if (!t->next)
        l->pending_last = t;
}

static void push_waiting(struct s3_loop *l, struct s3_task *t)
{
    struct s3_task **at = &l->waiting;
    while (*at && (*at)->due_ns <= t->due_ns)
        at = &(*at)->next;
    t->next = *at;
    *at = t;
    l->waiting_count++;
}

static struct s3_task *pop_due(struct s3_loop *l, uint64_t now)
{
    struct s3_task *t = l->waiting;
    if (!t || t->due_ns > now)
        return NULL;
    l->waiting = t->next;
    l->waiting_count--;
    return t;
}

/* For something new: what waits to be tried again keeps its place. */
static bool has_room(const struct s3_loop *l)
{
    return l->cost + l->waiting_count < s3_pace_window(&l->pace);
}

static struct s3_task *pop_pending(struct s3_loop *l)
{
    struct s3_task *t = l->pending;
    if (!t || !has_room(l))
        return NULL;
    l->pending = t->next;
    return t;
}

static void take_submitted(struct s3_loop *l)
{
    pthread_mutex_lock(&l->lock);
    struct s3_task *t = l->in_first;
    l->in_first = l->in_last = NULL;
    pthread_mutex_unlock(&l->lock);
    while (t) {
        struct s3_task *next = t->next;
        push_pending(l, t);
        t = next;
    }
}

/* Sets the sender's keys and clock. False: nothing can be signed now; tasks that can never be are failed. */
static bool get_keys(struct s3_loop *l)
{
    l->sender.now_s = (int64_t)time(NULL) + l->clock_offset_s;
    if (!l->credentials)
        return true;
    struct fb_error e;
    error_clear(&e);
    l->sender.keys = s3_credentials_now(l->credentials, l->sender.now_s, &e);
    if (l->sender.keys)
        return true;
    for (struct s3_task *t; e.code && (t = l->pending);) {
        l->pending = t->next;
        fail(l, t, &e);
    }
    for (struct s3_task *t; e.code && (t = pop_due(l, UINT64_MAX));)
        fail(l, t, &e);
    return false;
}

static void launch_all(struct s3_loop *l, uint64_t now)
{
    struct fb_error e;
    while ((l->pending || l->waiting) && l->cost < s3_pace_window(&l->pace)) {
        bool is_due = l->waiting && l->waiting->due_ns <= now;
        if ((!is_due && (!l->pending || !has_room(l))) || !get_keys(l))
            return;
        struct s3_task *t = pop_due(l, now);
        t = t ? t : pop_pending(l);
        if (!t)
            return;
        t->attempts++;
        if (launch(l, t, false))
            continue;
        error_clear(&e);
        error_set(&e, FB_E_NOMEM, "read", "no memory for a request");
        fail(l, t, &e);
    }
}

static bool may_be_hedged(const struct s3_flight *f)
{
    return !f->is_hedge && !f->task->flight[1] && !f->task->redirect;
}

/* Those that are late get a second flight, oldest first. Answers' first bytes take them off the list. */
static void launch_hedges(struct s3_loop *l, uint64_t now)
{
    uint64_t late = s3_hedge_late_ns(&l->hedge);
    if (late == UINT64_MAX)
        return;
    for (struct s3_flight *f = l->oldest; f && now >= f->started_ns + late; f = f->after) {
        if (!may_be_hedged(f))
            continue;
        if (!s3_hedge_take(&l->hedge) || !get_keys(l))
            return;
        if (launch(l, f->task, true))
            count(&l->hedges);
    }
}

/* ---- answers ---- */

static uint64_t jitter_ns(struct s3_loop *l, const struct s3_task *t, int retry_after_s)
{
    double most_ms = FIRST_WAIT_MS * (double)(1u << (t->attempts < 20 ? t->attempts : 20));
    most_ms = most_ms < MOST_WAIT_MS ? most_ms : MOST_WAIT_MS;
    uint64_t ns = (uint64_t)(rng_double(&l->rng) * most_ms * 1e6);
    uint64_t asked = retry_after_s > 0 ? (uint64_t)(retry_after_s < 60 ? retry_after_s : 60) * second_ns : 0;
    return ns > asked ? ns : asked;
}

static void try_again(struct s3_loop *l, struct s3_task *t, uint64_t wait_ns, struct fb_error *e)
{
    if (t->attempts >= l->options.attempts) {
        size_t n = strlen(e->cause);
        snprintf(e->cause + n, sizeof(e->cause) - n, " (%d attempts)", t->attempts);
        fail(l, t, e);
        return;
    }
    count(&l->retries);
    t->wants_new_connection = true;
    t->due_ns = clock_now_ns() + wait_ns;
    push_waiting(l, t);
}

/* A few times, and where the place allows it; once it was https, never back to http. */
static bool may_follow(const struct s3_loop *l, const struct s3_task *t, const char *location)
{
    bool was_https = t->redirect && strncasecmp(t->redirect, "https:", 6) == 0;
    if (t->redirects >= MOST_REDIRECTS || (was_https && strncasecmp(location, "https:", 6) != 0))
        return false;
    return s3_place_may_redirect(&l->place, location);
}

static void follow(struct s3_loop *l, struct s3_task *t, const char *location, struct fb_error *e)
{
    char shown[200];
    char *url = may_follow(l, t, location) ? strdup(location) : NULL;
    if (!url) {
        error_clear(e);
        error_set(e, FB_E_IO, "read", "the S3 server redirects to %s, which is not followed", text_escape(location, shown, sizeof(shown)));
        error_remedy(e, "redirects are followed %d times, to %s and names below it; check AWS_ENDPOINT_URL and AWS_REGION", MOST_REDIRECTS,
                     l->place.host);
        fail(l, t, e);
        return;
    }
    free(t->redirect);
    t->redirect = url;
    t->redirects++;
    t->attempts--; /* an answer, not a failure; counted by itself */
    try_again(l, t, 0, e);
}

/* What we can set right ourselves, a few times. */
static void correct_and_retry(struct s3_loop *l, struct s3_task *t, struct s3_outcome *out, int64_t date_s, struct fb_error *e)
{
    bool is_new = out->next == S3_NEXT_CLOCK ? llabs(date_s - (int64_t)time(NULL) - l->clock_offset_s) > 60
                                             : strcmp(out->region, l->place.region) != 0;
    if (is_new && l->corrections++ >= MOST_CORRECTIONS) {
        fail(l, t, e);
        return;
    }
    if (is_new && out->next == S3_NEXT_CLOCK) {
        l->clock_offset_s = date_s - (int64_t)time(NULL);
        log_line(&l->log, LOG_WARN, "S3: this machine's clock is %lld s off the server's; requests are signed with the server's time",
                 (long long)l->clock_offset_s);
    } else if (is_new) {
        if (!s3_place_move(&l->place, out->region)) {
            fail(l, t, e);
            return;
        }
        log_line(&l->log, LOG_INFO, "S3: the bucket %s is in %s; set AWS_REGION=%s to avoid the redirect", l->place.bucket, l->place.region,
                 l->place.region);
    }
    try_again(l, t, 0, e);
}

static void go_on(struct s3_loop *l, struct s3_task *t, struct s3_flight *f, struct s3_outcome *out, struct fb_error *e)
{
    switch (out->next) {
    case S3_NEXT_CLOCK:
    case S3_NEXT_REGION: correct_and_retry(l, t, out, f->answer.date_s, e); return;
    case S3_NEXT_REDIRECT: follow(l, t, f->answer.location, e); return;
    case S3_NEXT_KEYS:
        s3_credentials_refuse(l->credentials, f->keys);
        try_again(l, t, 0, e);
        return;
    case S3_NEXT_AGAIN:
    case S3_NEXT_SLOWER: try_again(l, t, jitter_ns(l, t, f->answer.retry_after_s), e); return;
    default: fail(l, t, e);
    }
}

static void finish(struct s3_loop *l, struct s3_flight *f, CURLcode code)
{
    struct s3_task *t = f->task;
    struct s3_outcome out;
    struct fb_error e;
    if (!t)
        return; /* lost: land_lost has it */
    bool is_full = !has_room(l);
    uint64_t now = clock_now_ns();
    s3_flight_outcome(f, code, &l->place, &out, &e);
    if (out.next == S3_NEXT_SLOWER) {
        count(&l->slow_downs);
        s3_pace_back_off(&l->pace, now);
    } else if (out.next == S3_NEXT_DONE) {
        s3_pace_answer(&l->pace, f->got, f->first_ns ? f->first_ns - f->started_ns : 0, is_full, now);
    }
    if (out.next == S3_NEXT_DONE && t->status == S3_HAS_NO_RANGES)
        atomic_store_explicit(&l->ignores_ranges, true, memory_order_relaxed);
    bool has_other = t->flight[!f->is_hedge] != NULL;
    if (has_other && out.next == S3_NEXT_DONE) { /* an answer without a body: nobody took it yet */
        s3_loop_takes(l, f);
        has_other = false;
    }
    land(l, f); /* free, but what it says stays until it is used again */
    land_lost(l);
    if (has_other)
        return; /* the other one may still make it */
    if (out.next == S3_NEXT_DONE)
        deliver(l, t);
    else
        go_on(l, t, f, &out, &e);
}

void s3_schedule_answers(struct s3_loop *l)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(l->sockets.multi, &left));) {
        struct s3_flight *f = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&f);
        finish(l, f, code);
    }
    land_lost(l);
}

void s3_schedule(struct s3_loop *l)
{
    uint64_t now = l->scheduled_ns = clock_now_ns();
    take_submitted(l);
    launch_all(l, now);
    launch_hedges(l, now);
    atomic_store_explicit(&l->window_shown, s3_pace_window(&l->pace), memory_order_relaxed);
    atomic_store_explicit(&l->in_flight_shown, l->flight_count, memory_order_relaxed);
}

/* A task that was already due at the last scheduling waits for an event that wakes us by itself: room in the window or a token for a second
 * flight (an answer brings them), or keys (their thread brings them). Using its due time would mean not sleeping at all. */
static uint64_t sooner(const struct s3_loop *l, uint64_t due_ns, uint64_t at_ns)
{
    return at_ns > l->scheduled_ns && at_ns < due_ns ? at_ns : due_ns;
}

uint64_t s3_schedule_due_ns(const struct s3_loop *l)
{
    uint64_t due = l->waiting ? sooner(l, UINT64_MAX, l->waiting->due_ns) : UINT64_MAX, late = s3_hedge_late_ns(&l->hedge);
    const struct s3_flight *f = late == UINT64_MAX ? NULL : l->oldest;
    while (f && !may_be_hedged(f))
        f = f->after;
    return f ? sooner(l, due, f->started_ns + late) : due;
}

/* Everything that is still under way is over: flights first, since only they may be writing. */
void s3_schedule_end(struct s3_loop *l)
{
    for (uint32_t i = 0; i < l->all_count; i++) {
        struct s3_flight *f = l->all[i];
        struct s3_task *t = f->task;
        if (!f->is_flying)
            continue;
        land(l, f);
        if (t && !t->flight[0] && !t->flight[1])
            fail_closed(l, t);
    }
    take_submitted(l);
    for (struct s3_task *t; (t = l->pending ? l->pending : l->waiting);) {
        *(l->pending ? &l->pending : &l->waiting) = t->next;
        fail_closed(l, t);
    }
}
