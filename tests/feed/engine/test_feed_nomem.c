/* Every allocation of the engine may fail, once or from then on for ever: opening, an epoch and closing end with what they end with
 * otherwise, or with FB_E_NOMEM. They never crash, hang, or give other data.
 *
 * The program is linked so that the library's calls of malloc and its kin come here (--wrap). Each trial is a child of its own: it fails
 * the k-th allocation, compares the epoch's digest with that of an undisturbed run, and has an alarm for when it hangs. Samples of all k
 * are tried; FB_SOAK tries all.
 */
#include "../tally.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../codec/image/jpeg_maker.h"
#include "base/rng.h"

enum { FILES = 6, HANGS_AFTER_S = 30 };
enum mode { COUNT, ONCE, FOR_EVER };
enum outcome { FINE = 40 /* sanitizers end with 1 */, NO_MEMORY, WRONG_CODE, WRONG_DATA, LEAKS };

/* ---- failing ---- */

struct shared { /* between parent and child */
    atomic_long allocations;
    uint64_t digest;
    int code;
    char said[600];
};
static struct shared *shared;
static enum mode mode;
static long fail_at;
static atomic_bool is_armed;
static _Thread_local bool is_exempt; /* what the test itself does with a batch */

static bool fails(void)
{
    if (!atomic_load(&is_armed) || is_exempt)
        return false;
    long k = atomic_fetch_add(&shared->allocations, 1);
    bool is_it = (mode == ONCE && k == fail_at) || (mode == FOR_EVER && k >= fail_at);
    if (is_it)
        errno = ENOMEM;
    return is_it;
}

#define WRAP(type, name, parameters, arguments)          \
    type __real_##name parameters;                       \
    type __wrap_##name parameters;                       \
    type __wrap_##name parameters                        \
    {                                                    \
        return fails() ? NULL : __real_##name arguments; \
    }
