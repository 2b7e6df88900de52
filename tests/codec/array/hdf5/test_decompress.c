/* Filters undone: every chain against the bytes it was made from, every damage refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <libdeflate.h>
#include <lz4.h>
#include <zstd.h>

#include "base/rng.h"
#include "codec/array/hdf5/lzf.h"
#include "codec/array/hdf5/decompress.h"

enum { ROOM = 1 << 16, WHOLE = 4000 };

static uint8_t original[WHOLE], stored[ROOM], spare[ROOM], out[ROOM];
static struct decompress u;

static void fill_original(uint64_t seed, bool is_noise)
{
    for (size_t i = 0; i < sizeof(original); i++)
        original[i] = (uint8_t)(is_noise ? rng_mix(seed, i) : (i / 40) * 3 + (rng_mix(seed, i) % 16 == 0));
}

static struct array_layout layout_of(const struct array_filter *filters, int count)
{
    struct array_layout a = {.name = "x",
                             .dtype = FB_FLOAT32,
                             .stored_bytes = 4,
                             .ndim = 2,
                             .shape = {100, 10},
                             .storage = ARRAY_CHUNKED,
                             .chunk_shape = {100, 10},
                             .chunk_count = 1,
                             .filter_count = count};
    memcpy(a.filter, filters, (size_t)count * sizeof(*filters));
    return a;
}

/* ---- doing what is undone ---- */

static size_t shuffle(const uint8_t *in, size_t n, size_t size, uint8_t *to)
{
    size_t count = n / size;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < size; k++)
            to[k * count + i] = in[i * size + k];
    memcpy(to + count * size, in + count * size, n - count * size);
    return n;
}

static size_t deflate(const uint8_t *in, size_t n, uint8_t *to, bool is_raw)
{
    struct libdeflate_compressor *c = libdeflate_alloc_compressor(6);
    size_t made = is_raw ? libdeflate_deflate_compress(c, in, n, to, ROOM) : libdeflate_zlib_compress(c, in, n, to, ROOM);
    libdeflate_free_compressor(c);
    assert_true(made > 0);
    return made;
}

static void put_big(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
}

static size_t lz4(const uint8_t *in, size_t n, size_t block, uint8_t *to)
{
    size_t at = 12;
    put_big(to, n, 8);
    put_big(to + 8, block, 4);
    for (size_t done = 0; done < n; done += block) {
        size_t some = n - done < block ? n - done : block;
        size_t made = (size_t)LZ4_compress_default((const char *)in + done, (char *)to + at + 4, (int)some, ROOM - (int)at - 4);
        if (made >= some) {
            memcpy(to + at + 4, in + done, some);
            made = some;
        }
        put_big(to + at, made, 4);
        at += 4 + made;
    }
    return at;
}

/* Literals, and a reference wherever the eight bytes before repeat. */
static size_t lzf(const uint8_t *in, size_t n, uint8_t *to)
{
    size_t at = 0;
    for (size_t i = 0; i < n;) {
        size_t same = 0;
        while (i >= 8 && i + same < n && same < 264 && in[i + same] == in[i + same - 8])
            same++;
        if (same >= 3) {
            size_t code = same - 2;
            to[at++] = (uint8_t)((code < 7 ? code : 7) << 5);
            if (code >= 7)
                to[at++] = (uint8_t)(code - 7);
            to[at++] = 7;
            i += same;
        } else {
            size_t some = n - i < 5 ? n - i : 5;
            to[at++] = (uint8_t)(some - 1);
            memcpy(to + at, in + i, some);
            at += some;
            i += some;
        }
    }
    return at;
}

static size_t apply(const struct array_filter *f, const uint8_t *in, size_t n, uint8_t *to)
{
    switch (f->id) {
    case ARRAY_DEFLATE: return deflate(in, n, to, false);
    case ARRAY_RAW_DEFLATE: return deflate(in, n, to, true);
    case ARRAY_SHUFFLE: return shuffle(in, n, f->param, to);
    case ARRAY_LZF: return lzf(in, n, to);
    case ARRAY_LZ4: return lz4(in, n, 1000, to);
    case ARRAY_ZSTD: return ZSTD_compress(to, ROOM, in, n, 3);
    default: break;
    }
    uint32_t sum = fletcher32_of(in, n);
    memcpy(to, in, n);
    for (int i = 0; i < 4; i++)
        to[n + (size_t)i] = (uint8_t)(sum >> 8 * i);
    return n + 4;
}

