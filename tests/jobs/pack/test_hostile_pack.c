/* Packs that others made to harm: everything in them has right checksums, and what their catalogs say is a lie. Nothing outside of a
 * pack is read through it, by whatever job opens it. */
#include <fcntl.h>
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

#include "base/checksum.h"
#include "base/round_up.h"
#include "dataset/dataset.h"
#include "dataset/pack/pack_index.h"
#include "dataset/tar/tar_header.h"
#include "jobs/pack.h"
#include "jobs/output/pack_record.h"
#include "jobs/stage.h"
#include "jobs/unpack.h"
#include "jobs/verify.h"

enum { MEMBER_BYTES = 65536, MEMBERS_END = TAR_BLOCK + MEMBER_BYTES };
static const char secret[] = "a private key of the user, 41 bytes long\n";

static char root[128];

static int make(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "%s/fb-hostile-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static int unmake(void **state)
{
    (void)state;
    return nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *at(const char *name)
{
    static char paths[8][512];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(paths[turn], sizeof(paths[0]), "%s/%s", root, name);
    return paths[turn];
}

static void put(const char *name, const void *bytes, size_t n)
{
    FILE *f = fopen(at(name), "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

/* Does the file hold these bytes anywhere? */
static bool holds(const char *name, const char *bytes, size_t n)
{
    FILE *f = fopen(at(name), "rb");
    if (!f)
        return false;
    static char all[4 << 20];
    size_t got = fread(all, 1, sizeof(all), f);
    fclose(f);
    return memmem(all, got, bytes, n) != NULL;
}

/* ---- forging ---- */

/* What a catalog may claim beside one sample in the pack. */
struct claim {
    const char *key;
    bool is_file; /* no extent: the sample is the file named by its key */
    uint64_t offset, length;
    const char *other_object; /* a second sample in it */
    const char *further_file; /* of the sample */
    bool has_parts;
    const char *directory;
    const char *note, *note_text;
};

static size_t forge_catalog(const struct claim *c, const char *name)
{
    struct fb_error e;
    struct catalog_writer *w;
    error_clear(&e);
    assert_int_equal(catalog_writer_open(&w, &e), 0);
    if (c->note)
        assert_int_equal(catalog_add_note(w, c->note, c->note_text, &e), 0);
    if (c->directory)
        assert_int_equal(catalog_add_dir(w, c->directory, 1, &e), 0);
    const void *values[1] = {NULL};
    int64_t number = 1;
    if (c->further_file) {
        assert_true(catalog_add_file_field(w, "mask", &e) >= 0);
        number = catalog_add_file(w, c->further_file, sizeof(secret) - 1, 1, &e);
        assert_true(number >= 0);
        values[0] = &number;
    }
    if (c->has_parts) {
        assert_true(catalog_add_parts_field(w, &e) >= 0);
        assert_true(catalog_add_file(w, "part", 10, 1, &e) >= 0);
        values[0] = &number;
    }
    struct catalog_sample s = {.key = c->key,
                               .object = c->is_file     ? NULL
                                         : c->has_parts ? "part"
                                                        : "pack",
                               .offset = c->offset,
                               .length = c->length,
                               .object_size = c->is_file ? c->length : INT64_MAX,
                               .mtime_ns = 1};
    if (c->is_file)
        s.object = c->key;
    if (c->has_parts)
        s.offset = 0, s.length = s.object_size = 10;
    assert_int_equal(catalog_add_sample(w, &s, values, &e), 0);
    if (c->other_object) {
        s.key = "zz";
        s.object = c->other_object;
        assert_int_equal(catalog_add_sample(w, &s, values, &e), 0);
    }
    assert_int_equal(catalog_finish(w, at(name), NULL, &e), 0);
    struct stat st;
    assert_int_equal(stat(at(name), &st), 0);
    return (size_t)st.st_size;
}

static uint8_t bytes[1 << 20];

static uint64_t add_section(struct pack_head *h, enum pack_section_id id, uint64_t index, uint64_t p, uint64_t n)
{
    h->section[id] = (struct pack_section){p, n, checksum_of(bytes + index + p, n)};
    return (p + n + 7) & ~UINT64_C(7);
}

static void put_header(uint64_t where, const char *name, uint64_t size)
{
    struct text t = {.limit = 4096};
    pack_put_header(&t, name, size, 0);
    assert_int_equal(t.length, TAR_BLOCK);
    memcpy(bytes + where, t.data, TAR_BLOCK);
    text_free(&t);
}

/* A pack of one member, sound but for its catalog. */
static void forge(const struct claim *c, const char *name)
{
    const uint64_t index = MEMBERS_END + TAR_BLOCK;
    uint64_t samples = c->other_object ? 2 : 1, p = sizeof(struct pack_head);
    memset(bytes, 0, sizeof(bytes));
    put_header(0, "a/x.jpg", MEMBER_BYTES);
    struct pack_head h = {.magic = PACK_HEAD_MAGIC,
                          .version = PACK_VERSION,
                          .section_count = PACK_SECTIONS,
                          .samples = samples,
                          .members_end = MEMBERS_END,
                          .is_last_shard = 1};
    size_t n = forge_catalog(c, "forged.catalog");
    FILE *f = fopen(at("forged.catalog"), "rb");
    assert_int_equal(fread(bytes + index + p, 1, n, f), n);
    fclose(f);
    p = add_section(&h, PACK_CATALOG, index, p, n);
    struct pack_record r[2] = {{.checksum = checksum_of(bytes + TAR_BLOCK, 100)}, {0}};
    memcpy(bytes + index + p, r, samples * sizeof(*r));
    p = add_section(&h, PACK_RECORDS, index, p, samples * sizeof(*r));
    p = add_section(&h, PACK_NAMES, index, p, 0);
    p = add_section(&h, PACK_LEARNT, index, p, 0);
    h.first_edge = h.last_edge = checksum_of(bytes, TAR_BLOCK);
    uint64_t length = round_up(p + sizeof(struct pack_foot), TAR_BLOCK), size = index + length + PACK_END_BYTES;
    put_header(MEMBERS_END, PACK_INDEX_NAME, length);
    memcpy(bytes + index, &h, sizeof(h));
    struct pack_foot foot = {.magic = PACK_FOOT_MAGIC,
                             .pack_size = size,
                             .index_offset = index,
                             .index_length = length,
                             .head_checksum = checksum_of(&h, sizeof(h))};
    foot.foot_checksum = checksum_of(&foot, sizeof(foot) - 8);
    memcpy(bytes + index + length - sizeof(foot), &foot, sizeof(foot));
    assert_int_equal(unlink(at("forged.catalog")), 0);
    put(name, bytes, size);
}

/* ---- every job ---- */

static int open_set(const char *source, struct dataset *d, struct fb_error *e)
{
    struct dataset_request r = {.source = source, .catalog_dir = at("cache")};
    error_clear(e);
    return dataset_open(d, &r, e);
}

static int pack_again(const char *source, struct fb_error *e)
{
    struct pack_request q = {.output = at("out.tar")};
    struct pack_result result;
    fb_init_options(&q.options);
    q.options.source = source;
    q.options.catalog_dir = at("cache");
    error_clear(e);
    int rc = pack_run(&q, &result, e);
    pack_result_free(&result);
    return rc;
}

static int stage_part(const char *source, struct fb_error *e)
{
    struct stage_request q = {.source = source, .target = at("staged"), .fraction = 0.99, .catalog_dir = at("cache")};
    struct stage_result result;
    error_clear(e);
    int rc = stage_run(&q, &result, e);
    stage_free(&result);
    return rc;
}

static int load(const char *source, struct fb_error *e)
{
    fb_options o;
    fb_loader *l;
    fb_batch *b;
    fb_init_options(&o);
    o.source = source;
    o.catalog_dir = at("cache");
    o.batch_size = 1;
    o.threads = 1;
    o.transforms = "resize size=8,8";
    error_clear(e);
    if (fb_open(&o, &l, e) < 0)
        return e->code;
    int rc = fb_start_epoch(l, FB_NEXT_EPOCH, e) < 0 ? e->code : fb_next_batch(l, &b, e);
    if (rc == 1)
        fb_release_batch(b);
    fb_close(l);
    return rc;
}

static void is_refused(const char *what, int rc, const struct fb_error *e)
{
    if (rc != FB_E_DATA || !e->remedy[0] || !e->path[0])
        print_error("%s: code %d, %s, %s (%s)\n", what, rc, e->path, e->cause, e->remedy);
    assert_int_equal(rc, FB_E_DATA);
    assert_true(e->remedy[0] && e->path[0]);
}

/* By the loader's way in and every job that takes packs. */
static void nobody_opens_it(const char *name)
{
    char pack[512];
    snprintf(pack, sizeof(pack), "%s", at(name));
    struct fb_error e;
    struct dataset d;
    int rc = open_set(pack, &d, &e);
    if (rc == 0)
        dataset_close(&d);
    is_refused("opening", rc, &e);
    is_refused("packing", pack_again(pack, &e), &e);
    assert_int_not_equal(access(at("out.tar"), F_OK), 0);
    is_refused("staging", stage_part(pack, &e), &e);
    is_refused("loading", load(pack, &e), &e);
    struct unpack_request u = {.source = pack, .folder = at("unpacked")};
    struct unpack_result unpacked;
    error_clear(&e);
    rc = unpack_run(&u, &unpacked, &e);
    unpack_free(&unpacked);
    is_refused("unpacking", rc, &e);
    struct verify_request v = {.source = pack};
    struct verify_result verified;
    error_clear(&e);
    assert_int_equal(verify_run(&v, &verified, &e), 0);
    assert_true(verified.damages > 0);
    verify_free(&verified);
}

/* ---- tests ---- */

static void a_pack_whose_samples_are_files_is_refused_and_reads_none(void **state)
{
    (void)state;
    mkdir(at("packs"), 0700);
    put("secret", secret, sizeof(secret) - 1);
    char absolute[512];
    snprintf(absolute, sizeof(absolute), "%s", at("secret"));
    const char *keys[] = {"../secret", absolute, "packs/../../secret", "a/x.jpg"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        forge(&(struct claim){.key = keys[i], .is_file = true, .length = sizeof(secret) - 1}, "packs/evil.tar");
        nobody_opens_it("packs/evil.tar");
        assert_false(holds("out.tar", secret, sizeof(secret) - 1));
    }
}

static void a_catalog_in_a_pack_speaks_of_nothing_but_the_pack(void **state)
{
    (void)state;
    const struct claim good = {.key = "a/x.jpg", .offset = TAR_BLOCK, .length = 100};
    struct claim bad[4] = {good, good, good, good};
    put("secret", secret, sizeof(secret) - 1);
    bad[0].other_object = at("secret");
    bad[1].further_file = at("secret");
    bad[2].directory = "..";
    bad[3].has_parts = true;
    for (size_t i = 0; i < 4; i++) {
        forge(&bad[i], "evil.tar");
        nobody_opens_it("evil.tar");
    }
    struct fb_error e;
    forge(&good, "good.tar"); /* the forger itself makes sound packs */
    int rc = pack_again(at("good.tar"), &e);
    if (rc < 0)
        print_error("%s\n", e.cause);
    assert_int_equal(rc, 0);
}

static void a_sample_outside_of_the_members_is_refused(void **state)
{
    (void)state;
    static const uint64_t extent[][2] = {
        {MEMBERS_END, 100}, {MEMBERS_END - 50, 100}, {0, MEMBERS_END + 1}, {TAR_BLOCK, INT64_MAX - TAR_BLOCK}, {INT64_MAX - 100, 100}};
    for (size_t i = 0; i < sizeof(extent) / sizeof(extent[0]); i++) {
        struct fb_error e;
        struct dataset d;
        struct claim c = {.key = "a/x.jpg", .offset = extent[i][0], .length = extent[i][1]};
        forge(&c, "evil.tar");
        int rc = open_set(at("evil.tar"), &d, &e);
        struct catalog_sample s;
        if (rc == 0) {
            rc = catalog_sample(d.catalog, 0, &s, &e);
            dataset_close(&d);
        }
        is_refused("reading", rc, &e);
        is_refused("packing", pack_again(at("evil.tar"), &e), &e);
    }
}

static void one_hostile_shard_spoils_the_set(void **state)
{
    (void)state;
    struct fb_error e;
    put("secret", secret, sizeof(secret) - 1);
    forge(&(struct claim){.key = "a/x.jpg", .offset = TAR_BLOCK, .length = 100}, "set-000000.tar");
    forge(&(struct claim){.key = "secret", .is_file = true, .length = sizeof(secret) - 1}, "set-000001.tar");
    is_refused("packing", pack_again(at("set-{000000..000001}.tar"), &e), &e);
    assert_false(holds("out.tar", secret, sizeof(secret) - 1));
}

/* A manifest may name files anywhere, and its pack keeps those names: they are names there and not paths. */
static void keys_that_look_like_paths_are_only_names(void **state)
{
    (void)state;
    put("secret", secret, sizeof(secret) - 1);
    mkdir(at("deep"), 0700);
    forge(&(struct claim){.key = "../secret", .offset = TAR_BLOCK, .length = 100}, "deep/names.tar");
    struct fb_error e;
    assert_int_equal(pack_again(at("deep/names.tar"), &e), 0);
    assert_false(holds("out.tar", secret, sizeof(secret) - 1));
    struct unpack_request u = {.source = at("deep/names.tar"), .folder = at("deep/unpacked")};
    struct unpack_result r;
    error_clear(&e);
    unpack_run(&u, &r, &e);
    unpack_free(&r);
    assert_true(holds("secret", secret, sizeof(secret) - 1)); /* and nothing was written over it */
}

static void only_a_table_of_pixels_may_say_that_it_is_one(void **state)
{
    (void)state;
    struct fb_error e;
    struct dataset d;
    forge(&(struct claim){.key = "a/x.jpg", .offset = TAR_BLOCK, .length = 48, .note = "decoded", .note_text = "4 4"}, "evil.tar");
    assert_int_equal(open_set(at("evil.tar"), &d, &e), 0);
    assert_null(catalog_note(d.catalog, "decoded"));
    assert_null(catalog_note(d.catalog, "left out"));
    dataset_close(&d);
    assert_true(load(at("evil.tar"), &e) < 0); /* it is no image */
}

/* ---- sizes of decoded pictures ---- */

/* W x H x 3 is 2^64 + n with a small n. */
static void sizes_that_wrap(char *note, size_t note_size, uint64_t *n)
{
    for (uint64_t w = 2500000001u;; w += 2) {
        unsigned __int128 wrap = (unsigned __int128)1 << 64;
        uint64_t h = (uint64_t)(wrap / (3 * (unsigned __int128)w)) + 1;
        unsigned __int128 rest = 3 * (unsigned __int128)w * h - wrap;
        if (h >> 32 || rest == 0 || rest > MEMBER_BYTES)
            continue;
        snprintf(note, note_size, "%llu %llu", (unsigned long long)h, (unsigned long long)w);
        *n = (uint64_t)rest;
        return;
    }
}

static int load_table(const char *note, uint64_t n, struct fb_error *e)
{
    char table[DECODED_HEADER_BYTES + MEMBER_BYTES] = {0};
    struct claim c = {.key = "a/x.jpg", .offset = DECODED_HEADER_BYTES, .length = n, .note = "decoded", .note_text = note};
    unsigned height = 0, width = 0;
    sscanf(note, "%u %u", &height, &width);
    assert_true(catalog_decoded_header(1, height, width, table)); /* which the note agrees with */
    put("t.npy", table, DECODED_HEADER_BYTES + n);
    forge_catalog(&c, "t.npy.catalog");
    return load(at("t.npy"), e);
}

static void a_size_of_decoded_pictures_that_wraps_around_is_refused(void **state)
{
    (void)state;
    struct fb_error e;
    char wrapping[64];
    uint64_t n;
    sizes_that_wrap(wrapping, sizeof(wrapping), &n);
    is_refused(wrapping, load_table(wrapping, n, &e), &e);
    static const char *const notes[] = {"",
                                        "4",
                                        "4 ",
                                        " 4 4",
                                        "4 4 4",
                                        "-1 4",
                                        "+4 4",
                                        "0 4",
                                        "4 0",
                                        "4  4",
                                        "0x4 4",
                                        "65501 1",
                                        "1 65501",
                                        "65500 65500",
                                        "4294967297 4",
                                        "4 4294967297",
                                        "99999999999999999999 4"};
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        is_refused(notes[i], load_table(notes[i], 48, &e), &e);
    assert_int_equal(load_table("4 4", 48, &e), 1);
    int rc = load_table("4 5", 48, &e); /* not what its samples have */
    assert_int_equal(rc, FB_E_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_pack_whose_samples_are_files_is_refused_and_reads_none, make, unmake),
        cmocka_unit_test_setup_teardown(a_catalog_in_a_pack_speaks_of_nothing_but_the_pack, make, unmake),
        cmocka_unit_test_setup_teardown(a_sample_outside_of_the_members_is_refused, make, unmake),
        cmocka_unit_test_setup_teardown(one_hostile_shard_spoils_the_set, make, unmake),
        cmocka_unit_test_setup_teardown(keys_that_look_like_paths_are_only_names, make, unmake),
        cmocka_unit_test_setup_teardown(only_a_table_of_pixels_may_say_that_it_is_one, make, unmake),
        cmocka_unit_test_setup_teardown(a_size_of_decoded_pictures_that_wraps_around_is_refused, make, unmake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
