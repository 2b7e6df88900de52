/* Bad samples: how they are replaced, and the list of them. The list names each file once, with the reason; beyond FEED_MAX_BAD files are
 * only counted. */
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "feed/load_ops.h"

enum { MOST_STAND_INS = 1000 /* looked at for one that fits */ };

static bool is_listed(const struct feed *f, const char *path)
{
    for (uint32_t i = 0; i < f->bad_listed; i++)
        if (strcmp(f->bad_list[i].path, path) == 0)
            return true;
    return false;
}

static void append(struct feed *f, const struct fb_error *e, uint64_t epoch)
{
    if (!f->bad_list)
        f->bad_list = calloc(FEED_MAX_BAD, sizeof(*f->bad_list));
    if (!f->bad_list || f->bad_listed == FEED_MAX_BAD || is_listed(f, e->path))
        return;
    struct bad_sample b = {.path = strdup(e->path), .cause = strdup(e->cause), .epoch = epoch};
    memcpy(b.stage, e->stage, sizeof(b.stage));
    if (b.path && b.cause) {
        f->bad_list[f->bad_listed++] = b;
    } else {
        free(b.path);
        free(b.cause);
    }
}

static void note(struct feed *f, const struct fb_error *e, uint64_t epoch)
{
    atomic_fetch_add_explicit(&f->bad, 1, memory_order_relaxed);
    pthread_mutex_lock(&f->bad_lock);
    append(f, e, epoch);
    pthread_mutex_unlock(&f->bad_lock);
}

/* Makes the last one's error that of the place. */
static void give_up_place(struct fb_error *e, uint32_t bad_tries)
{
    char last[sizeof(e->cause)];
    memcpy(last, e->cause, sizeof(last));
    e->remedy[0] = 0;
    text_words(e->cause, sizeof(e->cause), "%u of %u samples tried for one place were bad, the last one because %s", bad_tries, bad_tries,
               last);
    error_remedy(e, "most of the data set is bad: the statistics name files and causes under bad_samples");
}

bool feed_redraws_bad(struct feed *f, struct slot *s, uint32_t place, uint64_t selected, const char *key, uint32_t tries,
                      struct fb_error *e)
{
    error_at(e, key, -1);
    e->sample = (int64_t)s->place[place].sample;
    if (!f->skips_bad || error_is_systemic(e) || s->generation != atomic_load_explicit(&f->generation, memory_order_relaxed))
        return false;
    note(f, e, s->epoch);
    audit_bad(f, s->epoch, selected, key, e->cause);
    if (tries == FEED_MOST_BAD_TRIES || f->subset.count == 1) {
        give_up_place(e, tries);
        return false;
    }
    pthread_mutex_lock(&f->lock);
    bool is_lost = s->error && s->error_place < place; /* that place's error is the batch's, whatever becomes of this one */
    s->redraws += !is_lost;
    pthread_mutex_unlock(&f->lock);
    return !is_lost;
}

/* The room of a place is what its first sample needed. */
static bool fits(const struct feed *f, const struct slot *s, uint32_t place, uint64_t selected)
{
    return !s->room || f->kind->length(f, f->subset.sample ? f->subset.sample[selected] : selected) <= s->room[place];
}

uint64_t feed_stand_in(const struct feed *f, const struct slot *s, uint32_t place, uint32_t *attempt)
{
    struct order o;
    feed_order(f, s->epoch, &o);
    uint64_t selected = order_redraw(&o, s->place[place].position, *attempt);
    while (!fits(f, s, place, selected) && *attempt < MOST_STAND_INS)
        selected = order_redraw(&o, s->place[place].position, ++*attempt);
    return selected;
}

void feed_free_bad(struct feed *f)
{
    for (uint32_t i = 0; i < f->bad_listed; i++) {
        free(f->bad_list[i].path);
        free(f->bad_list[i].cause);
    }
    free(f->bad_list);
}
