#include "codec/array/convert/array_convert.h"

#include <assert.h>
#include <string.h>

#include "codec/array/convert/array_convert_block.h"

static bool is_sound(enum array_code code)
{
    return code != ARRAY_PLAIN && code != ARRAY_SWAPPED;
}

static bool is_float(enum fb_dtype t)
{
    return t == FB_FLOAT16 || t == FB_BFLOAT16 || t == FB_FLOAT32 || t == FB_FLOAT64;
}

uint32_t array_stored_bytes(enum array_code code, enum fb_dtype dtype)
{
    static const uint32_t sound[ARRAY_CODES] = {[ARRAY_PCM_U8] = 1,  [ARRAY_PCM_S16] = 2, [ARRAY_PCM_S24] = 3, [ARRAY_PCM_S32] = 4,
                                                [ARRAY_PCM_F32] = 4, [ARRAY_PCM_F64] = 8, [ARRAY_ALAW] = 1,    [ARRAY_MULAW] = 1};
    if ((unsigned)code >= ARRAY_CODES)
        return 0;
    return is_sound(code) ? sound[code] : (uint32_t)fb_dtype_size(dtype);
}

/* ---- preparing ---- */

static int refuse(const struct array_conversion *c, struct fb_error *e, const char *why)
{
    static const char *const code_name[ARRAY_CODES] = {
        [ARRAY_PCM_U8] = "8-bit sound",   [ARRAY_PCM_S16] = "16-bit sound",  [ARRAY_PCM_S24] = "24-bit sound",
        [ARRAY_PCM_S32] = "32-bit sound", [ARRAY_PCM_F32] = "float32 sound", [ARRAY_PCM_F64] = "float64 sound",
        [ARRAY_ALAW] = "A-law sound",     [ARRAY_MULAW] = "mu-law sound"};
    const char *from = is_sound(c->code) ? code_name[c->code] : fb_dtype_name(c->from);
    return error_set(e, FB_E_USAGE, "convert", "cannot turn %s into %s: %s", from, fb_dtype_name(c->to), why);
}

/* 24 bits of float32 hold the smaller integers; the others are normalised in float64. */
static bool needs_f64(const struct array_conversion *c)
{
    if (c->to == FB_FLOAT64 || is_sound(c->code))
        return c->to == FB_FLOAT64;
    return c->from == FB_FLOAT64 || (c->norm.period && !is_float(c->from) && fb_dtype_size(c->from) >= 4);
}

static enum array_wide choose_wide(const struct array_conversion *c)
{
    if (!is_float(c->to))
        return !is_sound(c->code) && is_float(c->from) ? ARRAY_WIDE_F64 : ARRAY_WIDE_I64;
    return needs_f64(c) ? ARRAY_WIDE_F64 : ARRAY_WIDE_F32;
}

static void choose_steps(struct array_conversion *c, const struct array_kernels *k)
{
    static const enum fb_dtype wide_dtype[] = {[ARRAY_WIDE_I64] = FB_INT64, [ARRAY_WIDE_F32] = FB_FLOAT32, [ARRAY_WIDE_F64] = FB_FLOAT64};
    c->wide = choose_wide(c);
    array_step *const *widen_by_dtype = c->wide == ARRAY_WIDE_I64 ? k->widen_i64 : c->wide == ARRAY_WIDE_F32 ? k->widen_f32 : k->widen_f64;
    array_step *const *narrow_by_dtype = c->wide == ARRAY_WIDE_I64   ? k->narrow_i64
                                         : c->wide == ARRAY_WIDE_F32 ? k->narrow_f32
                                                                     : k->narrow_f64;
    if (is_sound(c->code))
        c->widen = c->wide == ARRAY_WIDE_F32 ? k->sound_f32[c->code] : c->wide == ARRAY_WIDE_F64 ? k->sound_f64[c->code] : NULL;
    else
        c->widen = widen_by_dtype[c->from];
    c->narrow = narrow_by_dtype[c->to];
    if (c->norm.period)
        return;
    bool is_plain = c->code == ARRAY_PLAIN;
    if (!is_sound(c->code) && c->from == c->to && c->from != FB_BOOL)
        c->direct = is_plain ? k->copy[c->to_bytes] : k->swap[c->to_bytes];
    else if (is_sound(c->code) && c->to == FB_INT16)
        c->direct = k->sound_i16[c->code];
    else if (c->to == wide_dtype[c->wide] && c->code != ARRAY_SWAPPED)
        c->direct = c->widen;
    else if (is_plain && c->from == wide_dtype[c->wide])
        c->direct = c->narrow;
}

int array_conversion_init(struct array_conversion *c, enum array_code code, enum fb_dtype from, enum fb_dtype to,
                          const struct array_norm *norm, struct fb_error *e)
{
    *c = (struct array_conversion){.code = code, .from = from, .to = to};
    c->from_bytes = array_stored_bytes(code, from);
    c->to_bytes = (uint32_t)fb_dtype_size(to);
    if (!c->from_bytes || !c->to_bytes)
        return error_set(e, FB_E_USAGE, "convert", "no such element type (%d to %d, stored as %d)", (int)from, (int)to, (int)code);
    if (norm)
        c->norm = *norm;
    if (norm && (!norm->period || !norm->repeat || !norm->mean || !norm->inv_std))
        return error_set(e, FB_E_USAGE, "convert", "normalising needs a mean and a deviation");
    if (norm && !is_float(to))
        return refuse(c, e, "normalised numbers have fractions; ask for a float dtype");
    choose_steps(c, array_kernels());
    if (is_sound(code) && !is_float(to) && to != FB_INT16)
        return refuse(c, e, "sound is given as float32, another float dtype, or int16");
    if (is_sound(code) && to == FB_INT16 && !c->direct)
        return refuse(c, e, "that loses bits; ask for float32");
    assert(c->direct || (c->widen && c->narrow));
    return 0;
}

