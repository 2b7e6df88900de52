/* Thousands of requests from several threads at any depth: each is done exactly once, with the right bytes. */
#include "io_fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

enum { FILES = 40, THREADS = 4, PER_THREAD = 240, WINDOW = 24, AGAIN = 3, LARGEST = 400000 };
#define CLOSE_NS UINT64_C(5000000000)

static struct folder folder;
static char names[FILES][16];
static uint64_t sizes[FILES];

static int make_files(void **state)
{
    (void)state;
    struct rng rng = rng_stream(RNG_ORDER, 11, 0, 0, 0);
    folder_make(&folder, NULL);
    for (int i = 0; i < FILES; i++) {
        snprintf(names[i], sizeof(names[i]), "s%d", i);
        sizes[i] = rng_below(&rng, i % 8 == 0 ? LARGEST : 20000);
        file_write(&folder, names[i], sizes[i]);
    }
    return 0;
}

static int remove_files(void **state)
{
    (void)state;
    folder_remove(&folder);
    return 0;
}

struct storm {
    struct io *io;
    _Atomic int answers, wrong;
    uint64_t seed;
};

struct submitter {
    struct storm *storm;
    int number;
    _Atomic int open_items;
    struct item *items;
};

/* A request that asks for something else each time it is done, AGAIN times, from inside done. */
struct item {
    struct io_request r;
    struct fb_error error;
    struct rng rng;
    int file, left;
    struct submitter *by;
};

static void ask(struct item *t, bool more)
{
    t->file = (int)rng_below(&t->rng, FILES + 1);
    bool is_missing = t->file == FILES;
    t->r.path = is_missing ? "missing" : names[t->file];
    t->r.expected_size = is_missing ? 5 : sizes[t->file];
    t->r.length = IO_WHOLE;
    t->r.offset = 0;
    if (!is_missing && rng_below(&t->rng, 3) == 0) {
        t->r.offset = rng_below(&t->rng, sizes[t->file] + 1);
        t->r.length = rng_below(&t->rng, sizes[t->file] - t->r.offset + 1);
    }
    error_clear(&t->error);
    t->by->storm->io->ops->submit(t->by->storm->io, &t->r, more);
}

static bool is_right(const struct item *t)
{
    if (t->file == FILES)
        return t->r.status == FB_E_NOT_FOUND && t->error.code == FB_E_NOT_FOUND;
    uint64_t bytes = t->r.length == IO_WHOLE ? sizes[t->file] : t->r.length;
    if (t->r.status != 0 || t->r.got != bytes || t->r.object_size != sizes[t->file])
        return false;
    uint64_t step = bytes / 97 + 1;
    for (uint64_t i = 0; i < bytes; i += step)
        if (t->r.buffer[i] != file_byte(names[t->file], t->r.offset + i))
            return false;
    return bytes == 0 || t->r.buffer[bytes - 1] == file_byte(names[t->file], t->r.offset + bytes - 1);
}

static void answer(struct io_request *r)
{
    struct item *t = r->owner;
    struct storm *storm = t->by->storm;
    storm->answers++;
    if (t->left <= 0 || !is_right(t)) /* nothing left: done once too often */
        storm->wrong++;
    memset(r->buffer, 0, r->got);
    if (--t->left > 0)
        ask(t, false);
    else
        t->by->open_items--;
}

static void *submit_all(void *arg)
{
    struct submitter *s = arg;
    for (int n = 0; n < PER_THREAD; n += WINDOW) {
        s->open_items = WINDOW;
        for (int i = 0; i < WINDOW; i++) {
            struct item *t = &s->items[i];
            t->left = AGAIN;
            t->rng = rng_stream(RNG_ORDER, s->storm->seed, (uint64_t)s->number, (uint64_t)(n + i), 0);
            ask(t, i + 1 < WINDOW);
        }
        for (int ms = 0; s->open_items > 0 && ms < 30000; ms++)
            pause_1ms();
        if (s->open_items > 0)
            return s; /* lost */
    }
    return NULL;
}

static void prepare(struct submitter *s, struct storm *storm, int number)
{
    *s = (struct submitter){.storm = storm, .number = number, .items = calloc(WINDOW, sizeof(struct item))};
    for (int i = 0; i < WINDOW; i++) {
        s->items[i].by = s;
        s->items[i].r = (struct io_request){
            .dir_fd = folder.fd,
            .buffer = malloc(LARGEST + IO_TAIL),
            .capacity = LARGEST + IO_TAIL,
            .done = answer,
            .owner = &s->items[i],
            .error = &s->items[i].error,
        };
    }
}

static void run_storm(const char *spec, uint32_t depth)
{
    int files_before = count_open_files();
    struct storm storm = {.io = open_or_skip(spec, depth), .seed = depth};
    if (!storm.io)
        skip();
    struct submitter by[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        prepare(&by[i], &storm, i);
        assert_int_equal(pthread_create(&threads[i], NULL, submit_all, &by[i]), 0);
    }
    int lost = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        lost += result != NULL;
    }
    assert_int_equal(lost, 0);
    struct io_figures f;
    storm.io->ops->figures(storm.io, &f);
    assert_int_equal(storm.io->ops->close(storm.io, CLOSE_NS), 0);
    assert_int_equal(count_open_files(), files_before);
    int expected = THREADS * PER_THREAD * AGAIN;
    assert_int_equal(storm.wrong, 0);
    assert_int_equal(storm.answers, expected);
    if (strncmp(spec, "merge", 5) != 0) /* which reads several at once */
        assert_int_equal(f.reads, expected);
    assert_int_equal(f.in_flight, 0);
    assert_true(f.in_flight_peak > 1 && f.in_flight_peak <= THREADS * WINDOW);
    for (int i = 0; i < THREADS; i++) {
        for (int k = 0; k < WINDOW; k++)
            free(by[i].items[k].r.buffer);
        free(by[i].items);
    }
}

static void every_request_is_done_once_with_its_bytes(void **state)
{
    static const uint32_t depths[] = {1, 2, 7, 33, 200};
    for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
        run_storm(*state, depths[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FOR_EACH_READER(every_request_is_done_once_with_its_bytes)};
    return cmocka_run_group_tests_name("io_storm", tests, make_files, remove_files);
}
