/* The CUDA device against a stand-in for the driver's library: every call, and every way in which it can fail. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/budget.h"
#include "device/cuda_driver.h"
#include "device/device.h"

enum { BYTES = 3 * 4096 };

static const char *library_path;
static const char *(*complaints)(void);
static int (*calls_of)(const char *name);
static int (*live)(void);
static void (*reset)(void);

static const char *const names[] = {
#define NAME(member, name, arguments) name,
    CUDA_CALLS(NAME)
#undef NAME
};
enum { CALLS = sizeof(names) / sizeof(names[0]) };

static const int codes[] = {CUDA_INVALID_VALUE,     CUDA_OUT_OF_MEMORY,
                            CUDA_NOT_INITIALIZED,   CUDA_DEINITIALIZED,
                            CUDA_STUB_LIBRARY,      CUDA_NO_DEVICE,
                            CUDA_INVALID_DEVICE,    CUDA_INVALID_CONTEXT,
                            CUDA_CONTEXT_DESTROYED, CUDA_ILLEGAL_ADDRESS,
                            CUDA_NOT_SUPPORTED,     CUDA_SYSTEM_DRIVER_MISMATCH,
                            CUDA_UNKNOWN,           12345};

/* ---- before the library is there: the first tests ---- */

static void a_machine_without_a_driver_is_told_so(void **state)
{
    (void)state;
    struct fb_error e = {0};
    struct device *d;
    setenv("FULLBORE_CUDA", "/nowhere/libcuda.so.1", 1);
    assert_int_equal(device_open(&d, "cuda:0", &e), FB_E_UNSUPPORTED);
    assert_null(d);
    assert_non_null(strstr(e.cause, "no CUDA driver"));
    assert_non_null(strstr(e.remedy, "NVIDIA driver"));
}

static void a_library_without_the_functions_is_too_old(void **state)
{
    (void)state;
    struct fb_error e = {0};
    struct device *d;
    setenv("FULLBORE_CUDA", "libm.so.6", 1);
    assert_int_equal(device_open(&d, "cuda", &e), FB_E_UNSUPPORTED);
    assert_non_null(strstr(e.cause, "no function cuInit"));
    setenv("FULLBORE_CUDA", library_path, 1);
}

/* ---- with it ---- */

static void begin(const char *plan)
{
    reset();
    setenv("FAKE_CUDA", plan, 1);
    unsetenv("FAKE_CUDA_COUNT");
    unsetenv("FAKE_CUDA_LATE");
}

/* Everything that is done with a device, in order; the first failure, and 0 for none. What was made is taken down whatever fails. */
struct journey {
    struct device *d;
    uintptr_t memory;
    struct device_event *event;
    bool is_pinned;
};

static int travel(struct journey *j, char *host, struct fb_error *e)
{
    FB_TRY(device_open(&j->d, "cuda:0", e));
    const struct device_ops *o = j->d->ops;
    FB_TRY(o->pin(j->d, host, BYTES, e));
    j->is_pinned = true;
    FB_TRY(o->take(j->d, BYTES, &j->memory, e));
    FB_TRY(o->event_new(j->d, &j->event, e));
    FB_TRY(o->copy(j->d, j->memory, host, BYTES, e));
    FB_TRY(o->record(j->d, j->event, DEVICE_COPY_STREAM, e));
    FB_TRY(o->wait(j->d, j->event, 77, e)); /* a stream of the program's */
    FB_TRY(o->record(j->d, j->event, 77, e));
    int rc;
    while ((rc = o->query(j->d, j->event, e)) == 0)
        ;
    return rc < 0 ? rc : 0;
}

static void go_home(struct journey *j, char *host)
{
    if (!j->d)
        return;
    const struct device_ops *o = j->d->ops;
    if (j->event)
        o->event_free(j->d, j->event);
    if (j->memory)
        o->give(j->d, j->memory, BYTES);
    if (j->is_pinned)
        o->unpin(j->d, host, BYTES);
    o->close(j->d);
}

static void a_copy_goes_there_and_every_call_is_made(void **state)
{
    (void)state;
    begin("");
    setenv("FAKE_CUDA_LATE", "3", 1);
    char *host = memory_map(BYTES);
    memset(host, 5, BYTES);
    struct journey j = {0};
    struct fb_error e = {0};
    assert_int_equal(travel(&j, host, &e), 0);
    assert_memory_equal((void *)j.memory, host, BYTES);
    assert_string_equal(j.d->title, "Fake GPU 0, CUDA 12.4");
    struct device_figures f;
    j.d->ops->figures(j.d, &f);
    assert_int_equal(f.copies, 1);
    assert_int_equal(f.bytes, BYTES);
    assert_int_equal(f.pinned_bytes, BYTES);
    assert_int_equal(f.memory_bytes, BYTES);
    go_home(&j, host);
    for (int i = 0; i < CALLS; i++)
        if (strcmp(names[i], "cuGetErrorString") != 0 && calls_of(names[i]) == 0)
            fail_msg("%s was never called", names[i]);
    assert_int_equal(calls_of("cuEventQuery"), 4);
    assert_string_equal(complaints(), "");
    assert_int_equal(live(), 0);
    memory_unmap(host, BYTES);
}

