/* Neighbouring ranges become few reads, and everybody gets their own bytes. */
#include "../io_fixture.h"

#include <stdlib.h>
#include <string.h>

#define CLOSE_NS UINT64_C(5000000000)

enum { CALLS = 64, PIECE = 5000 };
static struct folder folder;

static int set_up(void **state)
{
    (void)state;
    folder_make(&folder, NULL);
    file_write(&folder, "f", 4 << 20);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

/* `stride` from one to the next, in an order that is not the file's; returns how many reads reached the file. */
static uint64_t read_all(const char *spec, uint64_t stride)
{
    struct io *io = open_or_skip(spec, 64);
    struct io_figures f;
    static struct call c[CALLS];
    for (int i = 0; i < CALLS; i++) {
        call_init(&c[i], &folder, "f", PIECE);
        c[i].r.offset = (uint64_t)((i / 8 * 8 + (i * 5) % 8) % CALLS) * stride; /* mixed by windows of eight */
        c[i].r.length = PIECE;
    }
    for (int i = 0; i < CALLS; i++)
        io->ops->submit(io, &c[i].r, false);
    for (int i = 0; i < CALLS; i++) {
        call_wait(&c[i]);
        assert_int_equal(c[i].r.status, 0);
        call_assert_bytes(&c[i], "f", c[i].r.offset, PIECE);
        call_free(&c[i]);
    }
    io->ops->figures(io, &f);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
    return f.reads;
}

static void neighbours_are_read_together_when_reads_are_slow(void **state)
{
    (void)state;
    assert_int_equal(read_all("slow:latency_us=5000,over=pread", PIECE), CALLS);
    assert_in_range(read_all("merge:lanes=1,over=slow:latency_us=5000,over=pread", PIECE), 1, 4);
    assert_in_range(read_all("merge:lanes=1,over=slow:latency_us=5000,over=pread", PIECE + 1500), 1, 4); /* labels between them */
}

static void a_read_is_never_longer_than_allowed(void **state)
{
    (void)state;
    assert_in_range(read_all("merge:lanes=1,most=20000,over=slow:latency_us=2000,over=pread", PIECE), CALLS / 4, CALLS);
}

static void what_lies_apart_is_read_alone(void **state)
{
    (void)state;
    assert_int_equal(read_all("merge:lanes=1,over=slow:latency_us=1000,over=pread", PIECE + (17 << 10)), CALLS);
}

static void a_range_behind_the_end_does_not_spoil_its_neighbours(void **state)
{
    (void)state;
    struct io *io = open_or_skip("merge:lanes=1,over=slow:latency_us=5000,over=pread", 64);
    static struct call c[4];
    for (int i = 0; i < 4; i++) {
        call_init(&c[i], &folder, "f", PIECE);
        c[i].r.offset = (4 << 20) - 2 * PIECE - 100 + (uint64_t)(i ? i - 1 : 0) * PIECE;
        c[i].r.length = PIECE;
        io->ops->submit(io, &c[i].r, false);
    }
    for (int i = 0; i < 4; i++) {
        call_wait(&c[i]);
        assert_int_equal(c[i].r.status, 0);
        call_assert_bytes(&c[i], "f", c[i].r.offset, i < 3 ? PIECE : 100);
        call_free(&c[i]);
    }
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void when_a_merged_read_fails_each_is_read_alone(void **state)
{
    (void)state;
    struct io *io = open_or_skip("merge:lanes=1,over=fault:error=EIO,every=2;over=slow:latency_us=3000,over=pread", 64);
    static struct call c[20];
    int good = 0;
    for (int i = 0; i < 20; i++) {
        call_init(&c[i], &folder, "f", PIECE);
        c[i].r.offset = (uint64_t)i * PIECE;
        c[i].r.length = PIECE;
        io->ops->submit(io, &c[i].r, false);
    }
    for (int i = 0; i < 20; i++) {
        call_wait(&c[i]);
        assert_int_equal(c[i].done_count, 1);
        if (c[i].r.status == 0)
            call_assert_bytes(&c[i], "f", c[i].r.offset, PIECE);
        else
            assert_int_not_equal(c[i].error.code, 0);
        good += c[i].r.status == 0;
        call_free(&c[i]);
    }
    assert_in_range(good, 5, 19);
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
}

static void closing_gives_everyone_back_once(void **state)
{
    (void)state;
    struct io *io = open_or_skip("merge:lanes=2,over=slow:latency_us=30000,over=pread", 64);
    static struct call c[CALLS];
    for (int i = 0; i < CALLS; i++) {
        call_init(&c[i], &folder, "f", PIECE);
        c[i].r.offset = (uint64_t)i * PIECE;
        c[i].r.length = PIECE;
        io->ops->submit(io, &c[i].r, false);
    }
    assert_int_equal(io->ops->close(io, CLOSE_NS), 0);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(c[i].done_count, 1);
        call_free(&c[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neighbours_are_read_together_when_reads_are_slow),
        cmocka_unit_test(a_read_is_never_longer_than_allowed),
        cmocka_unit_test(what_lies_apart_is_read_alone),
        cmocka_unit_test(a_range_behind_the_end_does_not_spoil_its_neighbours),
        cmocka_unit_test(when_a_merged_read_fails_each_is_read_alone),
        cmocka_unit_test(closing_gives_everyone_back_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