WRAP(void *, malloc, (size_t n), (n))
WRAP(void *, calloc, (size_t n, size_t m), (n, m))
WRAP(void *, realloc, (void *p, size_t n), (p, n))
WRAP(void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(char *, strdup, (const char *s), (s))
WRAP(char *, strndup, (const char *s, size_t n), (s, n))
WRAP(void *, memory_map, (size_t n), (n))

/* ---- sources ---- */

static char root[200];

static void write_file(const char *folder, int i, const char *ending, const void *bytes, size_t n)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s/%d.%s", root, folder, i, ending);
    FILE *f = fopen(path, "wb");
    assert_true(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static void make_folder(const char *name)
{
    char path[400];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void make_pictures(void)
{
    static const struct jpeg_recipe recipe = {"4:2:0", 3, {0x22, 0x11, 0x11}};
    make_folder("pictures");
    for (int i = 0; i < FILES; i++) {
        struct bytes b = jpeg_make(&recipe, 48, 40);
        write_file("pictures", i, "jpg", b.data, b.n);
        free(b.data);
    }
}

/* float32 of `rows` x 5, or of i + 2 x 5. */
static void make_arrays(const char *folder, int rows)
{
    make_folder(folder);
    for (int i = 0; i < FILES; i++) {
        char file[128 + 4096] = "\x93NUMPY\x01\x00\x76\x00";
        int n = rows ? rows : i + 2;
        int head = snprintf(file + 10, 118, "{'descr': '<f4', 'fortran_order': False, 'shape': (%d, 5), }", n);
        memset(file + 10 + head, ' ', (size_t)(117 - head));
        file[127] = '\n';
        for (int k = 0; k < n * 5; k++) {
            float x = (float)(i * 100 + k);
            memcpy(file + 128 + 4 * k, &x, 4);
        }
        write_file(folder, i, "npy", file, (size_t)(128 + 4 * 5 * n));
    }
}

static void make_sound(void)
{
    make_folder("sound");
    for (int i = 0; i < FILES; i++) {
        uint8_t file[44 + 2 * 4000] = {0};
        uint32_t data = 2 * (2000 + 300 * (uint32_t)i), riff = 36 + data;
        memcpy(file, "RIFF....WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data", 40);
        memcpy(file + 4, &riff, 4);
        memcpy(file + 40, &data, 4);
        for (uint32_t k = 0; k < data; k++)
            file[44 + k] = (uint8_t)(k * 7 + (uint32_t)i);
        write_file("sound", i, "wav", file, 44 + data);
    }
}

/* A table of the pictures with labels, and an archive of them. */
static void make_table_and_archive(void)
{
    char path[400], command[600];
    snprintf(path, sizeof(path), "%s/table.csv", root);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "path,age,name\n");
    for (int i = 0; i < FILES; i++)
        fprintf(f, "pictures/%d.jpg,%d,%s\n", i, 20 + i, i % 2 ? "a" : "b");
    assert_int_equal(fclose(f), 0);
    snprintf(path, sizeof(path), "%s/table.jsonl", root);
    assert_non_null(f = fopen(path, "w"));
    for (int i = 0; i < FILES; i++)
        fprintf(f, "{\"path\": \"pictures/%d.jpg\", \"pose\": [%d, 0.5, 2], \"label\": %d}\n", i, i, i % 2);
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof(command),
             "cd '%s' && cp -r pictures labelled && cd labelled && "
             "for i in *.jpg; do echo '{\"pose\": [1, 2.5]}' > ${i%%.jpg}.json; done && cd .. && tar -cf pictures.tar labelled",
             root);
    assert_int_equal(system(command), 0);
}

struct source {
    const char *name, *folder, *transforms, *io, *device, *fields;
    int sample, collate;
    bool takes_order, is_fresh, is_cached, maps, skips;
};

static const struct source sources[] = {
    {.name = "pictures",
     .folder = "pictures",
     .transforms = "random_resized_crop size=32,32; random_horizontal_flip p=0.5",
     .is_fresh = true},
    {.name = "pictures of a size found out", .folder = "pictures", .transforms = "random_horizontal_flip p=0.5", .io = "pread"},
    {.name = "pictures from a slow disk through a cache",
     .folder = "pictures",
     .transforms = "resize size=16,16",
     .io = "slow:latency_us=200",
     .is_cached = true},
    {.name = "pictures in a given order through a function",
     .folder = "pictures",
     .transforms = "resize size=16,16; map size=16,16",
     .takes_order = true,
     .maps = true},
    {.name = "a table with labels, balanced",
     .folder = "table.csv",
     .fields = "age",
     .transforms = "resize size=16,16",
     .is_fresh = true,
     .skips = true},
    {.name = "a table of JSON", .folder = "table.jsonl", .transforms = "resize size=16,16", .is_fresh = true},
    {.name = "an archive, to a device",
     .folder = "pictures.tar",
     .transforms = "random_crop size=16",
     .device = "emulated:1GB/s,20us",
     .is_fresh = true},
    {.name = "rows", .folder = "rows", .sample = FB_SAMPLE_ROW, .is_fresh = true},
    {.name = "rows by io", .folder = "rows", .sample = FB_SAMPLE_ROW, .skips = true, .io = "slow:latency_us=100"},
    {.name = "bags, padded", .folder = "bags", .sample = FB_SAMPLE_FILE, .collate = FB_COLLATE_PAD},
    {.name = "bags, ragged, by io", .folder = "bags", .sample = FB_SAMPLE_FILE, .collate = FB_COLLATE_RAGGED, .io = "slow:latency_us=100"},
    {.name = "sound", .folder = "sound", .transforms = "crop_or_pad samples=2500", .is_fresh = true},
};
enum { SOURCES = sizeof(sources) / sizeof(sources[0]) };

/* ---- one trial ---- */

int __lsan_do_recoverable_leak_check(void) __attribute__((weak)); /* there with AddressSanitizer */

static int pass_on(void *ctx, struct fb_map *m, struct fb_error *e)
{
    (void)ctx;
    uint8_t *to = m->make(m, FB_UINT8, m->height, m->width, e);
    if (to)
        memcpy(to, m->pixels, (size_t)m->height * (size_t)m->width * 3);
    return to ? 0 : e->code;
}

static int give_order(fb_loader *l, const struct source *s, struct fb_error *e)
{
    static const uint64_t order[FILES] = {3, 1, 0, 2, 5, 4};
    return s->takes_order ? fb_push_order(l, order, FILES, 1, e) : 0;
}

static int take_all(fb_loader *l, struct tally *t, struct fb_error *e)
{
    fb_batch *b;
    int rc;
    while ((rc = fb_next_batch(l, &b, e)) == 1) {
        rc = fb_use_batch(b, 0, e);
        is_exempt = true; /* keys of rows are made when somebody asks */
        if (rc >= 0)
            count_batch(b, t);
        is_exempt = false;
        fb_release_batch(b);
        if (rc < 0)
            break;
    }
    return rc;
}

/* Two epochs, to the end or to the first error. */
static int run(const struct source *s, struct tally *t, struct fb_error *e)
{
    static char folder[300], home[300], cache[300], stats[1 << 16];
    fb_options o;
    fb_loader *l;
    fb_init_options(&o);
    snprintf(folder, sizeof(folder), "%s/%s", root, s->folder);
    snprintf(home, sizeof(home), "%s/%s", root, s->is_fresh ? "fresh" : "home");
    snprintf(cache, sizeof(cache), "%s/cache", root);
    o.source = folder;
    o.catalog_dir = home;
    o.batch_size = 4;
    o.threads = 2;
    o.memory = 64 << 20;
    o.rank = 0;
    o.world_size = 1;
    o.shuffle = !s->takes_order;
    o.transforms = s->transforms;
    o.io = s->io;
    o.sample = s->sample;
    o.collate = s->collate;
    o.takes_order = s->takes_order;
    o.fields = s->fields;
    o.is_balanced = s->fields != NULL;
    o.device = s->device;
    o.on_error = s->skips ? FB_SKIP : FB_RAISE;
    o.map = s->maps ? pass_on : NULL;
    o.cache_dir = s->is_cached ? cache : NULL;
    o.cache_ram = s->is_cached ? 1 << 20 : 0;
    int rc = fb_open(&o, &l, e);
    for (int epoch = 0; rc >= 0 && epoch < 2; epoch++) {
        rc = fb_start_epoch(l, epoch, e) < 0 ? e->code : give_order(l, s, e);
        if (rc >= 0)
            rc = take_all(l, t, e);
    }
    if (l)
        fb_get_stats(l, stats, sizeof(stats));
    fb_close(l);
    return rc;
}

static enum outcome judge(int rc, const struct fb_error *e, const struct tally *t, uint64_t expected)
{
    shared->code = rc;
    if (rc < 0)
        fb_format_error(e, shared->said, sizeof(shared->said));
    if (rc == FB_E_NOMEM)
        return NO_MEMORY;
    if (rc < 0)
        return WRONG_CODE;
    return mode == COUNT || t->digest == expected ? FINE : WRONG_DATA;
}

static void be_the_child(const struct source *s, uint64_t expected)
{
    struct fb_error e = {0};
    struct tally t = {0};
    alarm(HANGS_AFTER_S);
    atomic_store(&is_armed, true);
    int rc = run(s, &t, &e);
    atomic_store(&is_armed, false);
    shared->digest = t.digest;
    enum outcome o = judge(rc, &e, &t, expected);
    if (o <= NO_MEMORY && __lsan_do_recoverable_leak_check && __lsan_do_recoverable_leak_check())
        o = LEAKS;
    _exit((int)o);
}

static void clean(void)
{
    char command[500];
    snprintf(command, sizeof(command), "rm -rf '%s/fresh' '%s/cache'", root, root);
    assert_int_equal(system(command), 0);
}

/* True: as promised. */
static bool try_at(const struct source *s, enum mode m, long k, uint64_t expected)
{
    int status;
    mode = m;
    fail_at = k;
    atomic_store(&shared->allocations, 0);
    shared->said[0] = 0;
    if (s->is_fresh || s->is_cached)
        clean();
    pid_t child = fork();
    if (child == 0)
        be_the_child(s, expected);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && (WEXITSTATUS(status) == FINE || WEXITSTATUS(status) == NO_MEMORY))
        return true;
    print_message("%s, allocation %ld fails %s: %s %d: %s\n", s->name, k, m == ONCE ? "once" : "and all after it",
                  WIFEXITED(status)             ? "outcome"
                  : WTERMSIG(status) == SIGALRM ? "hangs"
                                                : "signal",
                  WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), shared->said);
    return false;
}

