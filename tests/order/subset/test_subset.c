/* Which samples take part. FB_TIMING=1 prints what selecting from 1.2 million samples costs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/catalog/fingerprint.h"
#include "order/subset/subset.h"

static const struct subset_request everything = {.fraction = 1};

/* ---- catalogs ---- */

static struct catalog_writer *writer_open(bool has_classes)
{
    struct catalog_writer *w;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    struct catalog_field f = {.name = "label", .dtype = FB_INT64, .is_class = true};
    if (has_classes)
        assert_int_equal(catalog_add_field(w, &f, NULL), 0);
    return w;
}

static void add_sample(struct catalog_writer *w, const char *key, int64_t label)
{
    struct catalog_sample s = {.key = key, .object = key, .length = 10, .object_size = 10};
    const void *values[] = {&label};
    struct fb_error e = {0};
    if (catalog_add_sample(w, &s, values, &e) < 0)
        fail_msg("%s", e.cause);
}

static struct catalog *finish(struct catalog_writer *w)
{
    struct catalog *c;
    struct fb_error e = {0};
    if (catalog_finish(w, NULL, &c, &e) < 0)
        fail_msg("%s", e.cause);
    return c;
}

/* `classes` folders c000.. of `each` files; those whose number modulo `skip_modulo` is 0 are left out (0: none). */
static struct catalog *folder_catalog(int classes, int each, int skip_modulo)
{
    struct catalog_writer *w = writer_open(true);
    char name[64];
    for (int i = classes - 1; i >= 0; i--) { /* labels come in another order than names */
        snprintf(name, sizeof(name), "c%03d", i);
        assert_true(catalog_add_class(w, name, NULL) >= 0);
    }
    for (int i = 0; i < classes; i++)
        for (int k = 0; k < each; k++) {
            snprintf(name, sizeof(name), "c%03d/%05d.jpg", i, k);
            if (!skip_modulo || (i * each + k) % skip_modulo)
                add_sample(w, name, classes - 1 - i);
        }
    return finish(w);
}

static struct catalog *plain_catalog(int count)
{
    struct catalog_writer *w = writer_open(false);
    char name[64];
    for (int k = 0; k < count; k++) {
        snprintf(name, sizeof(name), "%05d.jpg", k);
        add_sample(w, name, 0);
    }
    return finish(w);
}

/* ---- asking ---- */

static struct subset choose(const struct catalog *c, const struct subset_request *r)
{
    struct subset s;
    struct fb_error e = {0};
    if (subset_choose(&s, c, r, &e) < 0)
        fail_msg("%s; %s", e.cause, e.remedy);
    return s;
}

static const char *key_at(const struct catalog *c, const struct subset *s, uint64_t i)
{
    return catalog_key(c, s->sample ? s->sample[i] : i, NULL);
}

static bool has_key(const struct catalog *c, const struct subset *s, const char *key)
{
    for (uint64_t i = 0; i < s->count; i++)
        if (strcmp(key_at(c, s, i), key) == 0)
            return true;
    return false;
}

static void assert_ascending(const struct subset *s)
{
    for (uint64_t i = 1; i < s->count; i++)
        assert_true(s->sample[i - 1] < s->sample[i]);
}

static void expect_refusal(const struct catalog *c, struct subset_request r, int code, const char *cause, const char *remedy)
{
    struct subset s;
    struct fb_error e = {0};
    assert_int_equal(subset_choose(&s, c, &r, &e), code);
    assert_int_equal(e.code, code);
    if (!strstr(e.cause, cause) || !strstr(e.remedy, remedy))
        fail_msg("'%s; %s' does not say '%s; %s'", e.cause, e.remedy, cause, remedy);
    assert_true(e.remedy[0] != 0);
    assert_true(s.count == 0 && !s.sample && !s.class_old && !s.class_new);
}

/* ---- promises ---- */

