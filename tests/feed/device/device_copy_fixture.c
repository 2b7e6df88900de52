/* Shared by the tests of shipping. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/rng.h"
#include "device_copy_fixture.h"

enum { PHOTOS = 60, CLASSES = 3 };
static struct photo_folder photos;
static const char *library_path;

const char *(*complaints)(void);
int (*calls_of)(const char *name);
int (*live)(void);
static void (*reset)(void);

fb_loader *open_or_fail(const fb_options *o)
{
    struct fb_error e = {0};
    fb_loader *l;
    if (fb_open(o, &l, &e) < 0)
        fail_msg("%s: %s", e.stage, e.cause);
    return l;
}

fb_options options(const char *device)
{
    fb_options o = photo_options(&photos);
    o.device = device;
    return o;
}

struct device *device_of(fb_loader *l)
{
    return ((struct feed *)l)->device_copy.device;
}

uint64_t digest_of(const fb_batch *b, uint64_t digest)
{
    for (int f = 0; f < fb_batch_array_count(b); f++) {
        const struct fb_array *a = fb_batch_array(b, f);
        digest = rng_mix(digest, checksum_of(a->data, a->bytes));
    }
    return rng_mix(digest, checksum_of(fb_batch_key(b, 0), strlen(fb_batch_key(b, 0))));
}

fb_batch *next_or_fail(fb_loader *l)
{
    struct fb_error e = {0};
    fb_batch *b;
    int rc = fb_next_batch(l, &b, &e);
    if (rc < 0)
        fail_msg("%s: %s", e.stage, e.cause);
    return rc == 1 ? b : NULL;
}

void use_or_fail(fb_batch *b, uintptr_t stream)
{
    struct fb_error e = {0};
    if (fb_use_batch(b, stream, &e) < 0)
        fail_msg("%s: %s", e.stage, e.cause);
}

void start(fb_loader *l)
{
    struct fb_error e = {0};
    assert_true(fb_start_epoch(l, FB_NEXT_EPOCH, &e) >= 0);
}

uint64_t run_epochs(fb_loader *l, int epochs)
{
    uint64_t digest = 0;
    for (int i = 0; i < epochs; i++) {
        start(l);
        for (fb_batch *b; (b = next_or_fail(l)); fb_release_batch(b)) {
            use_or_fail(b, 0);
            digest = digest_of(b, digest);
        }
    }
    return digest;
}

uint64_t digest_without(void)
{
    fb_options o = options(NULL);
    fb_loader *l = open_or_fail(&o);
    uint64_t digest = run_epochs(l, 3);
    fb_close(l);
    return digest;
}

void settle_or_fail(fb_loader *l)
{
    struct fb_error e = {0};
    if (emulated_settle(device_of(l), &e) < 0)
        fail_msg("%s", e.cause);
}

static struct device_ops changed; /* outlives loaders that a failed test leaves open */

/* With a device whose operations were changed, or as it is. */
static fb_loader *open_changed(const char *device, void (*sabotage)(struct device_ops *ops))
{
    fb_options o = options(device);
    fb_loader *l = open_or_fail(&o);
    changed = *device_of(l)->ops;
    if (sabotage)
        sabotage(&changed);
    device_of(l)->ops = &changed;
    return l;
}

int copy_by_hand(void (*sabotage)(struct device_ops *ops), struct fb_error *e)
{
    fb_loader *l = open_changed(sabotage ? "emulated:1GB/s,300ms" : "emulated:1GB/s,20ms", sabotage);
    struct feed *f = (struct feed *)l;
    f->device_copy.is_copying = false; /* as pin_memory alone has it */
    fb_batch *b;
    int rc = 0;
    start(l);
    while (rc == 0 && (rc = fb_next_batch(l, &b, e)) == 1) {
        assert_int_equal(fb_batch_memory(b, NULL), FB_PINNED);
        const struct fb_array *a = fb_batch_array(b, 0);
        assert_int_equal(emulated_read(f->device_copy.device, 1, a->data, a->bytes, e), 0);
        rc = fb_use_batch(b, 1, e);
        fb_release_batch(b);
    }
    if (rc == 0)
        rc = emulated_settle(f->device_copy.device, e);
    fb_close(l);
    return rc;
}

int queue_kernels(void (*sabotage)(struct device_ops *ops), uint64_t *most_memory, struct fb_error *e)
{
    uint64_t lasts_ns = sabotage ? 300000000 : 10000000;
    fb_loader *l = open_changed("emulated:4GB/s,20us", sabotage);
    struct device *d = device_of(l);
    fb_batch *b;
    int rc = 0;
    start(l);
    while (rc == 0 && (rc = fb_next_batch(l, &b, e)) == 1) {
        const struct fb_array *a = fb_batch_array(b, 0);
        rc = fb_use_batch(b, 2, e);
        assert_int_equal(emulated_kernel(d, 2, a->data, a->bytes, lasts_ns, e), 0);
        struct device_figures g;
        d->ops->figures(d, &g);
        *most_memory = g.memory_bytes > *most_memory ? g.memory_bytes : *most_memory;
        fb_release_batch(b);
    }
    if (rc == 0)
        rc = emulated_settle(d, e);
    fb_close(l);
    return rc;
}

void begin_cuda(const char *plan, const char *late)
{
    reset();
    setenv("FULLBORE_CUDA", library_path, 1);
    setenv("FAKE_CUDA", plan, 1);
    setenv("FAKE_CUDA_LATE", late, 1);
}

void device_copy_library(int argc, char **argv)
{
    if (argc != 2)
        exit(2);
    library_path = argv[1];
}

int device_copy_set_up(void **state)
{
    (void)state;
    photo_folder_make(&photos, PHOTOS, CLASSES);
    void *l = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    if (!l)
        return -1;
    *(void **)&complaints = dlsym(l, "fake_cuda_complaints");
    *(void **)&calls_of = dlsym(l, "fake_cuda_calls");
    *(void **)&live = dlsym(l, "fake_cuda_live");
    *(void **)&reset = dlsym(l, "fake_cuda_reset");
    return 0;
}

int device_copy_tear_down(void **state)
{
    (void)state;
    photo_folder_remove(&photos);
    return 0;
}