bool array_conversion_is_copy(const struct array_conversion *c)
{
    const struct array_kernels *k = array_kernels();
    return c->direct && (c->direct == k->copy[c->to_bytes] || (c->to_bytes == 1 && c->from == c->to));
}

/* ---- a block at a time ---- */

static void normalise_f64(const struct array_norm *norm, uint64_t first, double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t k = norm->period == 1 ? 0 : (first + i) / norm->repeat % norm->period;
        x[i] = (x[i] - (double)norm->mean[k]) * (double)norm->inv_std[k];
    }
}

/* Runs of numbers with the same pair, or with pairs side by side; short runs are not worth a call. */
static void normalise_f32(const struct array_norm *norm, uint64_t first, float *x, size_t n)
{
    enum { SHORT = 8 };
    const struct array_kernels *kernels = array_kernels();
    uint64_t run = norm->period == 1 ? n : norm->repeat > 1 ? norm->repeat : norm->period, k = first / norm->repeat % norm->period;
    uint64_t left = norm->period == 1 ? n : norm->repeat > 1 ? run - first % run : run - k;
    for (size_t i = 0; i < n; left = run) {
        size_t part = left < n - i ? (size_t)left : n - i;
        bool has_one = norm->period == 1 || norm->repeat > 1;
        if (part < SHORT)
            for (size_t j = 0; j < part; j++)
                x[i + j] = (x[i + j] - norm->mean[has_one ? k : k + j]) * norm->inv_std[has_one ? k : k + j];
        else if (has_one)
            kernels->norm_one(x + i, norm->mean[k], norm->inv_std[k], part);
        else
            kernels->norm_each(x + i, norm->mean + k, norm->inv_std + k, part);
        i += part;
        k = has_one ? (k + 1) % norm->period : 0;
    }
}

void array_normalise_block(const struct array_conversion *c, uint64_t first, void *wide, size_t n)
{
    if (c->norm.period && c->wide == ARRAY_WIDE_F32)
        normalise_f32(&c->norm, first, wide, n);
    else if (c->norm.period)
        normalise_f64(&c->norm, first, wide, n);
}

void array_widen_block(const struct array_conversion *c, const void *from, void *wide, size_t n)
{
    uint64_t swapped[ARRAY_BLOCK];
    assert(n <= ARRAY_BLOCK);
    if (c->code == ARRAY_SWAPPED) {
        array_kernels()->swap[c->from_bytes](swapped, from, n);
        from = swapped;
    }
    c->widen(wide, from, n);
}

/* A wide number that is the wanted one is made in its place. */
static bool is_wide_wanted(const struct array_conversion *c)
{
    return (c->wide == ARRAY_WIDE_F32 && c->to == FB_FLOAT32) || (c->wide == ARRAY_WIDE_F64 && c->to == FB_FLOAT64);
}

void array_convert_from(const struct array_conversion *c, uint64_t first, const void *from, void *to, size_t count)
{
    if (c->direct) {
        c->direct(to, from, count);
        return;
    }
    uint64_t block[ARRAY_BLOCK];
    bool is_final = is_wide_wanted(c);
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < ARRAY_BLOCK ? count - i : ARRAY_BLOCK;
        uint8_t *out = (uint8_t *)to + i * c->to_bytes;
        void *wide = is_final ? (void *)out : block;
        array_widen_block(c, (const uint8_t *)from + i * c->from_bytes, wide, n);
        array_normalise_block(c, first + i, wide, n);
        if (!is_final)
            c->narrow(out, wide, n);
    }
}

void array_convert(const struct array_conversion *c, const void *from, void *to, size_t count)
{
    array_convert_from(c, 0, from, to, count);
}

static void fill_zero(const struct array_conversion *c, uint64_t first, void *to, size_t count)
{
    uint64_t block[ARRAY_BLOCK];
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < ARRAY_BLOCK ? count - i : ARRAY_BLOCK;
        memset(block, 0, sizeof(block));
        array_normalise_block(c, first + i, block, n);
        c->narrow((uint8_t *)to + i * c->to_bytes, block, n);
    }
}

void array_convert_fill(const struct array_conversion *c, uint64_t first, const void *value, void *to, size_t count)
{
    uint8_t stored[ARRAY_BLOCK * sizeof(uint64_t)];
    if (!value && !c->norm.period)
        memset(to, 0, count * c->to_bytes);
    else if (!value)
        fill_zero(c, first, to, count);
    if (!value)
        return;
    for (size_t i = 0; i < ARRAY_BLOCK && i < count; i++)
        memcpy(stored + i * c->from_bytes, value, c->from_bytes);
    for (size_t i = 0, n; i < count; i += n) {
        n = count - i < ARRAY_BLOCK ? count - i : ARRAY_BLOCK;
        array_convert_from(c, first + i, stored, (uint8_t *)to + i * c->to_bytes, n);
    }
}