static void without_options_everything_is_taken(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(3, 5, 0);
    struct subset s = choose(c, &everything);
    assert_int_equal(s.count, 15);
    assert_int_equal(s.class_count, 3);
    assert_null(s.sample);
    assert_null(s.class_old);
    assert_int_equal(s.fingerprint, catalog_fingerprint(c));
    subset_free(&s);
    catalog_close(c);
}

static void options_that_leave_everything_give_the_catalogs_fingerprint(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(3, 5, 0);
    const uint64_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    const struct subset_request requests[] = {
        {.fraction = 1, .per_class = 5},
        {.fraction = 1, .class_count = 3},
        {.fraction = 0.99},
        {.fraction = 1, .indices = all, .index_count = 15},
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        struct subset s = choose(c, &requests[i]);
        assert_int_equal(s.count, 15);
        assert_null(s.sample);
        assert_int_equal(s.fingerprint, catalog_fingerprint(c));
        subset_free(&s);
    }
    catalog_close(c);
}

static void named_classes_are_kept_and_renumbered_by_name(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(10, 4, 0);
    struct subset_request r = {.fraction = 1, .classes = "c007\nc002\r\n\nc004\nc002"};
    struct subset s = choose(c, &r);
    assert_int_equal(s.count, 12);
    assert_int_equal(s.class_count, 3);
    static const char *const names[] = {"c002", "c004", "c007"};
    for (int i = 0; i < 3; i++) {
        assert_string_equal(catalog_class_name(c, s.class_old[i]), names[i]);
        assert_int_equal(s.class_new[s.class_old[i]], i);
    }
    int left_out = 0;
    for (int i = 0; i < 10; i++)
        left_out += s.class_new[i] == -1;
    assert_int_equal(left_out, 7);
    for (uint64_t i = 0; i < 12; i++)
        assert_memory_equal(key_at(c, &s, i), names[i / 4], 4);
    assert_ascending(&s);
    subset_free(&s);
    catalog_close(c);
}

static void classes_can_come_from_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/fullbore-classes-XXXXXX", option[64];
    int fd = mkstemp(path);
    static const char text[] = "c001\r\nc003\n\n";
    assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
    struct catalog *c = folder_catalog(5, 4, 0);
    snprintf(option, sizeof(option), "@%s", path);
    struct subset_request r = {.fraction = 1, .classes = option};
    struct subset s = choose(c, &r);
    assert_int_equal(s.count, 8);
    assert_int_equal(s.class_count, 2);
    subset_free(&s);
    assert_int_equal(pwrite(fd, "c0x1", 4, 0), 4);
    expect_refusal(c, r, FB_E_NOT_FOUND, "'c0x1'", "'c001'");
    assert_int_equal(pwrite(fd, "c\0x1", 4, 0), 4);
    expect_refusal(c, r, FB_E_USAGE, "NUL", "one class name per line");
    assert_int_equal(ftruncate(fd, 0), 0);
    expect_refusal(c, r, FB_E_USAGE, "names no class", "at least one");
    close(fd);
    unlink(path);
    expect_refusal(c, r, FB_E_NOT_FOUND, "cannot read the list of classes", "one class name per line");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(c, r, FB_E_USAGE, "not a regular file", "one class name per line");
    unlink(path);
    catalog_close(c);
}

static void drawn_classes_depend_on_their_names_and_the_seed(void **state)
{
    (void)state;
    struct catalog *small = folder_catalog(50, 1, 0), *large = folder_catalog(60, 1, 0);
    struct subset_request r = {.fraction = 1, .class_count = 10, .class_seed = 42};
    struct subset a = choose(small, &r), b = choose(large, &r);
    int kept = 0;
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < 10; k++)
            kept += strcmp(catalog_class_name(small, a.class_old[i]), catalog_class_name(large, b.class_old[k])) == 0;
    assert_true(kept >= 6); /* ten more classes may push a few out, not reshuffle */
    r.class_seed = 43;
    struct subset other = choose(small, &r);
    assert_memory_not_equal(a.sample, other.sample, 10 * sizeof(uint64_t));
    r.class_seed = 42;
    r.class_count = 20;
    struct subset twice = choose(small, &r);
    for (int i = 0; i < 10; i++)
        assert_true(twice.class_new[a.class_old[i]] >= 0); /* more classes include the fewer */
    subset_free(&a);
    subset_free(&b);
    subset_free(&other);
    subset_free(&twice);
    catalog_close(small);
    catalog_close(large);
}