/* Applies the chain to `original` into `stored`. */
static size_t apply_all(const struct array_filter *f, int count, uint32_t skips)
{
    size_t n = sizeof(original);
    memcpy(stored, original, n);
    for (int i = 0; i < count; i++)
        if (!(skips >> i & 1)) {
            n = apply(&f[i], stored, n, spare);
            memcpy(stored, spare, n);
        }
    return n;
}

static int undo(const struct array_filter *f, int count, uint32_t skips, size_t n, struct fb_error *e)
{
    struct array_layout a = layout_of(f, count);
    uint8_t *exact = malloc(n ? n : 1); /* a read beyond its end is seen by a sanitizer */
    assert_non_null(exact);
    memcpy(exact, stored, n);
    memset(out, 0xEE, sizeof(out));
    int rc = decompress_chunk(&u, &a, skips, exact, n, out, e);
    assert_int_equal(out[WHOLE], 0xEE); /* nothing behind the place */
    free(exact);
    return rc;
}

static const struct array_filter chains[][3] = {
    {{ARRAY_DEFLATE, 0}},
    {{ARRAY_LZF, 0}},
    {{ARRAY_LZ4, 0}},
    {{ARRAY_ZSTD, 0}},
    {{ARRAY_SHUFFLE, 4}},
    {{ARRAY_FLETCHER32, 0}},
    {{ARRAY_RAW_DEFLATE, 0}},
    {{ARRAY_SHUFFLE, 4}, {ARRAY_DEFLATE, 0}},
    {{ARRAY_SHUFFLE, 2}, {ARRAY_LZF, 0}, {ARRAY_FLETCHER32, 0}},
    {{ARRAY_FLETCHER32, 0}, {ARRAY_SHUFFLE, 8}, {ARRAY_ZSTD, 0}},
    {{ARRAY_DEFLATE, 0}, {ARRAY_FLETCHER32, 0}, {ARRAY_LZ4, 0}}, /* two compressors: the size between is unknown */
    {{ARRAY_SHUFFLE, 3}, {ARRAY_SHUFFLE, 12}},
};
enum { CHAINS = sizeof(chains) / sizeof(chains[0]) };

static int length_of(const struct array_filter *f)
{
    int n = 0;
    while (n < 3 && f[n].id)
        n++;
    return n;
}

static void every_chain_gives_back_what_went_in(void **state)
{
    (void)state;
    for (int c = 0; c < CHAINS; c++)
        for (uint32_t skips = 0; skips < 1u << length_of(chains[c]); skips++)
            for (int noise = 0; noise < 2; noise++) {
                struct fb_error e = {0};
                fill_original((uint64_t)c, noise);
                size_t n = apply_all(chains[c], length_of(chains[c]), skips);
                if (undo(chains[c], length_of(chains[c]), skips, n, &e) != 0)
                    fail_msg("chain %d, skips %u: %s", c, skips, e.cause);
                assert_memory_equal(out, original, WHOLE);
            }
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    for (int c = 0; c < CHAINS; c++) {
        fill_original(3, false);
        size_t n = apply_all(chains[c], length_of(chains[c]), 0);
        for (size_t cut = 0; cut < n; cut += 1 + n / 50) {
            struct fb_error e = {0};
            if (undo(chains[c], length_of(chains[c]), 0, cut, &e) != FB_E_DATA)
                fail_msg("chain %d cut to %zu of %zu bytes is taken", c, cut, n);
            assert_non_null(strstr(e.cause, "\"x\" is damaged"));
        }
    }
}

static void random_bytes_never_write_outside(void **state)
{
    (void)state;
    for (int c = 0; c < CHAINS; c++)
        for (uint64_t seed = 0; seed < 100; seed++) {
            struct fb_error e = {0};
            fill_original(3, false);
            size_t n = apply_all(chains[c], length_of(chains[c]), 0);
            for (int k = 0; k < 4; k++)
                stored[rng_mix(seed, (uint64_t)k) % n] = (uint8_t)rng_mix(seed, (uint64_t)k + 9);
            int rc = undo(chains[c], length_of(chains[c]), 0, n, &e);
            assert_true(rc == 0 || rc == FB_E_DATA);
        }
}

static void the_bytes_before_an_array_in_a_zip_are_dropped(void **state)
{
    (void)state;
    const struct array_filter f = {ARRAY_RAW_DEFLATE, 128};
    struct fb_error e = {0};
    fill_original(4, false);
    memset(spare, 7, 128);
    memcpy(spare + 128, original, WHOLE);
    size_t n = deflate(spare, WHOLE + 128, stored, true);
    assert_int_equal(undo(&f, 1, 0, n, &e), 0);
    assert_memory_equal(out, original, WHOLE);
    n = deflate(spare, WHOLE + 127, stored, true);
    assert_int_equal(undo(&f, 1, 0, n, &e), FB_E_DATA);
}

