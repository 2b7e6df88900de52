/* The catalog's promises: what goes in comes out in order; damage is found and named; a killed writer harms nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/rng.h"
#include "model/catalog/catalog_format.h"
#include "model/catalog/catalog_save.h"
#include "model/catalog/fingerprint.h"
#include "seal.h"

static char directory[64];

static const char *path_of(const char *name)
{
    static char path[2][160];
    static int turn;
    turn = !turn;
    snprintf(path[turn], sizeof(path[0]), "%s/%s", directory, name);
    return path[turn];
}

static int make_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/fb-catalog-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof(command), "rm -rf '%s'", directory);
    return system(command);
}

static struct catalog_writer *open_writer(void)
{
    struct catalog_writer *w;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    return w;
}

static void add_fields(struct catalog_writer *w)
{
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true};
    struct catalog_field box = {.name = "box", .dtype = FB_FLOAT32, .ndim = 1, .shape = {3}};
    struct catalog_field flag = {.name = "flag", .dtype = FB_UINT8};
    assert_int_equal(catalog_add_field(w, &label, NULL), 0);
    assert_int_equal(catalog_add_field(w, &box, NULL), 0);
    assert_int_equal(catalog_add_field(w, &flag, NULL), 0);
}

/* Sample number i has key "cNN/KEY"; all of its values follow from i. */
static void add_one(struct catalog_writer *w, uint64_t i, int classes)
{
    char key[64], class_name[16];
    snprintf(class_name, sizeof(class_name), "c%02llu", (unsigned long long)(i * 7 % (unsigned)classes));
    snprintf(key, sizeof(key), "%s/%08llx.jpg", class_name, (unsigned long long)(i * 2654435761u % 4294967296u));
    int64_t label = catalog_add_class(w, class_name, NULL);
    assert_true(label >= 0);
    float box[3] = {(float)i, (float)i + 1, (float)i + 2};
    uint8_t flag = (uint8_t)i;
    struct catalog_sample s = {.key = key, .object = key, .length = i * 10, .object_size = i * 10, .mtime_ns = (int64_t)i + 5};
    assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&label, box, &flag}, NULL), 0);
}

static struct catalog_writer *filled(uint64_t n)
{
    struct catalog_writer *w = open_writer();
    add_fields(w);
    for (uint64_t i = 0; i < n; i++)
        add_one(w, i, 5);
    assert_int_equal(catalog_add_dir(w, "", 77, NULL), 0);
    assert_int_equal(catalog_add_dir(w, "c00", 78, NULL), 0);
    assert_int_equal(catalog_add_note(w, "source", "a place", NULL), 0);
    return w;
}

/* Touches everything; true if nothing was found wrong. Never may it crash. */
static bool read_everything(const struct catalog *c)
{
    bool is_right = true;
    for (uint64_t i = 0; i < catalog_count(c); i++) {
        struct catalog_sample s;
        is_right &= catalog_sample(c, i, &s, NULL) == 0;
        is_right &= catalog_key(c, i, NULL) != NULL;
        for (int f = 0; f < catalog_field_count(c); f++)
            is_right &= catalog_value(c, i, f, NULL) != NULL;
    }
    for (int i = 0; i < catalog_class_count(c); i++)
        is_right &= catalog_class_name(c, i) != NULL;
    for (int i = 0; i < catalog_dir_count(c); i++) {
        const char *path;
        int64_t mtime_ns;
        is_right &= catalog_dir(c, i, &path, &mtime_ns, NULL) == 0;
    }
    return is_right & (catalog_note(c, "source") != NULL);
}

static void check_sample(const struct catalog *c, uint64_t at)
{
    struct catalog_sample s;
    assert_int_equal(catalog_sample(c, at, &s, NULL), 0);
    uint64_t i = s.length / 10; /* as it came */
    assert_int_equal(s.mtime_ns, i + 5);
    assert_int_equal(s.offset, 0);
    assert_int_equal(s.object_size, s.length);
    assert_string_equal(s.object, s.key);
    const int64_t *label = catalog_value(c, at, 0, NULL);
    const float *box = catalog_value(c, at, 1, NULL);
    const uint8_t *flag = catalog_value(c, at, 2, NULL);
    char class_name[16];
    snprintf(class_name, sizeof(class_name), "%.3s", s.key);
    assert_string_equal(catalog_class_name(c, (int)*label), class_name);
    assert_true(box[0] == (float)i && box[2] == (float)i + 2);
    assert_int_equal(*flag, (uint8_t)i);
}

