/* The emulated device: it takes the time it states, reads late, and notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/budget.h"
#include "base/clock.h"
#include "device/emulated.h"

enum { BYTES = 1 << 20 };

static struct device *open_or_fail(const char *spec)
{
    struct fb_error e = {0};
    struct device *d;
    if (device_open(&d, spec, &e) < 0)
        fail_msg("%s", e.cause);
    return d;
}

static void a_spec_says_rate_latency_and_memory(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        double bytes_per_ns;
        uint64_t latency_ns, memory;
    } good[] = {
        {"emulated", 12, 20000, 0},
        {"emulated:", 12, 20000, 0},
        {"emulated:1GB/s", 1, 20000, 0},
        {"emulated:500MB/s,1.5ms", 0.5, 1500000, 0},
        {"emulated:2GB/s,0ns,64MiB", 2, 0, 64 << 20},
        {"emulated:2GB/s,1s,1GB", 2, 1000000000, 1000000000},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct device *d = open_or_fail(good[i].spec);
        const struct emulated *m = (const struct emulated *)d;
        assert_true(m->bytes_per_ns == good[i].bytes_per_ns);
        assert_int_equal(m->latency_ns, good[i].latency_ns);
        assert_int_equal(m->memory_limit, good[i].memory);
        d->ops->close(d);
    }
    static const char *const bad[] = {
        "emulated:12",
        "emulated:12GB",
        "emulated:0GB/s",
        "emulated:-1GB/s",
        "emulated:/s",
        "emulated:12GB/s,20",
        "emulated:12GB/s,-1us",
        "emulated:12GB/s,2h",
        "emulated:12GB/s,20us,much",
        "emulated:12GB/s,20us,1GB,more",
        "emulated:12GB/s,,",
        "emulated:nanGB/s",
        "emulated:12GB/s,1e9s",
        ("emulated:11111111111111111111111111111111111111111111111111111111111111111"
         "1111111111111111111111111111111111111111111111111111111111111111GB/s"),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fb_error e = {0};
        struct device *d;
        assert_int_equal(device_open(&d, bad[i], &e), FB_E_USAGE);
        assert_null(d);
        assert_non_null(strstr(e.remedy, "emulated:12GB/s,20us"));
    }
}

static void a_device_that_is_not_there_is_named_with_those_that_are(void **state)
{
    (void)state;
    static const char *const names[] = {"", "gpu", "cud", "cudas:0", "emulate:1GB/s", "cuda0"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct fb_error e = {0};
        struct device *d;
        assert_int_equal(device_open(&d, names[i], &e), FB_E_USAGE);
        assert_non_null(strstr(e.remedy, "cuda:N"));
    }
}

struct fixture {
    struct device *d;
    char *host;
    uintptr_t memory;
    struct device_event *event;
};

static struct fixture set_up(const char *spec)
{
    struct fb_error e = {0};
    struct fixture x = {.d = open_or_fail(spec), .host = memory_map(BYTES)};
    for (size_t i = 0; i < BYTES; i++)
        x.host[i] = (char)(i * 31 % 251);
    assert_int_equal(x.d->ops->pin(x.d, x.host, BYTES, &e), 0);
    assert_int_equal(x.d->ops->take(x.d, BYTES, &x.memory, &e), 0);
    assert_int_equal(x.d->ops->event_new(x.d, &x.event, &e), 0);
    return x;
}

static void tear_down(struct fixture *x)
{
    struct device_figures f;
    x->d->ops->event_free(x->d, x->event);
    x->d->ops->give(x->d, x->memory, BYTES);
    x->d->ops->unpin(x->d, x->host, BYTES);
    x->d->ops->figures(x->d, &f);
    assert_int_equal(f.memory_bytes, 0);
    assert_int_equal(f.pinned_bytes, 0);
    x->d->ops->close(x->d);
    memory_unmap(x->host, BYTES);
}

static void a_copy_takes_latency_and_bytes_by_rate(void **state)
{
    (void)state;
    struct fixture x = set_up("emulated:10MB/s,5ms"); /* 105 ms for the bytes */
    struct fb_error e = {0};
    assert_int_equal(x.d->ops->query(x.d, x.event, &e), 1); /* never recorded */
    uint64_t since = clock_now_ns();
    for (int i = 0; i < 3; i++)
        assert_int_equal(x.d->ops->copy(x.d, x.memory, x.host, BYTES, &e), 0);
    assert_true(clock_now_ns() - since < 150000000); /* queued, not done */
    assert_int_equal(x.d->ops->record(x.d, x.event, DEVICE_COPY_STREAM, &e), 0);
    assert_int_equal(x.d->ops->query(x.d, x.event, &e), 0);
    assert_int_equal(x.d->ops->wait(x.d, x.event, 0, &e), 0);
    uint64_t took = clock_now_ns() - since;
    assert_true(took >= 5000000 + 3 * 104000000ull); /* one after the other; only the first latency shows */
    assert_int_equal(x.d->ops->query(x.d, x.event, &e), 1);
    assert_memory_equal((void *)x.memory, x.host, BYTES);
    tear_down(&x);
}

