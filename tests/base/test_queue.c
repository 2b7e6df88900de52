/* The queue between threads: order, closing, deadlines, and every item exactly once. */
#include "base/queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"

enum { PUTTERS = 4, TAKERS = 4, EACH = 5000 };

struct letter {
    struct queue_item item;
    int from, number, read_times;
};

struct post {
    struct queue queue;
    struct letter letter[PUTTERS][EACH];
};

struct party {
    struct post *post;
    int me;
    pthread_t thread;
    int taken, out_of_order;
};

static void items_come_out_in_the_order_they_went_in(void **state)
{
    (void)state;
    struct queue q;
    struct letter l[5] = {0};
    queue_init(&q);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 5; i++)
            queue_put(&q, &l[i].item);
        assert_int_equal(q.count, 5);
        for (int i = 0; i < 5; i++)
            assert_ptr_equal(queue_take(&q), &l[i]);
        assert_int_equal(q.count, 0);
    }
    queue_destroy(&q);
}

static void a_deadline_ends_the_wait_and_one_that_is_past_takes_what_is_there(void **state)
{
    (void)state;
    struct queue q;
    struct letter l = {0};
    queue_init(&q);
    uint64_t until = clock_now_ns() + 5000000;
    assert_null(queue_take_until(&q, until));
    assert_true(clock_now_ns() >= until);
    assert_null(queue_take_until(&q, 0));
    queue_put(&q, &l.item);
    assert_ptr_equal(queue_take_until(&q, 0), &l);
    queue_destroy(&q);
}

static void a_closed_queue_gives_what_it_has_and_then_nothing(void **state)
{
    (void)state;
    struct queue q;
    struct letter l[2] = {0};
    queue_init(&q);
    queue_put(&q, &l[0].item);
    queue_put(&q, &l[1].item);
    queue_close(&q);
    assert_ptr_equal(queue_take(&q), &l[0]);
    assert_ptr_equal(queue_take_until(&q, 0), &l[1]);
    assert_null(queue_take(&q));
    assert_null(queue_take_until(&q, clock_now_ns() + UINT64_C(3600000000000)));
    queue_destroy(&q);
}

/* ---- with threads ---- */

static void *put_all(void *arg)
{
    struct party *p = arg;
    for (int i = 0; i < EACH; i++) {
        p->post->letter[p->me][i] = (struct letter){.from = p->me, .number = i};
        queue_put(&p->post->queue, &p->post->letter[p->me][i].item);
    }
    return NULL;
}

/* Even ones wait as long as it takes, odd ones look again and again. */
static struct letter *take_one(struct party *p)
{
    struct letter *l = NULL;
    if (p->me % 2 == 0)
        return queue_take(&p->post->queue);
    for (int tries = 0; !l && tries < 100; tries++)
        l = queue_take_until(&p->post->queue, clock_now_ns() + 100000);
    return l ? l : queue_take(&p->post->queue);
}

static void *take_all(void *arg)
{
    struct party *p = arg;
    int last[PUTTERS] = {-1, -1, -1, -1};
    for (struct letter *l; (l = take_one(p)); p->taken++) {
        p->out_of_order += l->number <= last[l->from];
        last[l->from] = l->number;
        l->read_times++; /* unprotected on purpose: it is the taker's now */
    }
    return NULL;
}

static void exchange(int takers)
{
    struct post *post = calloc(1, sizeof(*post));
    struct party putter[PUTTERS], taker[TAKERS];
    int taken = 0;
    queue_init(&post->queue);
    for (int i = 0; i < takers; i++) {
        taker[i] = (struct party){.post = post, .me = i};
        assert_int_equal(pthread_create(&taker[i].thread, NULL, take_all, &taker[i]), 0);
    }
    for (int i = 0; i < PUTTERS; i++) {
        putter[i] = (struct party){.post = post, .me = i};
        assert_int_equal(pthread_create(&putter[i].thread, NULL, put_all, &putter[i]), 0);
    }
    for (int i = 0; i < PUTTERS; i++)
        pthread_join(putter[i].thread, NULL);
    queue_close(&post->queue);
    for (int i = 0; i < takers; i++) {
        pthread_join(taker[i].thread, NULL);
        taken += taker[i].taken;
        assert_int_equal(taker[i].out_of_order, 0);
    }
    assert_int_equal(taken, PUTTERS * EACH);
    for (int i = 0; i < PUTTERS * EACH; i++)
        assert_int_equal(post->letter[i / EACH][i % EACH].read_times, 1);
    queue_destroy(&post->queue);
    free(post);
}

static void every_item_is_taken_once_and_those_of_a_putter_in_their_order(void **state)
{
    (void)state;
    exchange(1);
    exchange(TAKERS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_come_out_in_the_order_they_went_in),
        cmocka_unit_test(a_deadline_ends_the_wait_and_one_that_is_past_takes_what_is_there),
        cmocka_unit_test(a_closed_queue_gives_what_it_has_and_then_nothing),
        cmocka_unit_test(every_item_is_taken_once_and_those_of_a_putter_in_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
