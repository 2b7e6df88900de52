/* Shared by the tests of shipping: a folder of photographs, loaders over it, and programs that use batches late. */
#ifndef FB_TESTS_SHIP_FIXTURE_H
#define FB_TESTS_SHIP_FIXTURE_H

#include "base/checksum.h"
#include "base/clock.h"
#include "base/rng.h"
#include "device/emulated.h"
#include "feed/feed.h"
#include "../photo_folder.h"

/* The stand-in for the CUDA driver, by its path in argv[1]. */
void device_copy_library(int argc, char **argv);
int device_copy_set_up(void **state);
int device_copy_tear_down(void **state);
extern const char *(*complaints)(void);
extern int (*calls_of)(const char *name);
extern int (*live)(void);

fb_loader *open_or_fail(const fb_options *o);
fb_options options(const char *device);
struct device *device_of(fb_loader *l);
uint64_t digest_of(const fb_batch *b, uint64_t digest);
fb_batch *next_or_fail(fb_loader *l);
void use_or_fail(fb_batch *b, uintptr_t stream);
void start(fb_loader *l);
uint64_t run_epochs(fb_loader *l, int epochs);
uint64_t digest_without(void);
void settle_or_fail(fb_loader *l);
/* The program copies from page-locked batches by itself, on a stream that is 20 ms behind, and drops each batch at once. */
int copy_by_hand(void (*sabotage)(struct device_ops *ops), struct fb_error *e);
/* A program that queues a kernel of 10 ms on each batch, and drops the batch at once. */
int queue_kernels(void (*sabotage)(struct device_ops *ops), uint64_t *most_memory, struct fb_error *e);
/* What the stand-in's calls return, and how late its events are. */
void begin_cuda(const char *plan, const char *late);

#endif