static void samples_come_back_sorted_with_their_values(void **state)
{
    (void)state;
    struct catalog *c;
    assert_int_equal(catalog_finish(filled(5000), path_of("a"), &c, NULL), 0);
    assert_int_equal(catalog_count(c), 5000);
    for (uint64_t i = 0; i < 5000; i++) {
        check_sample(c, i);
        if (i)
            assert_true(strcmp(catalog_key(c, i - 1, NULL), catalog_key(c, i, NULL)) < 0);
    }
    assert_int_equal(catalog_class_count(c), 5);
    assert_string_equal(catalog_class_name(c, 0), "c00");
    assert_string_equal(catalog_class_name(c, 4), "c04");
    assert_null(catalog_class_name(c, 5));
    assert_null(catalog_class_name(c, -1));
    assert_int_equal(catalog_class_field(c), 0);
    const char *path;
    int64_t mtime_ns;
    assert_int_equal(catalog_dir_count(c), 2);
    assert_int_equal(catalog_dir(c, 1, &path, &mtime_ns, NULL), 0);
    assert_string_equal(path, "c00");
    assert_int_equal(mtime_ns, 78);
    assert_string_equal(catalog_note(c, "source"), "a place");
    assert_null(catalog_note(c, "nothing"));
    catalog_close(c);
}

static void a_folder_costs_at_most_32_bytes_and_the_key_per_sample(void **state)
{
    (void)state;
    struct catalog_writer *w = open_writer();
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true};
    assert_int_equal(catalog_add_field(w, &label, NULL), 0);
    uint64_t keys = 0, n = 20000;
    int64_t value = catalog_add_class(w, "x", NULL);
    for (uint64_t i = 0; i < n; i++) {
        char key[64];
        keys += (uint64_t)snprintf(key, sizeof(key), "x/%06llu.jpg", (unsigned long long)i) + 1;
        struct catalog_sample s = {.key = key, .length = i, .object_size = i};
        assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&value}, NULL), 0);
    }
    struct catalog *c;
    size_t size;
    assert_int_equal(catalog_finish(w, NULL, &c, NULL), 0);
    catalog_bytes(c, &size);
    assert_true(size <= 32 * n + keys + 2048);
    catalog_close(c);
}

static void an_empty_catalog_can_be_written_and_read(void **state)
{
    (void)state;
    struct catalog *c;
    assert_int_equal(catalog_finish(open_writer(), path_of("empty"), NULL, NULL), 0);
    assert_int_equal(catalog_open(path_of("empty"), &c, NULL), 0);
    assert_int_equal(catalog_count(c), 0);
    catalog_close(c);
}

static void samples_may_be_parts_of_shared_objects(void **state)
{
    (void)state;
    struct catalog_writer *w = open_writer();
    const struct catalog_sample in[] = {
        {.key = "b.jpg", .object = "pack.tar", .offset = 512, .length = 100, .object_size = 5000, .mtime_ns = 9},
        {.key = "c.jpg", .length = 42, .object_size = 42, .mtime_ns = 3},
        {.key = "a.jpg", .object = "pack.tar", .offset = 1024, .length = 3976, .object_size = 5000, .mtime_ns = 9},
    };
    for (int i = 0; i < 3; i++)
        assert_int_equal(catalog_add_sample(w, &in[i], NULL, NULL), 0);
    struct catalog_sample outside = {.key = "d", .object = "pack.tar", .offset = 4999, .length = 2, .object_size = 5000};
    assert_int_equal(catalog_add_sample(w, &outside, NULL, NULL), FB_E_USAGE);
    struct catalog *c;
    assert_int_equal(catalog_finish(w, path_of("pack"), &c, NULL), 0);
    const int order[] = {2, 0, 1};
    for (int i = 0; i < 3; i++) {
        struct catalog_sample s;
        const struct catalog_sample *want = &in[order[i]];
        assert_int_equal(catalog_sample(c, (uint64_t)i, &s, NULL), 0);
        assert_string_equal(s.key, want->key);
        assert_string_equal(s.object, want->object ? want->object : want->key);
        assert_int_equal(s.offset, want->offset);
        assert_int_equal(s.length, want->length);
        assert_int_equal(s.object_size, want->object_size);
        assert_int_equal(s.mtime_ns, want->mtime_ns);
    }
    catalog_close(c);
}

