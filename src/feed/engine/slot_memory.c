#include "feed/engine/slot_memory.h"

#include <errno.h>

#include "base/text/text.h"
#include "feed/crew.h"

enum {
    HELD_BY_USER = 2,
    WAITS_FOR_ROOM = 200, /* naps until a batch that does not fit is given up */
    NAPS_IF_CRAMPED = 2   /* until kept batches leave the budget, if that was necessary before */
};

/* ---- slots; f->lock is held ---- */

static bool is_owned_full(const struct feed *f)
{
    return f->owned >= f->look_ahead + HELD_BY_USER;
}

/* The user keeps more batches than the budget has for that, `kept`: the oldest is theirs from now on. */
static bool give_away_oldest(struct feed *f, uint32_t kept)
{
    if (f->held <= kept)
        return false;
    struct slot *s = f->held_slots[0];
    f->held--;
    for (uint32_t i = 0; i < f->held; i++)
        f->held_slots[i] = f->held_slots[i + 1];
    s->is_given = true;
    f->owned--;
    f->given_away++;
    budget_give(f->budget, MEMORY_SLOTS, f->slot_total_bytes + s->rows_capacity);
    return true;
}

void slot_memory_give_away_held(struct feed *f)
{
    while (give_away_oldest(f, 0))
        ;
}

struct slot *slot_memory_get(struct feed *f, bool *is_poor)
{
    *is_poor = false;
    struct slot *s = f->free_slots;
    if (s) {
        f->free_slots = s->next;
        s->next = NULL;
        return s;
    }
    if (is_owned_full(f) && !give_away_oldest(f, HELD_BY_USER))
        return NULL;
    *is_poor = !budget_take(f->budget, MEMORY_SLOTS, f->slot_total_bytes);
    if (*is_poor)
        return NULL;
    s = device_copy_slot_new(f);
    if (!s) {
        budget_give(f->budget, MEMORY_SLOTS, f->slot_total_bytes);
        *is_poor = true;
        f->slots_failed++;
        return NULL;
    }
    f->slots_failed = 0;
    f->owned++;
    return s;
}

void slot_memory_drop_free(struct feed *f)
{
    while (f->free_slots) {
        struct slot *s = f->free_slots;
        f->free_slots = s->next;
        size_t bytes = f->slot_total_bytes + s->rows_capacity;
        device_copy_slot_free(f, s);
        f->owned--;
        budget_give(f->budget, MEMORY_SLOTS, bytes);
    }
}

/* ---- room for variable lengths ---- */

static bool fail_slot(struct feed *f, struct slot *s, size_t bytes)
{
    char need[32], limit[32];
    s->error = error_new();
    error_set(s->error, FB_E_BUDGET, "feed", "a batch of these samples takes %s, more than the memory budget of %s has left",
              text_size(bytes, need, sizeof(need)), text_size(atomic_load(&f->budget->limit), limit, sizeof(limit)));
    error_remedy(s->error, "raise memory=, lower batch_size=, or use fb.Ragged() or fb.SampleInstances(k)");
    return false;
}

/* f->lock is held. Batches of variable lengths may be so large that there is no room for the next one beside those that are kept. Who waits
 * for it may be who keeps them: then nobody would ever give any back. Another thread might, so that it is waited for, but not each time. */
static bool make_room_beside_kept(struct feed *f, int naps)
{
    bool is_due = naps >= (f->is_cramped ? NAPS_IF_CRAMPED : WAITS_FOR_ROOM);
    if (!is_due || !f->is_consumer_waiting || f->ahead || !give_away_oldest(f, 0))
        return false;
    f->is_cramped = true;
    return true;
}

/* For a batch of variable lengths. Behind other batches it leaves a quarter of the budget to the workers, as batches of a fixed size do:
 * were all of it in batches that nobody can take yet, the first of them could not be finished. */
static bool take_room(struct feed *f, size_t bytes)
{
    pthread_mutex_lock(&f->lock);
    bool is_behind = f->ahead > 0;
    pthread_mutex_unlock(&f->lock);
    uint64_t limit = atomic_load_explicit(&f->budget->limit, memory_order_relaxed);
    return budget_take_above(f->budget, MEMORY_SLOTS, bytes, is_behind ? limit / 4 : 0);
}

bool slot_memory_make_room(struct feed *f, struct slot *s, size_t *most)
{
    size_t bytes = slot_rows_bytes(s, s->count), had = s->rows_capacity;
    *most = bytes > *most ? bytes : *most;
    if (bytes > had && *most > bytes && take_room(f, *most - had)) {
        bytes = *most; /* once and for all, if there is enough: fresh memory is cleared when it is touched */
    } else if (bytes > had) {
        for (int i = 0; !take_room(f, bytes - had); i++) {
            pthread_mutex_lock(&f->lock);
            slot_memory_drop_free(f); /* of other sizes; nobody else gives them back while this thread waits */
            bool comes_more = make_room_beside_kept(f, i) || f->ahead || f->held;
            pthread_mutex_unlock(&f->lock);
            bool is_hopeless = bytes > atomic_load(&f->budget->limit) || (!comes_more && i >= WAITS_FOR_ROOM);
            if (is_hopeless || atomic_load_explicit(&f->is_closing, memory_order_relaxed))
                return fail_slot(f, s, bytes);
            uint32_t seen = budget_seen(f->budget);
            crew_press(f, false);
            budget_wait(f->budget, seen, SLOT_MEMORY_NAP_NS);
        }
    }
    if (slot_prepare_rows(s, s->count, bytes))
        return true;
    budget_give(f->budget, MEMORY_SLOTS, bytes - s->rows_capacity);
    s->error = error_new();
    error_set_errno(s->error, "feed", ENOMEM, "allocate %zu bytes for a batch", bytes);
    return false;
}
