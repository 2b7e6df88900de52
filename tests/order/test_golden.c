/* The order that is written down in golden_order.txt comes out of every version. A line is a question and its answer:
 *
 *     order N SEED EPOCH: the samples at positions 0..15, and a digest of the whole epoch
 *     window N SEED EPOCH BLOCK BLOCKS: the same, shuffled by windows
 *     redraw N SEED EPOCH POSITION: stand-ins 1..8
 *     rank N BATCH WORLD START SKIPFROM SKIPTO: for batch 1 of each rank, first position, count and end
 *     state SEED EPOCH POSITION FINGERPRINT: a state that an earlier version saved, which must be read as these
 *
 * A version that fails here would train on another order after an update, and go on from a saved state with other samples: the file may
 * grow, but no line of it may ever change. FB_GOLDEN=1 prints the answers of this build.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "order/ranks/ranks.h"
#include "order/state/state.h"
#include "order/order_window.h"

static const char *file_name;

static void answer_order(const struct order *o, char *out, size_t out_size)
{
    int n = 0;
    uint64_t digest = 0;
    for (uint64_t i = 0; i < 16 && i < o->count; i++)
        n += snprintf(out + n, out_size - (size_t)n, " %" PRIu64, order_at(o, i));
    for (uint64_t i = 0; i < o->count && i < 200000; i++)
        digest = rng_mix(digest, order_at(o, i));
    snprintf(out + n, out_size - (size_t)n, " %016" PRIx64, digest);
}

static void answer_redraw(const struct order *o, uint64_t position, char *out, size_t out_size)
{
    int n = 0;
    for (uint32_t i = 1; i <= 8; i++)
        n += snprintf(out + n, out_size - (size_t)n, " %" PRIu64, order_redraw(o, position, i));
}

static void answer_ranks(const uint64_t *v, char *out, size_t out_size)
{
    struct rank_layout l = {.count = v[0], .global_batch = v[1], .world = (uint32_t)v[2]};
    struct skips s = {0};
    int n = 0;
    assert_true(l.world <= 16); /* a line has so much room */
    skips_add(&s, v[4], v[5], 0);
    for (l.rank = 0; l.rank < l.world; l.rank++) {
        struct batch_span span = ranks_batch_left(&l, &s, v[3], 1);
        n += snprintf(out + n, out_size - (size_t)n, " %" PRIu64 ",%" PRIu64 ",%" PRIu64, skips_position(&s, span.first), span.count,
                      span.end);
    }
}

/* What an earlier version saved is read, and says the same. */
static void check_state(const char *line, const char *json)
{
    uint64_t v[4], version;
    uint32_t faults;
    struct state s;
    struct fb_error e = {0};
    assert_int_equal(sscanf(line, "state %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &v[0], &v[1], &v[2], &v[3]), 4);
    if (state_read(&s, json, &version, &faults, &e) < 0 || faults)
        fail_msg("%s: %s, faults %u", json, e.cause, faults);
    assert_true(s.seed == v[0] && s.epoch == v[1] && s.position == v[2] && s.origin.fingerprint == v[3]);
}

/* The answer to the question at the beginning of a line; numbers follow its first word. */
static void answer(const char *line, char *out, size_t out_size)
{
    char word[16];
    uint64_t v[6] = {0};
    struct order o;
    assert_true(sscanf(line, "%15s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, word, &v[0], &v[1], &v[2], &v[3],
                       &v[4], &v[5]) > 3);
    order_init(&o, v[0], v[1], v[2], true, NULL);
    if (strcmp(word, "window") == 0)
        order_use_window(&o, v[3], v[4]);
    if (strcmp(word, "redraw") == 0)
        answer_redraw(&o, v[3], out, out_size);
    else if (strcmp(word, "rank") == 0)
        answer_ranks(v, out, out_size);
    else
        answer_order(&o, out, out_size);
}

static void the_order_that_was_written_down_is_the_order_still(void **state)
{
    (void)state;
    char line[2000], got[2000];
    int count = 0;
    FILE *f = fopen(file_name, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        line[strcspn(line, "\n")] = 0;
        char *colon = strchr(line, ':');
        if (line[0] == '#' || !colon)
            continue;
        if (strncmp(line, "state ", 6) == 0) {
            check_state(line, colon + 1);
            continue;
        }
        answer(line, got, sizeof(got));
        if (getenv("FB_GOLDEN"))
            print_message("%.*s:%s\n", (int)(colon - line), line, got);
        else if (strcmp(colon + 1, got) != 0)
            fail_msg("%.*s: was%s, is%s", (int)(colon - line), line, colon + 1, got);
        count++;
    }
    fclose(f);
    assert_true(count >= 20);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_that_was_written_down_is_the_order_still),
    };
    file_name = argc > 1 ? argv[1] : "golden_order.txt";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