static void duplicate_keys_are_refused_and_named(void **state)
{
    (void)state;
    struct catalog_writer *w = filled(100);
    add_one(w, 40, 5);
    struct fb_error e;
    error_clear(&e);
    struct catalog *c = (void *)1;
    assert_int_equal(catalog_finish(w, path_of("duplicate"), &c, &e), FB_E_DATA);
    assert_null(c);
    assert_non_null(strstr(e.cause, "40 and 100"));
    assert_non_null(strstr(e.path, ".jpg"));
    assert_int_equal(access(path_of("duplicate"), F_OK), -1);
}

static void wrong_use_of_the_writer_is_refused(void **state)
{
    (void)state;
    struct catalog_writer *w = open_writer();
    struct catalog_field f = {.name = "x", .dtype = FB_INT64, .is_class = true};
    assert_int_equal(catalog_add_field(w, &f, NULL), 0);
    assert_int_equal(catalog_add_field(w, &f, NULL), FB_E_USAGE); /* the same name */
    strcpy(f.name, "y");
    assert_int_equal(catalog_add_field(w, &f, NULL), FB_E_USAGE); /* a second class field */
    f = (struct catalog_field){.name = "z", .dtype = FB_FLOAT32, .ndim = 2};
    assert_int_equal(catalog_add_field(w, &f, NULL), FB_E_USAGE);
    f = (struct catalog_field){.name = "z", .dtype = (enum fb_dtype)99};
    assert_int_equal(catalog_add_field(w, &f, NULL), FB_E_USAGE);
    f = (struct catalog_field){.name = "z", .dtype = FB_FLOAT32, .ndim = 1, .shape = {0}};
    assert_int_equal(catalog_add_field(w, &f, NULL), FB_E_USAGE);
    int64_t label = 3; /* no such class */
    struct catalog_sample s = {.key = "k"};
    assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&label}, NULL), 0);
    s.key = "";
    assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&label}, NULL), FB_E_DATA);
    struct catalog *c;
    assert_int_equal(catalog_finish(w, NULL, &c, NULL), FB_E_USAGE);
}

/* ---- fingerprints ---- */