/* Without failures: how many allocations there are, and what comes. */
static long undisturbed(const struct source *s, uint64_t *digest)
{
    assert_true(try_at(s, COUNT, -1, 0));
    assert_int_equal(shared->code, 0);
    *digest = shared->digest;
    return atomic_load(&shared->allocations);
}

static long number_of(const char *name, long otherwise)
{
    const char *s = getenv(name);
    return s ? atol(s) : otherwise;
}

/* FB_NOMEM_TRIES: how many of each. FB_NOMEM_AT: this one only. */
static void sweep(const struct source *s, struct rng *rng)
{
    uint64_t digest;
    long count = undisturbed(s, &digest), only = number_of("FB_NOMEM_AT", -1);
    long tries = getenv("FB_SOAK") ? count : number_of("FB_NOMEM_TRIES", 14);
    int bad = 0;
    for (enum mode m = ONCE; m <= FOR_EVER; m++)
        for (long i = 0; i < (only >= 0 ? 1 : tries < count ? tries : count); i++) {
            long k = only >= 0 ? only : tries >= count ? i : (long)((double)count * ((double)i + rng_double(rng)) / (double)tries);
            bad += !try_at(s, m, k, digest);
        }
    if (bad)
        print_message("%s: %d of %ld allocations tried\n", s->name, bad, count);
    assert_int_equal(bad, 0);
}

/* ---- */

static void any_allocation_may_fail(void **state)
{
    const struct source *s = *state;
    struct rng rng = rng_stream(RNG_TRANSFORM, (uint64_t)number_of("FB_NOMEM_SEED", 1), (uint64_t)(s - sources), 0, 0);
    sweep(s, &rng);
}

static int make(void **state)
{
    (void)state;
    char template[] = "/tmp/fb-nomem-XXXXXX";
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || !mkdtemp(template))
        return -1;
    snprintf(root, sizeof(root), "%s", template);
    make_pictures();
    make_arrays("rows", 7);
    make_arrays("bags", 0);
    make_sound();
    make_table_and_archive();
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[300];
    snprintf(command, sizeof(command), "rm -rf '%s'", root);
    return system(command);
}

int main(void)
{
    struct CMUnitTest tests[SOURCES];
    for (int i = 0; i < SOURCES; i++)
        tests[i] = (struct CMUnitTest){sources[i].name, any_allocation_may_fail, NULL, NULL, (void *)(uintptr_t)&sources[i]};
    cmocka_set_test_filter(getenv("FB_TEST"));
    return cmocka_run_group_tests_name("any_allocation_may_fail", tests, make, end);
}
