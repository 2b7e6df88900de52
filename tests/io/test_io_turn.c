/* Whose turn it is: the rest of a load that has begun goes before loads that have not. */
#include "io_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "io/io_queue.h"

#define CLOSE_NS UINT64_C(5000000000)

/* ---- the queue ---- */

enum { MOST = 64 };

static void take_and_compare(struct io_queue *q, const struct io_request *all, const int *want, int count)
{
    for (int i = 0; i < count; i++) {
        const struct io_request *r = io_queue_take(q);
        assert_non_null(r);
        assert_int_equal(r - all, want[i]);
    }
}

static void those_that_go_first_come_out_first_in_their_order(void **state)
{
    (void)state;
    struct io_request r[MOST] = {0};
    struct io_queue q = {0};
    r[2].goes_first = r[3].goes_first = r[5].goes_first = true;
    for (int i = 0; i < 6; i++)
        io_queue_add(&q, &r[i]);
    take_and_compare(&q, r, (int[]){2, 3, 5, 0, 1, 4}, 6);
    assert_null(io_queue_take(&q));
}

static void a_queue_that_ran_empty_begins_anew(void **state)
{
    (void)state;
    struct io_request r[MOST] = {0};
    struct io_queue q = {0};
    r[0].goes_first = r[3].goes_first = true;
    io_queue_add(&q, &r[0]);
    take_and_compare(&q, r, (int[]){0}, 1);
    for (int i = 1; i < 4; i++)
        io_queue_add(&q, &r[i]);
    take_and_compare(&q, r, (int[]){3, 1, 2}, 3);
    io_queue_add(&q, &r[0]);
    io_queue_add(&q, &r[1]);
    assert_ptr_equal(io_queue_take_all(&q), &r[0]);
    assert_null(io_queue_take(&q));
    io_queue_add(&q, &r[2]);
    take_and_compare(&q, r, (int[]){2}, 1);
}

/* Adding and taking in any order gives what two plain queues, the first one emptied first, would give. */
static void it_is_two_queues_in_one(void **state)
{
    (void)state;
    struct io_request r[MOST] = {0};
    int plain[2][MOST], from[2] = {0}, to[2] = {0};
    struct io_queue q = {0};
    unsigned seed = 7;
    for (int i = 0; i < MOST;) {
        seed = seed * 1103515245u + 12345u;
        int k = from[0] < to[0] ? 0 : 1;
        if (seed >> 16 & 1 && from[k] < to[k]) {
            take_and_compare(&q, r, &plain[k][from[k]++], 1);
            continue;
        }
        r[i].goes_first = seed >> 17 & 1;
        k = r[i].goes_first ? 0 : 1;
        plain[k][to[k]++] = i;
        io_queue_add(&q, &r[i++]);
    }
    for (int k = 0; k < 2; k++)
        take_and_compare(&q, r, &plain[k][from[k]], to[k] - from[k]);
}

/* ---- a device that is busy ---- */

enum { READS = 24, FIRST = 20 };

static _Atomic int finished;
static _Atomic int place_of[READS];

static void note_place(struct io_request *r)
{
    place_of[(intptr_t)r->owner] = ++finished;
}

static void a_load_that_has_begun_does_not_wait_behind_the_look_ahead(void **state)
{
    (void)state;
    struct folder folder;
    folder_make(&folder, NULL);
    file_write(&folder, "f", 5000);
    const int depth = 2;
    struct io *io = open_or_skip("slow:latency_us=20000,over=pread", (uint32_t)depth);
    struct call *c = calloc(READS, sizeof(*c));
    finished = 0;
    for (int i = 0; i < READS; i++) {
        call_init(&c[i], &folder, "f", 5000);
        c[i].r.owner = (void *)(intptr_t)i;
        c[i].r.done = note_place;
        c[i].r.goes_first = i >= FIRST;
        io->ops->submit(io, &c[i].r, false);
    }
    WAIT_FOR(finished == READS);
    for (int i = FIRST; i < READS; i++) /* behind those inside, and each other; never behind one that queued before them */
        assert_true(place_of[i] <= depth + (READS - FIRST));
    for (int i = 0; i < depth; i++)
        assert_true(place_of[i] <= depth);
    for (int i = 0; i < READS; i++)
        call_free(&c[i]);
    free(c);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
    folder_remove(&folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_that_go_first_come_out_first_in_their_order),
        cmocka_unit_test(a_queue_that_ran_empty_begins_anew),
        cmocka_unit_test(it_is_two_queues_in_one),
        cmocka_unit_test(a_load_that_has_begun_does_not_wait_behind_the_look_ahead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