static uint64_t fingerprint_of(const struct catalog *c, const uint64_t *pick, uint64_t n)
{
    struct fingerprint *f;
    assert_int_equal(fingerprint_open(&f, c, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(fingerprint_add(f, pick ? pick[i] : i, NULL), 0);
    uint64_t value = fingerprint_value(f);
    fingerprint_close(f);
    return value;
}

struct recipe {
    const char *key[3], *class_name[3], *first_class;
    uint64_t length;
    float number;
    const char *number_name;
};

static struct catalog *cook(const struct recipe *r)
{
    struct catalog_writer *w = open_writer();
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true}, number = {.dtype = FB_FLOAT32};
    strcpy(number.name, r->number_name);
    assert_int_equal(catalog_add_field(w, &label, NULL), 0);
    assert_int_equal(catalog_add_field(w, &number, NULL), 0);
    if (r->first_class)
        assert_int_equal(catalog_add_class(w, r->first_class, NULL), 0);
    for (int i = 0; i < 3; i++) {
        int64_t value = catalog_add_class(w, r->class_name[i], NULL);
        struct catalog_sample s = {.key = r->key[i], .length = r->length, .object_size = r->length};
        assert_int_equal(catalog_add_sample(w, &s, (const void *const[]){&value, &r->number}, NULL), 0);
    }
    struct catalog *c;
    assert_int_equal(catalog_finish(w, NULL, &c, NULL), 0);
    return c;
}

static void the_fingerprint_is_keys_and_labels_and_nothing_else(void **state)
{
    (void)state;
    const struct recipe base = {{"a", "b", "c"}, {"cat", "dog", "cat"}, NULL, 10, 1.5f, "x"};
    const struct {
        struct recipe r;
        bool is_same;
    } cases[] = {
        {base, true},
        {{{"c", "b", "a"}, {"cat", "dog", "cat"}, NULL, 10, 1.5f, "x"}, true},       /* came in another order */
        {{{"a", "b", "c"}, {"cat", "dog", "cat"}, NULL, 99, 1.5f, "x"}, true},       /* other sizes */
        {{{"a", "b", "c"}, {"cat", "dog", "cat"}, "aardvark", 10, 1.5f, "x"}, true}, /* other numbers for the classes */
        {{{"a", "b", "c"}, {"cat", "dog", "cat"}, NULL, 10, 1.5f, "other name"}, true},
        {{{"a", "b", "c"}, {"cat", "dog", "dog"}, NULL, 10, 1.5f, "x"}, false},
        {{{"a", "b", "cc"}, {"cat", "dog", "cat"}, NULL, 10, 1.5f, "x"}, false},
        {{{"a", "b", "c"}, {"cat", "dog", "cat"}, NULL, 10, 1.25f, "x"}, false},
        {{{"a", "b", "c"}, {"cat", "dogcat", "cat"}, NULL, 10, 1.5f, "x"}, false},
    };
    struct catalog *c = cook(&base);
    uint64_t want = catalog_fingerprint(c);
    assert_int_equal(fingerprint_of(c, NULL, 3), want);
    assert_int_not_equal(fingerprint_of(c, NULL, 2), want);
    assert_int_not_equal(fingerprint_of(c, (const uint64_t[]){0, 2, 1}, 3), want);
    catalog_close(c);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        c = cook(&cases[i].r);
        print_message("case %zu: %016llx\n", i, (unsigned long long)catalog_fingerprint(c));
        assert_int_equal(catalog_fingerprint(c) == want, cases[i].is_same);
        catalog_close(c);
    }
}

/* Saved states of every version rely on it. */
static void the_fingerprint_is_frozen(void **state)
{
    (void)state;
    struct catalog *c = cook(&(struct recipe){{"a", "b", "c"}, {"cat", "dog", "cat"}, NULL, 10, 1.5f, "x"});
    assert_int_equal(catalog_fingerprint(c), UINT64_C(0x98c934b2ff3e8cce));
    catalog_close(c);
}

/* ---- damage ---- */

static uint8_t *image_of(uint64_t n, size_t *size)
{
    struct catalog *c;
    assert_int_equal(catalog_finish(filled(n), NULL, &c, NULL), 0);
    const void *bytes = catalog_bytes(c, size);
    uint8_t *copy = malloc(*size);
    memcpy(copy, bytes, *size);
    catalog_close(c);
    return copy;
}

/* Opens bytes as a catalog file of that name, without the cost of a disk. */
static int open_bytes(const void *bytes, size_t n, const char *name, struct catalog **out, struct fb_error *e)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    int rc = catalog_open_fd(fd, name, out, e);
    close(fd);
    return rc;
}

static void a_truncated_catalog_is_refused_at_every_length(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = image_of(6, &size);
    for (size_t n = 0; n < size; n++) {
        struct catalog *c;
        struct fb_error e;
        error_clear(&e);
        assert_int_equal(open_bytes(bytes, n, "cut", &c, &e), FB_E_DATA);
        assert_null(c);
        assert_non_null(strstr(e.remedy, "remove it"));
        assert_non_null(strstr(e.path, "cut"));
    }
    struct catalog *c;
    assert_int_equal(open_bytes(bytes, size, "cut", &c, NULL), 0);
    assert_true(read_everything(c));
    catalog_close(c);
    free(bytes);
}