static void per_class_takes_at_most_that_many_of_each(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(6, 20, 3);
    struct subset_request r = {.fraction = 1, .per_class = 5};
    struct subset s = choose(c, &r);
    assert_int_equal(s.count, 30);
    assert_ascending(&s);
    int of_class[6] = {0};
    for (uint64_t i = 0; i < s.count; i++)
        of_class[key_at(c, &s, i)[3] - '0']++;
    for (int i = 0; i < 6; i++)
        assert_int_equal(of_class[i], 5);
    assert_null(s.class_new); /* labels stay as they are */
    r.per_class = 1000;
    struct subset all = choose(c, &r);
    assert_int_equal(all.count, catalog_count(c));
    subset_free(&s);
    subset_free(&all);
    catalog_close(c);
}

static void a_choice_per_class_does_not_depend_on_the_other_classes(void **state)
{
    (void)state;
    struct catalog *small = folder_catalog(3, 30, 0), *large = folder_catalog(9, 30, 0);
    struct subset_request r = {.fraction = 1, .per_class = 7, .class_seed = 5};
    struct subset a = choose(small, &r), b = choose(large, &r);
    for (uint64_t i = 0; i < a.count; i++)
        assert_true(has_key(large, &b, key_at(small, &a, i)));
    subset_free(&a);
    subset_free(&b);
    catalog_close(small);
    catalog_close(large);
}

static void a_fraction_has_the_exact_size_and_contains_the_smaller_ones(void **state)
{
    (void)state;
    struct catalog *c = plain_catalog(1000);
    struct subset_request r = {.fraction = 0.1};
    struct subset before = choose(c, &r);
    assert_int_equal(before.count, 100);
    for (int percent = 20; percent <= 90; percent += 10) {
        r.fraction = percent / 100.0;
        struct subset s = choose(c, &r);
        assert_int_equal(s.count, percent * 10);
        assert_ascending(&s);
        for (uint64_t i = 0; i < before.count; i++)
            assert_true(has_key(c, &s, key_at(c, &before, i)));
        subset_free(&before);
        before = s;
    }
    subset_free(&before);
    r.fraction = 0.0126;
    struct subset s = choose(c, &r);
    assert_int_equal(s.count, 13); /* rounded */
    subset_free(&s);
    catalog_close(c);
}

static void train_and_val_are_complements_and_keys_keep_their_side(void **state)
{
    (void)state;
    struct catalog *small = plain_catalog(2000), *large = plain_catalog(3000);
    struct subset_request train = {.fraction = 1, .split = "train", .split_share = 0.85}, val = train;
    val.split = "val";
    struct subset a = choose(small, &train), b = choose(small, &val), c = choose(large, &train), d = choose(large, &val);
    assert_int_equal(a.count + b.count, 2000);
    assert_int_equal(c.count + d.count, 3000);
    assert_in_range(a.count, 1700 - 64, 1700 + 64);
    for (uint64_t i = 0; i < a.count; i++) {
        assert_false(has_key(small, &b, key_at(small, &a, i)));
        if (i % 10 == 0)
            assert_true(has_key(large, &c, key_at(small, &a, i)));
    }
    for (uint64_t i = 0; i < b.count; i++)
        assert_true(has_key(large, &d, key_at(small, &b, i)));
    assert_int_not_equal(a.fingerprint, b.fingerprint);
    subset_free(&a);
    subset_free(&b);
    subset_free(&c);
    subset_free(&d);
    catalog_close(small);
    catalog_close(large);
}

