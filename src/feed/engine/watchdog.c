#include "feed/engine/watchdog.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text/text.h"

static uint64_t patience_ns(void)
{
    const char *s = getenv("FULLBORE_WATCHDOG");
    const char *end;
    double seconds = 0;
    if (!s)
        seconds = 10;
    else
        text_parse_double(s, &seconds, &end);
    return seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_MAX;
}

static const char *step_name(const struct feed *f, uint32_t step, char *out, size_t out_size)
{
    static const char *const names[] = {"done", "waiting to be read", "being read", "waiting for a worker", "being decoded"};
    if (step < LOAD_CALLING)
        return names[step];
    snprintf(out, out_size, "inside the function %s", f->function[step - LOAD_CALLING].name);
    return out;
}

/* What others may be waiting behind comes first: work under way, then reads, then what waits itself. */
static int urgency(uint32_t step)
{
    return step >= LOAD_DECODING ? 3 : step == LOAD_READING ? 2 : step == LOAD_IDLE ? 0 : 1;
}

/* The unfinished load of the slot the consumer waits for that has been at its step for longest. */
static const struct load *oldest_load(const struct slot *s)
{
    const struct load *loads = s->loads, *oldest = NULL;
    int most = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        int u = urgency(atomic_load_explicit(&loads[i].step, memory_order_relaxed));
        if (u > most || (u == most && u &&
                         atomic_load_explicit(&loads[i].since_ns, memory_order_relaxed) <
                             atomic_load_explicit(&oldest->since_ns, memory_order_relaxed)))
            oldest = &loads[i];
        most = u > most ? u : most;
    }
    return oldest;
}

/* Composed under the lock, said outside it: the log function may take locks of its own (Python's). */
static void compose(const struct feed *f, const struct slot *s, uint64_t now, uint64_t waited_ns, char *out, size_t out_size)
{
    const struct load *l = s ? oldest_load(s) : NULL;
    if (s && (s->state == SLOT_FILLED || s->state == SLOT_SHIPPING)) {
        text_words(out, out_size, "waiting %.0f s for the next batch: it is ready, but the device (%s) still uses the %u buffers before it",
                   (double)waited_ns / 1e9, f->device_copy.device->title, f->device_copy.buffers);
        return;
    }
    if (!l) {
        text_words(out, out_size, "waiting %.0f s for the next batch: no memory for it yet; raise memory= or release batches",
                   (double)waited_ns / 1e9);
        return;
    }
    char path[256], step[128];
    const char *key = s->place[l->place].key;
    text_words(out, out_size, "waiting %.0f s for the next batch: %u of its %u samples are missing; %s has been %s for %.1f s",
               (double)waited_ns / 1e9, atomic_load_explicit(&s->remaining, memory_order_relaxed), s->count,
               text_escape(key ? key : "?", path, sizeof(path)),
               step_name(f, atomic_load_explicit(&l->step, memory_order_relaxed), step, sizeof(step)),
               (double)(now - atomic_load_explicit(&l->since_ns, memory_order_relaxed)) / 1e9);
}

void watchdog_check(struct feed *f)
{
    uint64_t since = atomic_load_explicit(&f->waiting_since_ns, memory_order_relaxed), now = clock_now_ns();
    if (since == 0 || now - since < patience_ns())
        return;
    uint64_t seconds = (now - since) / 1000000000u, first = patience_ns() / 1000000000u;
    uint64_t ratio = first ? seconds / first : seconds;
    bool is_due = first == 0 || (seconds % first == 0 && (ratio & (ratio - 1)) == 0);
    if (!is_due)
        return;
    char line[512];
    pthread_mutex_lock(&f->lock);
    compose(f, f->ahead_first, now, now - since, line, sizeof(line));
    pthread_mutex_unlock(&f->lock);
    log_line(&f->log, LOG_WARN, "%s", line);
}