/* As on a file server: cut off at any time, it is an error when it is opened, and nothing afterwards. */
static void a_catalog_that_is_read_needs_its_file_no_longer(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = image_of(600, &size);
    for (int cut = 0; cut < 3; cut++) {
        struct catalog *c;
        struct fb_error e;
        error_clear(&e);
        int fd = memfd_create("catalog", 0);
        assert_int_equal(write(fd, bytes, size), size);
        if (cut == 0) { /* after its size was asked for */
            assert_int_equal(ftruncate(fd, (off_t)size / 2), 0);
            assert_int_equal(catalog_open_read(fd, size, "cut", &c, &e), FB_E_IO);
            assert_null(c);
        } else {
            assert_int_equal(catalog_open_read(fd, size, "read", &c, &e), 0);
            assert_int_equal(ftruncate(fd, cut == 1 ? 0 : (off_t)size / 2), 0);
            assert_true(read_everything(c));
            catalog_close(c);
        }
        close(fd);
    }
    int fd = open(".", O_RDONLY | O_DIRECTORY);
    struct catalog *c;
    struct fb_error e;
    error_clear(&e);
    assert_true(catalog_open_read(fd, 4096, "unreadable", &c, &e) == FB_E_IO && e.sys_errno == EISDIR);
    close(fd);
    free(bytes);
}

static void every_flipped_bit_is_found_before_it_is_used(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = image_of(6, &size);
    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        struct catalog *c;
        if (open_bytes(bytes, size, "flipped", &c, NULL) == 0) {
            assert_false(read_everything(c));
            catalog_close(c);
        }
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    free(bytes);
}

static void damage_in_one_block_leaves_the_others_usable(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = image_of(20000, &size);
    struct catalog_header h;
    memcpy(&h, bytes, sizeof(h));
    bytes[h.section[SECTION_KEYS].offset + h.section[SECTION_KEYS].length / 2] ^= 1;
    struct catalog *c;
    assert_int_equal(open_bytes(bytes, size, "block", &c, NULL), 0);
    uint64_t damaged = 0;
    for (uint64_t i = 0; i < 20000; i++) {
        struct fb_error e;
        error_clear(&e);
        if (!catalog_key(c, i, &e)) {
            damaged++;
            assert_int_equal(e.code, FB_E_DATA);
            assert_true(e.offset > 0);
            assert_non_null(strstr(e.remedy, "remove it"));
        }
    }
    assert_in_range(damaged, 1, CATALOG_BLOCK / 8);
    catalog_close(c);
    free(bytes);
}

/* Wrong numbers under right checksums: the bounds have to hold by themselves (run under ASan to mean something). */
static void a_hostile_catalog_with_right_checksums_never_crashes(void **state)
{
    (void)state;
    size_t size;
    uint8_t *good = image_of(6, &size), *bytes = malloc(size);
    struct rng r = rng_stream(RNG_SUBSET, 1, 2, 3, 4);
    static const uint64_t values[] = {0, 1, 7, 8, 0xFF, 65536, INT64_MAX, UINT64_MAX, UINT64_MAX - 7, UINT64_C(1) << 32, 200, 1000};
    uint64_t refused = 0;
    for (int round = 0; round < 4000; round++) {
        memcpy(bytes, good, size);
        for (uint64_t k = rng_below(&r, 3) + 1; k > 0; k--) {
            uint64_t at = rng_below(&r, size / 8) * 8;
            memcpy(bytes + at, &values[rng_below(&r, sizeof(values) / sizeof(values[0]))], 8);
        }
        seal_again(bytes, size);
        struct catalog *c;
        if (open_bytes(bytes, size, "hostile", &c, NULL) < 0) {
            refused++;
            continue;
        }
        refused += !read_everything(c);
        catalog_close(c);
    }
    assert_true(refused > 1000);
    free(bytes);
    free(good);
}

static void what_is_not_a_file_is_refused(void **state)
{
    (void)state;
    struct catalog *c;
    assert_int_equal(catalog_open(path_of("nowhere"), &c, NULL), FB_E_NOT_FOUND);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(catalog_open(path_of("fifo"), &c, NULL), FB_E_DATA);
    assert_int_equal(catalog_open(directory, &c, NULL), FB_E_DATA);
    assert_null(c);
}

/* ---- writers that die ---- */