static void a_fraction_and_a_split_choose_independently(void **state)
{
    (void)state;
    struct catalog *c = plain_catalog(4000);
    struct subset_request r = {.fraction = 0.5, .split = "train", .split_share = 0.5};
    struct subset s = choose(c, &r);
    assert_in_range(s.count, 1000 - 100, 1000 + 100); /* the same hash would give 2000 */
    subset_free(&s);
    catalog_close(c);
}

static void indices_count_in_what_is_left_and_keep_their_order(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(10, 4, 0);
    const uint64_t indices[] = {7, 0, 3};
    struct subset_request r = {.fraction = 1, .classes = "c003\nc005", .indices = indices, .index_count = 3};
    struct subset s = choose(c, &r);
    assert_int_equal(s.count, 3);
    assert_string_equal(key_at(c, &s, 0), "c005/00003.jpg");
    assert_string_equal(key_at(c, &s, 1), "c003/00000.jpg");
    assert_string_equal(key_at(c, &s, 2), "c003/00003.jpg");
    subset_free(&s);
    catalog_close(c);
}

static void wrong_indices_are_named(void **state)
{
    (void)state;
    struct catalog *c = plain_catalog(4);
    const uint64_t outside[] = {1, 4}, twice[] = {1, 2, 1}, many[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1};
    struct subset_request r = {.fraction = 1, .indices = outside, .index_count = 2};
    expect_refusal(c, r, FB_E_USAGE, "indices[1] is 4, but there are 4 samples", "counts from 0");
    r.indices = twice;
    r.index_count = 3;
    expect_refusal(c, r, FB_E_USAGE, "indices[2] names sample 1 a second time", "weights=");
    r.indices = many;
    r.index_count = 10;
    expect_refusal(c, r, FB_E_USAGE, "indices[4] names sample 0 a second time", "weights=");
    r.index_count = 0;
    expect_refusal(c, r, FB_E_USAGE, "no sample is left after indices=", "widen");
    catalog_close(c);
}

static void the_fingerprint_is_that_of_the_chosen_samples_in_order(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(5, 5, 0);
    const uint64_t forth[] = {2, 9, 4}, back[] = {4, 9, 2};
    struct subset_request r = {.fraction = 1, .indices = forth, .index_count = 3};
    struct subset a = choose(c, &r);
    r.indices = back;
    struct subset b = choose(c, &r);
    struct fingerprint *f;
    assert_int_equal(fingerprint_open(&f, c, NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fingerprint_add(f, forth[i], NULL), 0);
    assert_int_equal(a.fingerprint, fingerprint_value(f));
    assert_int_not_equal(a.fingerprint, b.fingerprint);
    fingerprint_close(f);
    subset_free(&a);
    subset_free(&b);
    catalog_close(c);
}

static void options_out_of_range_are_refused(void **state)
{
    (void)state;
    struct catalog *c = folder_catalog(3, 4, 0), *plain = plain_catalog(4);
    static const double shares[] = {0, -0.5, 1.5, 0.0 / 0.0, 1.0 / 0.0};
    for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
        expect_refusal(c, (struct subset_request){.fraction = shares[i]}, FB_E_USAGE, "fraction=", "above 0");
        expect_refusal(c, (struct subset_request){.fraction = 1, .split = "val", .split_share = shares[i]}, FB_E_USAGE, "share", "below 1");
    }
    expect_refusal(c, (struct subset_request){.fraction = 1, .split = "val", .split_share = 1}, FB_E_USAGE, "share", "below 1");
    expect_refusal(c, (struct subset_request){.fraction = 1, .split = "t\033st", .split_share = 0.5}, FB_E_USAGE, "'t\\x1bst'", "train");
    expect_refusal(c, (struct subset_request){.fraction = 0.01}, FB_E_USAGE, "no sample is left after fraction=", "widen");
    expect_refusal(c, (struct subset_request){.fraction = 1, .split = "val", .split_share = 0.999999}, FB_E_USAGE, "after split=", "widen");
    expect_refusal(c, (struct subset_request){.fraction = 1, .class_count = 4}, FB_E_USAGE,
                   "4 classes are asked for, but the data set has 3", "1 to 3");
    expect_refusal(c, (struct subset_request){.fraction = 1, .class_count = 2, .classes = "c000"}, FB_E_USAGE, "both", "either");
    expect_refusal(c, (struct subset_request){.fraction = 1, .classes = ""}, FB_E_USAGE, "names no class", "at least one");
    expect_refusal(plain, (struct subset_request){.fraction = 1, .classes = "a"}, FB_E_USAGE, "no classes", "folder per class");
    expect_refusal(plain, (struct subset_request){.fraction = 1, .class_count = 1}, FB_E_USAGE, "no classes", "folder per class");
    expect_refusal(plain, (struct subset_request){.fraction = 1, .per_class = 1}, FB_E_USAGE, "no classes", "folder per class");
    catalog_close(c);
    catalog_close(plain);
}

