/* Packing through the library: the same data set as the folder, names that do not depend on anything but the keys, progress that adds up.
 */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/dataset.h"
#include "dataset/pack/pack_index.h"
#include "jobs/pack.h"
#include "jobs/output/pack_names.h"
#include "jobs/unpack.h"
#include "jobs/verify.h"

struct fixture {
    char root[64];
    struct fb_error e;
    struct pack_result result;
    uint64_t calls, last_samples;
};

static int make(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    snprintf(f->root, sizeof(f->root), "%s/fb-pack-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    *state = f;
    return mkdtemp(f->root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int unmake(void **state)
{
    struct fixture *f = *state;
    nftw(f->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    pack_result_free(&f->result);
    free(f);
    return 0;
}

static const char *path_of(const struct fixture *f, const char *name)
{
    static char paths[8][512];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof(paths[0]), "%s/%s", f->root, name);
    return paths[turn];
}

static void put(const struct fixture *f, const char *name, const char *content)
{
    char path[512];
    snprintf(path, sizeof(path), "%s", path_of(f, name));
    for (char *slash = strchr(path + strlen(f->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0755);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(content, 1, strlen(content), file);
    fclose(file);
}

static void count_calls(void *ctx, const struct pack_progress *p)
{
    struct fixture *f = ctx;
    f->calls++;
    assert_true(p->samples > f->last_samples && p->samples <= p->samples_total && p->bytes <= p->bytes_total);
    f->last_samples = p->samples;
}

static int pack(struct fixture *f, const char *source, const char *output, uint64_t shard_bytes, int threads)
{
    struct pack_request q = {.shard_bytes = shard_bytes, .progress = count_calls, .ctx = f};
    char from[512], to[512], cache[512];
    snprintf(from, sizeof(from), "%s", path_of(f, source));
    snprintf(to, sizeof(to), "%s", path_of(f, output));
    snprintf(cache, sizeof(cache), "%s", path_of(f, "cache"));
    fb_init_options(&q.options);
    q.options.source = from;
    q.options.catalog_dir = cache;
    q.options.threads = threads;
    q.output = to;
    pack_result_free(&f->result);
    f->calls = f->last_samples = 0;
    error_clear(&f->e);
    return pack_run(&q, &f->result, &f->e);
}

static uint64_t fingerprint_of(const struct fixture *f, const char *source)
{
    struct dataset d;
    struct fb_error e;
    error_clear(&e);
    struct dataset_request r = {.source = source, .catalog_dir = path_of(f, "cache")};
    int rc = dataset_open(&d, &r, &e);
    if (rc < 0)
        print_error("%s: %s\n", source, e.cause);
    assert_int_equal(rc, 0);
    uint64_t value = catalog_fingerprint(d.catalog);
    dataset_close(&d);
    return value;
}

/* ---- tests ---- */

static void a_pack_has_the_fingerprint_of_its_folder(void **state)
{
    struct fixture *f = *state;
    put(f, "in/cat/1.jpg", "one");
    put(f, "in/cat/2.v1.jpg", "two");
    put(f, "in/dog/1.jpg", "three");
    assert_int_equal(pack(f, "in", "p.tar", 0, 2), 0);
    assert_int_equal(f->result.samples, 3);
    assert_int_equal(f->calls, 3);
    uint64_t expected = fingerprint_of(f, path_of(f, "in"));
    assert_int_equal(f->result.fingerprint, expected);
    assert_int_equal(fingerprint_of(f, path_of(f, "p.tar")), expected);
}

static void shards_have_the_fingerprint_of_their_folder(void **state)
{
    struct fixture *f = *state;
    static char large[30001];
    memset(large, 'x', sizeof(large) - 1);
    for (int i = 0; i < 12; i++) {
        char name[32];
        snprintf(name, sizeof(name), "in/c%d/%02d.jpg", i % 5, i);
        put(f, name, large);
    }
    assert_int_equal(pack(f, "in", "s.tar", 64 << 10, 3), 0);
    assert_true(f->result.shards >= 6);
    assert_non_null(strstr(f->result.name, "s-{000000..0000"));
    assert_int_equal(fingerprint_of(f, f->result.name), fingerprint_of(f, path_of(f, "in")));
}

static void a_sample_in_a_pack_is_an_extent_of_it(void **state)
{
    struct fixture *f = *state;
    put(f, "in/1.jpg", "the bytes");
    assert_int_equal(pack(f, "in", "p.tar", 0, 1), 0);
    struct dataset d;
    struct dataset_request r = {.source = path_of(f, "p.tar"), .catalog_dir = path_of(f, "cache")};
    assert_int_equal(dataset_open(&d, &r, NULL), 0);
    struct catalog_sample s;
    assert_int_equal(catalog_sample(d.catalog, 0, &s, NULL), 0);
    assert_string_equal(s.key, "1.jpg");
    assert_string_equal(s.object, "p.tar");
    struct stat st;
    assert_int_equal(stat(path_of(f, "p.tar"), &st), 0);
    assert_int_equal(s.object_size, st.st_size);
    FILE *file = fopen(path_of(f, "p.tar"), "rb");
    char bytes[16] = "";
    assert_int_equal(fseek(file, (long)s.offset, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, s.length, file), 9);
    assert_string_equal(bytes, "the bytes");
    fclose(file);
    dataset_close(&d);
}

static void verify_and_unpack_agree_with_what_was_packed(void **state)
{
    struct fixture *f = *state;
    put(f, "in/a/1.jpg", "one");
    put(f, "in/a/2.jpg", "");
    assert_int_equal(pack(f, "in", "p.tar", 0, 2), 0);
    struct verify_result v;
    assert_int_equal(verify_run(&(struct verify_request){.source = path_of(f, "p.tar")}, &v, NULL), 0);
    assert_int_equal(v.damages, 0);
    assert_int_equal(v.samples, 2);
    verify_free(&v);
    struct unpack_result u;
    assert_int_equal(unpack_run(&(struct unpack_request){.source = path_of(f, "p.tar"), .folder = path_of(f, "out")}, &u, NULL), 0);
    assert_int_equal(u.files, 2);
    unpack_free(&u);
    struct stat before, after;
    assert_int_equal(stat(path_of(f, "in/a/1.jpg"), &before), 0);
    assert_int_equal(stat(path_of(f, "out/a/1.jpg"), &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_true(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

/* ---- names ---- */

static const char *name_of(const struct pack_names *n, const struct catalog *c, uint64_t i)
{
    static struct text out;
    out = (struct text){.data = out.data, .capacity = out.capacity, .limit = 4096};
    pack_names_stem(n, i, catalog_key(c, i, NULL), &out);
    text_append(&out, "", 1);
    return out.data;
}

static struct catalog *catalog_of(const char *const *keys)
{
    struct catalog_writer *w;
    struct catalog *c;
    assert_int_equal(catalog_writer_open(&w, NULL), 0);
    for (; *keys; keys++) {
        struct catalog_sample s = {.key = *keys, .length = 1, .object_size = 1};
        assert_int_equal(catalog_add_sample(w, &s, NULL, NULL), 0);
    }
    assert_int_equal(catalog_finish(w, NULL, &c, NULL), 0);
    return c;
}

static void names_are_kept_unless_they_would_be_misunderstood(void **state)
{
    (void)state;
    static const char *const keys[] = {"../up.jpg", "/abs/a.jpg",  "__m__/a.jpg", "a.jpg",  "a.png",  "b.c.jpg",
                                       "b_c.jpg",   "dir.x/a.jpg", "dir.x/b",     "x..jpg", "x_.cls", NULL};
    static const char *const stems[] = {"up/up", "abs/a", "x__m__/a", "a", "a-2", "b_c-2", "b_c", "dir.x/a", "dir.x/b", "x_", "x__cls"};
    struct catalog *c = catalog_of(keys);
    struct pack_names n;
    assert_int_equal(pack_names_open(&n, c, NULL), 0);
    for (uint64_t i = 0; i < catalog_count(c); i++)
        assert_string_equal(name_of(&n, c, i), stems[i]);
    pack_names_close(&n);
    catalog_close(c);
}

static void many_samples_of_one_stem_get_names_of_their_own(void **state)
{
    (void)state;
    enum { N = 20000 };
    char (*texts)[32] = malloc(N * sizeof(*texts));
    const char **keys = calloc(N + 1, sizeof(*keys));
    for (int i = 0; i < N; i++) {
        snprintf(texts[i], sizeof(*texts), "d/frame.%05d", i);
        keys[i] = texts[i];
    }
    struct catalog *c = catalog_of(keys);
    struct pack_names n;
    assert_int_equal(pack_names_open(&n, c, NULL), 0);
    assert_string_equal(name_of(&n, c, 0), "d/frame");
    assert_string_equal(name_of(&n, c, 1), "d/frame-2");
    assert_string_equal(name_of(&n, c, N - 1), "d/frame-20000");
    pack_names_close(&n);
    catalog_close(c);
    free(keys);
    free(texts);
}

#define T(name) cmocka_unit_test_setup_teardown(name, make, unmake)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_pack_has_the_fingerprint_of_its_folder),
        T(shards_have_the_fingerprint_of_their_folder),
        T(a_sample_in_a_pack_is_an_extent_of_it),
        T(verify_and_unpack_agree_with_what_was_packed),
        T(names_are_kept_unless_they_would_be_misunderstood),
        T(many_samples_of_one_stem_get_names_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