static void a_killed_writer_leaves_the_old_catalog_or_the_new_one(void **state)
{
    (void)state;
    struct rng r = rng_stream(RNG_SUBSET, 5, 6, 7, 8);
    uint64_t old = 1000, seen_new = 0;
    assert_int_equal(catalog_finish(filled(old), path_of("killed"), NULL, NULL), 0);
    for (int round = 0; round < 30; round++) {
        uint64_t next = 1000 + (uint64_t)(round + 1) * 300;
        pid_t child = fork();
        if (child == 0)
            _exit(catalog_finish(filled(next), path_of("killed"), NULL, NULL) < 0);
        usleep((useconds_t)rng_below(&r, 12000));
        kill(child, SIGKILL);
        int status;
        waitpid(child, &status, 0);
        struct catalog *c;
        assert_int_equal(catalog_open(path_of("killed"), &c, NULL), 0);
        assert_true(read_everything(c));
        uint64_t n = catalog_count(c);
        assert_true(n == old || n == next);
        seen_new += n == next;
        old = n;
        catalog_close(c);
    }
    print_message("%llu of 30 writers finished before they were killed\n", (unsigned long long)seen_new);
}

static void an_open_catalog_lives_on_when_its_file_is_replaced(void **state)
{
    (void)state;
    struct catalog *first, *second;
    assert_int_equal(catalog_finish(filled(3000), path_of("replaced"), &first, NULL), 0);
    assert_int_equal(catalog_finish(filled(10), path_of("replaced"), &second, NULL), 0);
    assert_int_equal(catalog_count(second), 10);
    assert_int_equal(catalog_count(first), 3000);
    assert_true(read_everything(first));
    catalog_close(first);
    catalog_close(second);
}

static void a_failed_write_leaves_no_file_and_the_old_catalog(void **state)
{
    (void)state;
    struct fb_error e;
    error_clear(&e);
    assert_int_equal(catalog_finish(filled(10), path_of("no/such/place"), NULL, &e), FB_E_NOT_FOUND);
    assert_int_equal(e.sys_errno, ENOENT);
    assert_int_equal(mkdir(path_of("taken"), 0700), 0); /* rename onto a directory fails after everything was written */
    assert_true(catalog_finish(filled(10), path_of("taken"), NULL, NULL) < 0);
    char command[160];
    snprintf(command, sizeof(command), "test -z \"$(ls %s | grep tmp | grep taken)\"", directory);
    assert_int_equal(system(command), 0);
}

/* ---- threads ---- */

static void *read_in_thread(void *c)
{
    return read_everything(c) ? c : NULL;
}

static void many_threads_may_read_one_catalog(void **state)
{
    (void)state;
    struct catalog *c;
    assert_int_equal(catalog_finish(filled(20000), path_of("threads"), &c, NULL), 0);
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_in_thread, c), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(t[i], &result);
        assert_non_null(result);
    }
    catalog_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_come_back_sorted_with_their_values),
        cmocka_unit_test(a_folder_costs_at_most_32_bytes_and_the_key_per_sample),
        cmocka_unit_test(an_empty_catalog_can_be_written_and_read),
        cmocka_unit_test(samples_may_be_parts_of_shared_objects),
        cmocka_unit_test(duplicate_keys_are_refused_and_named),
        cmocka_unit_test(wrong_use_of_the_writer_is_refused),
        cmocka_unit_test(the_fingerprint_is_keys_and_labels_and_nothing_else),
        cmocka_unit_test(the_fingerprint_is_frozen),
        cmocka_unit_test(a_truncated_catalog_is_refused_at_every_length),
        cmocka_unit_test(a_catalog_that_is_read_needs_its_file_no_longer),
        cmocka_unit_test(every_flipped_bit_is_found_before_it_is_used),
        cmocka_unit_test(damage_in_one_block_leaves_the_others_usable),
        cmocka_unit_test(a_hostile_catalog_with_right_checksums_never_crashes),
        cmocka_unit_test(what_is_not_a_file_is_refused),
        cmocka_unit_test(a_killed_writer_leaves_the_old_catalog_or_the_new_one),
        cmocka_unit_test(an_open_catalog_lives_on_when_its_file_is_replaced),
        cmocka_unit_test(a_failed_write_leaves_no_file_and_the_old_catalog),
        cmocka_unit_test(many_threads_may_read_one_catalog),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