static void a_source_that_changes_too_early_is_noticed(void **state)
{
    (void)state;
    for (size_t at = 0; at < BYTES; at += BYTES - 1) { /* the first byte, the last */
        struct fixture x = set_up("emulated:100MB/s,5ms");
        struct fb_error e = {0};
        assert_int_equal(x.d->ops->copy(x.d, x.memory, x.host, BYTES, &e), 0);
        assert_int_equal(x.d->ops->record(x.d, x.event, DEVICE_COPY_STREAM, &e), 0);
        x.host[at]++;
        assert_int_equal(x.d->ops->wait(x.d, x.event, 0, &e), FB_E_DATA);
        assert_non_null(strstr(e.cause, "still reading"));
        assert_int_equal(x.d->ops->query(x.d, x.event, NULL), FB_E_DATA); /* from then on nothing is right */
        assert_int_equal(emulated_settle(x.d, NULL), FB_E_DATA);
        tear_down(&x);
    }
}

static void a_source_that_changes_afterwards_is_fine(void **state)
{
    (void)state;
    struct fixture x = set_up("emulated:1GB/s,1ms");
    struct fb_error e = {0};
    for (int i = 0; i < 5; i++) {
        memset(x.host, i, BYTES);
        assert_int_equal(x.d->ops->copy(x.d, x.memory, x.host, BYTES, &e), 0);
        assert_int_equal(x.d->ops->record(x.d, x.event, DEVICE_COPY_STREAM, &e), 0);
        assert_int_equal(x.d->ops->wait(x.d, x.event, 0, &e), 0);
        assert_memory_equal((void *)x.memory, x.host, BYTES);
    }
    tear_down(&x);
}

/* A kernel, and a second copy over what it uses: before it has ended, or after. What the device says to that. */
static int copy_over_a_kernel(bool is_early)
{
    struct fixture x = set_up("emulated:1GB/s,50ms"); /* so that the kernel has begun before the second copy is over */
    struct fb_error e = {0};
    struct device_event *used;
    assert_int_equal(x.d->ops->event_new(x.d, &used, &e), 0);
    assert_int_equal(x.d->ops->copy(x.d, x.memory, x.host, BYTES, &e), 0);
    assert_int_equal(x.d->ops->record(x.d, x.event, DEVICE_COPY_STREAM, &e), 0);
    assert_int_equal(x.d->ops->wait(x.d, x.event, 3, &e), 0); /* never blocks */
    assert_int_equal(emulated_kernel(x.d, 3, (void *)x.memory, BYTES, 400000000, &e), 0);
    assert_int_equal(x.d->ops->record(x.d, used, 3, &e), 0);
    assert_int_equal(x.d->ops->query(x.d, used, &e), 0);
    if (!is_early)
        assert_int_equal(x.d->ops->wait(x.d, used, 0, &e), 0);
    char *other = malloc(BYTES);
    memset(other, 7, BYTES);
    assert_int_equal(x.d->ops->copy(x.d, x.memory, other, BYTES, &e), 0);
    int rc = emulated_settle(x.d, &e);
    free(other);
    x.d->ops->event_free(x.d, used);
    tear_down(&x);
    return rc;
}

static void a_kernel_waits_for_the_copy_and_notices_what_comes_over_it(void **state)
{
    (void)state;
    assert_int_equal(copy_over_a_kernel(false), 0);
    int rc = 0;
    for (int i = 0; rc == 0 && i < 10; i++) /* on a busy machine it may begin only when both copies are over */
        rc = copy_over_a_kernel(true);
    assert_int_equal(rc, FB_E_DATA);
}

static void memory_has_a_limit(void **state)
{
    (void)state;
    struct device *d = open_or_fail("emulated:1GB/s,1us,1MB");
    struct fb_error e = {0};
    uintptr_t a, b;
    assert_int_equal(d->ops->take(d, 600000, &a, &e), 0);
    assert_int_equal(d->ops->take(d, 600000, &b, &e), FB_E_NOMEM);
    assert_non_null(strstr(e.cause, "600000"));
    d->ops->give(d, a, 600000);
    assert_int_equal(d->ops->take(d, 600000, &a, &e), 0);
    d->ops->give(d, a, 600000);
    d->ops->close(d);
}

static void streams_that_are_not_there_are_refused(void **state)
{
    (void)state;
    struct fixture x = set_up("emulated");
    static const uintptr_t bad[] = {8, 9, 1000, UINTPTR_MAX - 1};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fb_error e = {0};
        assert_int_equal(x.d->ops->record(x.d, x.event, bad[i], &e), FB_E_USAGE);
        assert_int_equal(x.d->ops->wait(x.d, x.event, bad[i], NULL), FB_E_USAGE);
        assert_int_equal(emulated_read(x.d, bad[i], x.host, BYTES, NULL), FB_E_USAGE);
    }
    tear_down(&x);
}

static void closing_does_not_wait_for_what_is_queued(void **state)
{
    (void)state;
    struct fixture x = set_up("emulated:1MB/s,10s");
    struct fb_error e = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(x.d->ops->copy(x.d, x.memory, x.host, BYTES, &e), 0);
    assert_int_equal(emulated_kernel(x.d, 1, x.host, BYTES, 10000000000ull, &e), 0);
    uint64_t since = clock_now_ns();
    tear_down(&x);
    assert_true(clock_now_ns() - since < 500000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spec_says_rate_latency_and_memory),
        cmocka_unit_test(a_device_that_is_not_there_is_named_with_those_that_are),
        cmocka_unit_test(a_copy_takes_latency_and_bytes_by_rate),
        cmocka_unit_test(a_source_that_changes_too_early_is_noticed),
        cmocka_unit_test(a_source_that_changes_afterwards_is_fine),
        cmocka_unit_test(a_kernel_waits_for_the_copy_and_notices_what_comes_over_it),
        cmocka_unit_test(memory_has_a_limit),
        cmocka_unit_test(streams_that_are_not_there_are_refused),
        cmocka_unit_test(closing_does_not_wait_for_what_is_queued),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