static void a_budget_too_small_is_an_error_of_its_own(void **state)
{
    (void)state;
    struct budget b = {.limit = 1000};
    struct decompress poor;
    struct fb_error e = {0};
    struct array_layout a = layout_of(chains[7], 2);
    fill_original(5, false);
    size_t n = apply_all(chains[7], 2, 0);
    decompress_init(&poor, &b);
    assert_int_equal(decompress_chunk(&poor, &a, 0, stored, n, out, &e), FB_E_BUDGET);
    decompress_free(&poor);
    assert_int_equal(b.used, 0);
}

static void old_swapped_sums_are_taken(void **state)
{
    (void)state;
    const struct array_filter f = {ARRAY_FLETCHER32, 0};
    struct fb_error e = {0};
    fill_original(6, true);
    size_t n = apply_all(&f, 1, 0);
    uint8_t *sum = stored + n - 4, a = sum[0], b = sum[2];
    sum[0] = sum[1], sum[1] = a;
    sum[2] = sum[3], sum[3] = b;
    assert_int_equal(undo(&f, 1, 0, n, &e), 0);
    sum[3] ^= 1;
    assert_int_equal(undo(&f, 1, 0, n, &e), FB_E_DATA);
}

/* Word by word, as the format defines it. */
static uint32_t slow_fletcher32(const uint8_t *bytes, size_t n)
{
    uint64_t low = 0, high = 0;
    for (size_t i = 0; i < n; i += 2) {
        low += (uint64_t)bytes[i] << 8 | (i + 1 < n ? bytes[i + 1] : 0);
        while (low >> 16)
            low = (low & 0xffff) + (low >> 16);
        high += low;
        while (high >> 16)
            high = (high & 0xffff) + (high >> 16);
    }
    return (uint32_t)(high << 16 | low);
}

static void sums_of_every_length_are_right(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* noise, the largest words, zeros */
        for (size_t i = 0; i < sizeof(stored); i++)
            stored[i] = (uint8_t)(kind == 0 ? rng_mix(5, i) : kind == 1 ? 0xff : 0);
        for (size_t n = 0; n < sizeof(stored); n += n < 5000 ? 1 : 977)
            assert_int_equal(fletcher32_of(stored, n), slow_fletcher32(stored, n));
    }
    /* 0102 + 0304 + 0500 = 0906; 0102 + 0406 + 0906 = 0e0e */
    assert_int_equal(fletcher32_of((const uint8_t *)"\1\2\3\4\5", 5), 0x0e0e0906);
}

static void unshuffling_gives_back_every_length(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 300};
    for (size_t i = 0; i < 2000; i++)
        spare[i] = (uint8_t)rng_mix(1, i);
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
        for (size_t n = 0; n < 1200; n += n < 300 ? 1 : 37) {
            shuffle(spare, n, sizes[s], stored);
            memset(out, 0xEE, n + 64);
            unshuffle(out, stored, n, sizes[s]);
            assert_memory_equal(out, spare, n);
            assert_int_equal(out[n], 0xEE);
        }
}

static void lzf_copies_overlapping_references(void **state)
{
    (void)state;
    /* "ab", then 10 more from two bytes back */
    static const uint8_t in[] = {1, 'a', 'b', 7 << 5, 1, 1};
    size_t made = 0;
    assert_true(lzf_expand(in, sizeof(in), out, 100, &made));
    assert_int_equal(made, 12);
    assert_memory_equal(out, "abababababab", 12);
    assert_false(lzf_expand(in, sizeof(in), out, 11, &made));
    assert_false(lzf_expand(in, 5, out, 100, &made));
    static const uint8_t before_the_start[] = {0, 'a', 1 << 5, 1};
    assert_false(lzf_expand(before_the_start, sizeof(before_the_start), out, 100, &made));
}

static int close_all(void **state)
{
    (void)state;
    decompress_free(&u);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chain_gives_back_what_went_in),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(random_bytes_never_write_outside),
        cmocka_unit_test(the_bytes_before_an_array_in_a_zip_are_dropped),
        cmocka_unit_test(a_budget_too_small_is_an_error_of_its_own),
        cmocka_unit_test(old_swapped_sums_are_taken),
        cmocka_unit_test(sums_of_every_length_are_right),
        cmocka_unit_test(unshuffling_gives_back_every_length),
        cmocka_unit_test(lzf_copies_overlapping_references),
    };
    return cmocka_run_group_tests(tests, NULL, close_all);
}
