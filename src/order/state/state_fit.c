/* Does a state fit this loader, and if not, in what? The fingerprint, the seed and the kind of order decide; everything else is there to
 * name the difference, and to say what going on regardless would mean. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "order/state/state.h"

enum { KNOWS_ORIGIN = 2 /* from this version on */ };

uint32_t state_compare(const struct state *there, uint64_t version, const struct state *here)
{
    uint32_t faults = 0;
    if (there->seed != here->seed)
        faults |= STATE_OTHER_SEED;
    if (there->origin.fingerprint != here->origin.fingerprint)
        faults |= STATE_OTHER_DATA;
    const struct data_identity *a = &there->origin, *b = &here->origin;
    bool is_other_window = a->order == ORDER_WINDOW && (a->block != b->block || a->window != b->window);
    if (version == KNOWS_ORIGIN && (a->order != b->order || is_other_window))
        faults |= STATE_OTHER_ORDER;
    bool is_open_ended = here->origin.order == ORDER_GIVEN; /* how long such an epoch is nobody knows beforehand */
    if (!is_open_ended && (there->position > here->origin.samples || !skips_are_sound(&there->skips, here->origin.samples)))
        faults |= STATE_BEYOND;
    return faults;
}

/* ---- what differs ---- */

static void tell_data(const struct state *there, uint64_t version, const struct state *here, struct text *t)
{
    const struct data_identity *a = &there->origin, *b = &here->origin;
    if (version != KNOWS_ORIGIN)
        text_printf(t, "another data set or selection (fingerprint %016" PRIx64 " there, %016" PRIx64 " here)", a->fingerprint,
                    b->fingerprint);
    else if (a->data_fingerprint == b->data_fingerprint)
        text_printf(t, "not another data set, but another selection of it (%" PRIu64 " of its %" PRIu64 " samples there, %" PRIu64 " here)",
                    a->samples, a->data_samples, b->samples);
    else if (a->data_samples != b->data_samples)
        text_printf(t, "another data set (%" PRIu64 " samples there, %" PRIu64 " here)", a->data_samples, b->data_samples);
    else if (a->samples != b->samples)
        text_printf(t, "another data set (its classes: %" PRIu64 " samples selected there, %" PRIu64 " here)", a->samples, b->samples);
    else if (a->keys != b->keys)
        text_printf(t, "another data set (the same number of samples, but other names)");
    else if (a->labels != b->labels)
        text_printf(t, "another data set (the same names, but other labels)");
    else
        text_printf(t, "another data set (the same number of samples; a few names or labels differ, none of those compared)");
}

static void begin_clause(struct text *t)
{
    if (t->length)
        text_printf(t, "; ");
}

/* One clause for each difference. */
static void tell(uint32_t faults, const struct state *there, uint64_t version, const struct state *here, struct text *t)
{
    if (faults & STATE_OTHER_VERSION)
        text_printf(t, "the state has version %" PRIu64 ", this fullbore knows versions 1 and 2", version);
    if (faults & STATE_CHANGED) {
        begin_clause(t);
        text_printf(t, "the state was changed after it was saved: its checksum does not match");
    }
    if (faults & STATE_OTHER_SEED) {
        begin_clause(t);
        text_printf(t, "the state was made with seed %" PRIu64 ", this loader has seed %" PRIu64, there->seed, here->seed);
    }
    if (faults & STATE_OTHER_ORDER) {
        begin_clause(t);
        text_printf(t, "the state's order is %s, this loader's is %s", order_kind_name(there->origin.order),
                    order_kind_name(here->origin.order));
        if (there->origin.order == ORDER_WINDOW && here->origin.order == ORDER_WINDOW)
            text_printf(t, " of another size (%" PRIu64 " blocks of %" PRIu64 " samples there, %" PRIu64 " of %" PRIu64 " here)",
                        there->origin.window, there->origin.block, here->origin.window, here->origin.block);
    }
    if (faults & STATE_OTHER_DATA) {
        begin_clause(t);
        text_printf(t, "the state belongs to ");
        tell_data(there, version, here, t);
    }
    if ((faults & STATE_BEYOND) && !(faults & STATE_OTHER_DATA)) {
        begin_clause(t);
        text_printf(t, "the state's position %" PRIu64 " or what it skips lies beyond the %" PRIu64 " samples of an epoch", there->position,
                    here->origin.samples);
    }
}

static const char *remedy_for(uint32_t faults)
{
    if (faults & STATE_OTHER_VERSION)
        return "use the fullbore that saved it, or a newer one";
    if (faults & STATE_CHANGED)
        return "pass the value that state_dict() returned, unchanged; to move on use skip(n)";
    if (faults & STATE_OTHER_SEED)
        return "open the loader with the state's seed=; force=True goes on in the other order";
    if (faults & STATE_OTHER_ORDER)
        return "keep shuffle=, weights= and sampler= as they were; force=True goes on in the other order";
    return "open the same files with the same labels and selection; moving or packing them is fine; force=True goes on with these";
}

int state_refuse(uint32_t faults, const struct state *there, uint64_t version, const struct state *here, struct fb_error *e)
{
    struct text t = {.limit = sizeof(e->cause) - 1};
    tell(faults, there, version, here, &t);
    error_set(e, FB_E_STATE, "order", "%s", t.data ? t.data : "the state does not fit this loader");
    error_remedy(e, "%s", remedy_for(faults));
    text_free(&t);
    return FB_E_STATE;
}

/* ---- what it means ---- */

void state_consequence(uint32_t faults, const struct state *there, uint64_t version, const struct state *here, char *out, size_t out_size)
{
    struct text t = {.limit = out_size};
    bool is_other_order = faults & (STATE_OTHER_SEED | STATE_OTHER_ORDER | STATE_OTHER_DATA);
    tell(faults, there, version, here, &t);
    text_printf(&t, "; force: ");
    if (faults & STATE_BEYOND)
        text_printf(&t, "going on with the epoch after %" PRIu64, there->epoch);
    else
        text_printf(&t, "going on at position %" PRIu64 " of epoch %" PRIu64, there->position, there->epoch);
    if (is_other_order && !(faults & STATE_BEYOND))
        text_printf(&t, " in this loader's own order: the rest of that epoch shows some samples again and leaves others out; from the next"
                        " epoch on, each sample comes once");
    else if (faults & (STATE_CHANGED | STATE_OTHER_VERSION))
        text_printf(&t, ", as the state says: samples may be repeated or left out, and nobody can tell which");
    snprintf(out, out_size, "%s", t.data ? t.data : "force: going on regardless");
    text_free(&t);
}
