/* What the engine's tests share: a folder of photographs, loaders over it, and a tally of what came. */
#ifndef FB_TESTS_TALLY_H
#define FB_TESTS_TALLY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "photo_folder.h"

enum { PHOTOS = 100, CLASSES = 4 };
extern struct photo_folder photos; /* made before the first test, removed after the last */

void show(const struct fb_error *e);
fb_loader *open_or_fail(const fb_options *o);

struct tally {
    int seen[4 * PHOTOS]; /* by sample */
    int repeats, batches;
    uint64_t digest; /* of content, keys and labels, in order */
};

void count_batch(const fb_batch *b, struct tally *t);
/* Takes up to `most` batches; returns the last code of fb_next_batch. */
int take(fb_loader *l, int most, struct tally *t, struct fb_error *e);
struct tally run_epoch(fb_loader *l, int64_t epoch);
void assert_each_once(const struct tally *t, int count);
/* The number that follows `name` in a text such as the statistics. */
uint64_t number_after(const char *text, const char *name);

/* A whole test program. FB_TEST in the environment: one test by name or pattern. */
#define run_photo_tests(tests) (cmocka_set_test_filter(getenv("FB_TEST")), cmocka_run_group_tests(tests, make_photos, remove_photos))
int make_photos(void **state);
int remove_photos(void **state);

#endif