static void an_unknown_class_is_named_with_the_nearest_one(void **state)
{
    (void)state;
    struct catalog_writer *w = writer_open(true);
    static const char *const names[] = {"goldfish", "great white shark", "hammerhead", "tench", "\xff\033[2J"};
    for (int i = 0; i < 5; i++) {
        char key[64];
        assert_int_equal(catalog_add_class(w, names[i], NULL), i);
        snprintf(key, sizeof(key), "%s/1.jpg", names[i]);
        add_sample(w, key, i);
    }
    struct catalog *c = finish(w);
    expect_refusal(c, (struct subset_request){.fraction = 1, .classes = "tench\ngoldfisch"}, FB_E_NOT_FOUND, "'goldfisch'", "'goldfish'");
    expect_refusal(c, (struct subset_request){.fraction = 1, .classes = "hamerhaed"}, FB_E_NOT_FOUND, "'hamerhaed'", "'hammerhead'");
    expect_refusal(c, (struct subset_request){.fraction = 1, .classes = "\033[2J"}, FB_E_NOT_FOUND, "'\\x1b[2J'", "'\\xff\\x1b[2J'");
    catalog_close(c);
}

static void print_cost(void)
{
    struct catalog *c = folder_catalog(1000, 1200, 0);
    const struct subset_request requests[] = {
        {.fraction = 1},
        {.fraction = 1, .class_count = 100, .class_seed = 42},
        {.fraction = 1, .per_class = 100},
        {.fraction = 0.5},
        {.fraction = 1, .split = "train", .split_share = 0.85},
        {.fraction = 0.8, .class_count = 900, .per_class = 1000, .split = "train", .split_share = 0.85},
    };
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        uint64_t begin = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        struct subset s = choose(c, &requests[i]);
        double ms = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / 1e6;
        printf("subset_choose case %zu: %.1f ms of CPU time, %llu of 1.2 million\n", i, ms, (unsigned long long)s.count);
        subset_free(&s);
    }
    catalog_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_options_everything_is_taken),
        cmocka_unit_test(options_that_leave_everything_give_the_catalogs_fingerprint),
        cmocka_unit_test(named_classes_are_kept_and_renumbered_by_name),
        cmocka_unit_test(classes_can_come_from_a_file),
        cmocka_unit_test(drawn_classes_depend_on_their_names_and_the_seed),
        cmocka_unit_test(per_class_takes_at_most_that_many_of_each),
        cmocka_unit_test(a_choice_per_class_does_not_depend_on_the_other_classes),
        cmocka_unit_test(a_fraction_has_the_exact_size_and_contains_the_smaller_ones),
        cmocka_unit_test(train_and_val_are_complements_and_keys_keep_their_side),
        cmocka_unit_test(a_fraction_and_a_split_choose_independently),
        cmocka_unit_test(indices_count_in_what_is_left_and_keep_their_order),
        cmocka_unit_test(wrong_indices_are_named),
        cmocka_unit_test(the_fingerprint_is_that_of_the_chosen_samples_in_order),
        cmocka_unit_test(options_out_of_range_are_refused),
        cmocka_unit_test(an_unknown_class_is_named_with_the_nearest_one),
    };
    if (getenv("FB_TIMING"))
        print_cost();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