/* Calls that may fail without anybody minding: what only describes, and what gives back. */
static bool is_harmless(const char *name)
{
    static const char *const list[] = {
        "cuDriverGetVersion", "cuGetErrorString",  "cuDeviceGetName",     "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2",
        "cuStreamDestroy_v2", "cuEventDestroy_v2", "cuMemHostUnregister", "cuMemFree_v2"};
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static int expected(int code)
{
    switch (code) {
    case CUDA_OUT_OF_MEMORY: return FB_E_NOMEM;
    case CUDA_DEINITIALIZED:
    case CUDA_CONTEXT_DESTROYED: return FB_E_STATE;
    case CUDA_STUB_LIBRARY:
    case CUDA_NO_DEVICE:
    case CUDA_NOT_SUPPORTED:
    case CUDA_SYSTEM_DRIVER_MISMATCH: return FB_E_UNSUPPORTED;
    default: return FB_E_IO;
    }
}

static void try_failure(const char *name, int code, int nth, char *host)
{
    char plan[80], number[16];
    snprintf(plan, sizeof(plan), "%s=%d@%d", name, code, nth);
    snprintf(number, sizeof(number), "(%d)", code);
    begin(plan);
    struct journey j = {0};
    struct fb_error e = {0};
    int rc = travel(&j, host, &e);
    bool was_called = calls_of(name) >= nth;
    if (is_harmless(name) || !was_called)
        assert_int_equal(rc, 0);
    else if (rc != expected(code) || !strstr(e.cause, number) || strcmp(e.stage, "device") != 0)
        fail_msg("%s: %d, '%s'", plan, rc, e.cause);
    go_home(&j, host);
    if (live() != 0 && was_called && strcmp(name, "cuCtxPushCurrent_v2") != 0) /* without a context nothing can be given back */
        fail_msg("%s leaves %d things behind", plan, live());
    bool leaves_copy = strstr("cuEventRecord cuEventQuery cuStreamWaitEvent cuCtxPushCurrent_v2", name);
    if (complaints()[0] && !leaves_copy) /* with the copy queued, this test gives the memory back all the same */
        fail_msg("%s: %s", plan, complaints());
}

static void every_call_may_fail_with_every_code(void **state)
{
    (void)state;
    char *host = memory_map(BYTES);
    for (int i = 0; i < CALLS; i++)
        for (size_t k = 0; k < sizeof(codes) / sizeof(codes[0]); k++)
            for (int nth = 1; nth <= 3; nth++)
                try_failure(names[i], codes[k], nth, host);
    memory_unmap(host, BYTES);
}

static void a_failure_without_words_still_has_its_number(void **state)
{
    (void)state;
    begin("cuInit=999 cuGetErrorString=1");
    struct fb_error e = {0};
    struct device *d;
    assert_int_equal(device_open(&d, "cuda", &e), FB_E_IO);
    assert_non_null(strstr(e.cause, "does not explain (999)"));
}

static void a_device_that_is_not_there_is_refused_with_the_count(void **state)
{
    (void)state;
    begin("");
    struct fb_error e = {0};
    struct device *d;
    setenv("FAKE_CUDA_COUNT", "2", 1);
    assert_int_equal(device_open(&d, "cuda:2", &e), FB_E_UNSUPPORTED);
    assert_non_null(strstr(e.cause, "CUDA sees 2"));
    assert_non_null(strstr(e.remedy, "cuda:1"));
    assert_int_equal(device_open(&d, "cuda:1", NULL), 0);
    assert_int_equal(d->index, 1);
    d->ops->close(d);
    setenv("FAKE_CUDA_COUNT", "0", 1);
    struct fb_error none = {0};
    assert_int_equal(device_open(&d, "cuda", &none), FB_E_UNSUPPORTED);
    assert_non_null(strstr(none.cause, "CUDA sees 0"));
    assert_int_equal(live(), 0);
}

static void a_number_that_is_none_is_refused(void **state)
{
    (void)state;
    begin("");
    static const char *const bad[] = {"cuda:x", "cuda:-1", "cuda:1x", "cuda: 1", "cuda:99999999999999999999", "cuda:1024", "cuda:+1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct fb_error e = {0};
        struct device *d;
        assert_int_equal(device_open(&d, bad[i], &e), FB_E_USAGE);
        assert_null(d);
    }
    assert_int_equal(live(), 0);
}

static void the_callers_context_is_back_after_every_call(void **state)
{
    (void)state;
    begin("");
    char *host = memory_map(BYTES);
    struct journey j = {0};
    struct fb_error e = {0};
    assert_int_equal(travel(&j, host, &e), 0);
    go_home(&j, host);
    assert_int_equal(calls_of("cuCtxPushCurrent_v2"), calls_of("cuCtxPopCurrent_v2"));
    memory_unmap(host, BYTES);
}

static void load_stand_in(void)
{
    void *l = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (!l) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    *(void **)&complaints = dlsym(l, "fake_cuda_complaints");
    *(void **)&calls_of = dlsym(l, "fake_cuda_calls");
    *(void **)&live = dlsym(l, "fake_cuda_live");
    *(void **)&reset = dlsym(l, "fake_cuda_reset");
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    library_path = argv[1];
    load_stand_in();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_machine_without_a_driver_is_told_so),
        cmocka_unit_test(a_library_without_the_functions_is_too_old),
        cmocka_unit_test(a_copy_goes_there_and_every_call_is_made),
        cmocka_unit_test(every_call_may_fail_with_every_code),
        cmocka_unit_test(a_failure_without_words_still_has_its_number),
        cmocka_unit_test(a_device_that_is_not_there_is_refused_with_the_count),
        cmocka_unit_test(a_number_that_is_none_is_refused),
        cmocka_unit_test(the_callers_context_is_back_after_every_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
