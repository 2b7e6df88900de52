/* The steps of a conversion in plain C: from a stored number to a wide one (int64, float32, float64), and from a wide one to a place. */
#include <string.h>

#include "base/half.h"
#include "codec/array/convert/array_convert_kernels.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "PLAIN means little-endian: the other kind of machine needs ARRAY_SWAPPED there");

/* ---- as it is, and swapped ---- */

#define DEFINE_COPY(BYTES)                                         \
    static void copy_##BYTES(void *to, const void *from, size_t n) \
    {                                                              \
        memcpy(to, from, n * BYTES);                               \
    }
DEFINE_COPY(1)
DEFINE_COPY(2)
DEFINE_COPY(4)
DEFINE_COPY(8)

#define DEFINE_SWAP(BYTES, TYPE, SWAP)                             \
    static void swap_##BYTES(void *to, const void *from, size_t n) \
    {                                                              \
        const uint8_t *p = from;                                   \
        TYPE *out = to, v;                                         \
        for (size_t i = 0; i < n; i++, p += BYTES) {               \
            memcpy(&v, p, BYTES);                                  \
            out[i] = SWAP(v);                                      \
        }                                                          \
    }
DEFINE_SWAP(2, uint16_t, __builtin_bswap16)
DEFINE_SWAP(4, uint32_t, __builtin_bswap32)
DEFINE_SWAP(8, uint64_t, __builtin_bswap64)

/* ---- one number to another ---- */

#define DEFINE_STEP(NAME, FROM, TO, EXPRESSION)            \
    static void NAME(void *to, const void *from, size_t n) \
    {                                                      \
        const uint8_t *p = from;                           \
        TO *out = to;                                      \
        FROM v;                                            \
        for (size_t i = 0; i < n; i++, p += sizeof(v)) {   \
            memcpy(&v, p, sizeof(v));                      \
            out[i] = (TO)(EXPRESSION);                     \
        }                                                  \
    }

#define DEFINE_WIDEN_INTEGER(NAME, TYPE)         \
    DEFINE_STEP(NAME##_to_i64, TYPE, int64_t, v) \
    DEFINE_STEP(NAME##_to_f32, TYPE, float, v)   \
    DEFINE_STEP(NAME##_to_f64, TYPE, double, v)  \
    DEFINE_STEP(NAME##_from_i64, int64_t, TYPE, v)
DEFINE_WIDEN_INTEGER(u8, uint8_t)
DEFINE_WIDEN_INTEGER(i8, int8_t)
DEFINE_WIDEN_INTEGER(u16, uint16_t)
DEFINE_WIDEN_INTEGER(i16, int16_t)
DEFINE_WIDEN_INTEGER(u32, uint32_t)
DEFINE_WIDEN_INTEGER(i32, int32_t)
DEFINE_WIDEN_INTEGER(u64, uint64_t)
DEFINE_WIDEN_INTEGER(i64, int64_t)

DEFINE_STEP(bool_to_i64, uint8_t, int64_t, v != 0)
DEFINE_STEP(bool_to_f32, uint8_t, float, v != 0)
DEFINE_STEP(bool_to_f64, uint8_t, double, v != 0)
DEFINE_STEP(bool_from_i64, int64_t, uint8_t, v != 0)

DEFINE_STEP(f16_to_f32, uint16_t, float, half_to_f32(v))
DEFINE_STEP(f16_to_f64, uint16_t, double, half_to_f32(v))
DEFINE_STEP(bf16_to_f32, uint16_t, float, bfloat_to_f32(v))
DEFINE_STEP(bf16_to_f64, uint16_t, double, bfloat_to_f32(v))
DEFINE_STEP(f32_to_f64, float, double, v)
DEFINE_STEP(f64_to_f32, double, float, v)

DEFINE_STEP(f16_from_f32, float, uint16_t, half_from_f32(v))
DEFINE_STEP(bf16_from_f32, float, uint16_t, bfloat_from_f32(v))
DEFINE_STEP(f16_from_f64, double, uint16_t, half_from_f64(v))
DEFINE_STEP(bf16_from_f64, double, uint16_t, bfloat_from_f32((float)v))
DEFINE_STEP(bool_from_f64, double, uint8_t, v != 0)

/* Without its fraction; beyond the range the nearest end; NaN: 0. LIMIT is the first power of two above the range. */
#define DEFINE_INTEGER_FROM_F64(NAME, TYPE, LOWEST, HIGHEST, LIMIT) \
    DEFINE_STEP(NAME##_from_f64, double, TYPE, v != v ? 0 : v >= LIMIT ? HIGHEST : v <= (double)LOWEST ? LOWEST : (TYPE)v)
DEFINE_INTEGER_FROM_F64(u8, uint8_t, 0, UINT8_MAX, 0x1p8)
DEFINE_INTEGER_FROM_F64(i8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
DEFINE_INTEGER_FROM_F64(u16, uint16_t, 0, UINT16_MAX, 0x1p16)
DEFINE_INTEGER_FROM_F64(i16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
DEFINE_INTEGER_FROM_F64(u32, uint32_t, 0, UINT32_MAX, 0x1p32)
DEFINE_INTEGER_FROM_F64(i32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
DEFINE_INTEGER_FROM_F64(u64, uint64_t, 0, UINT64_MAX, 0x1p64)
DEFINE_INTEGER_FROM_F64(i64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)

/* ---- sound ---- */

struct s24 {
    uint8_t byte[3];
};

static int32_t s24_value(struct s24 v)
{
    return (int32_t)((uint32_t)v.byte[2] << 24 | (uint32_t)v.byte[1] << 16 | (uint32_t)v.byte[0] << 8) >> 8;
}

#define DEFINE_SOUND(SUFFIX, TYPE)                                                        \
    DEFINE_STEP(sound_u8_##SUFFIX, uint8_t, TYPE, (TYPE)(v - 128) * (TYPE)0x1p-7)         \
    DEFINE_STEP(sound_s16_##SUFFIX, int16_t, TYPE, (TYPE)v *(TYPE)0x1p-15)                \
    DEFINE_STEP(sound_s24_##SUFFIX, struct s24, TYPE, (TYPE)s24_value(v) * (TYPE)0x1p-23) \
    DEFINE_STEP(sound_s32_##SUFFIX, int32_t, TYPE, (TYPE)v *(TYPE)0x1p-31)                \
    DEFINE_STEP(sound_alaw_##SUFFIX, uint8_t, TYPE, (TYPE)array_alaw[v] * (TYPE)0x1p-15)  \
    DEFINE_STEP(sound_mulaw_##SUFFIX, uint8_t, TYPE, (TYPE)array_mulaw[v] * (TYPE)0x1p-15)
DEFINE_SOUND(f32, float)
DEFINE_SOUND(f64, double)

DEFINE_STEP(sound_u8_i16, uint8_t, int16_t, (v - 128) * 256)
DEFINE_STEP(sound_alaw_i16, uint8_t, int16_t, array_alaw[v])
DEFINE_STEP(sound_mulaw_i16, uint8_t, int16_t, array_mulaw[v])

/* ---- on floats ---- */

static void norm_one(float *x, float mean, float inv_std, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) * inv_std;
}

static void norm_each(float *x, const float *mean, const float *inv_std, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - mean[i]) * inv_std[i];
}

static void split_2(float *left, float *right, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        left[i] = from[2 * i];
        right[i] = from[2 * i + 1];
    }
}

static void mix_2(float *to, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (from[2 * i] + from[2 * i + 1]) * 0.5f;
}

#define EACH_INTEGER(STEP)                                                                                                      \
    [FB_UINT8] = u8_##STEP, [FB_INT8] = i8_##STEP, [FB_UINT16] = u16_##STEP, [FB_INT16] = i16_##STEP, [FB_UINT32] = u32_##STEP, \
    [FB_INT32] = i32_##STEP, [FB_UINT64] = u64_##STEP, [FB_INT64] = i64_##STEP, [FB_BOOL] = bool_##STEP

const struct array_kernels array_kernels_c = {
    .name = "c",
    .copy = {[1] = copy_1, [2] = copy_2, [4] = copy_4, [8] = copy_8},
    .swap = {[1] = copy_1, [2] = swap_2, [4] = swap_4, [8] = swap_8},
    .widen_i64 = {EACH_INTEGER(to_i64)},
    .widen_f32 =
        {EACH_INTEGER(to_f32), [FB_FLOAT16] = f16_to_f32, [FB_BFLOAT16] = bf16_to_f32, [FB_FLOAT32] = copy_4, [FB_FLOAT64] = f64_to_f32},
    .widen_f64 =
        {EACH_INTEGER(to_f64), [FB_FLOAT16] = f16_to_f64, [FB_BFLOAT16] = bf16_to_f64, [FB_FLOAT32] = f32_to_f64, [FB_FLOAT64] = copy_8},
    .narrow_i64 = {EACH_INTEGER(from_i64)},
    .narrow_f32 = {[FB_FLOAT16] = f16_from_f32, [FB_BFLOAT16] = bf16_from_f32, [FB_FLOAT32] = copy_4},
    .narrow_f64 = {EACH_INTEGER(from_f64), [FB_FLOAT16] = f16_from_f64, [FB_BFLOAT16] = bf16_from_f64, [FB_FLOAT32] = f64_to_f32,
                   [FB_FLOAT64] = copy_8},
    .sound_i16 = {[ARRAY_PCM_U8] = sound_u8_i16, [ARRAY_PCM_S16] = copy_2, [ARRAY_ALAW] = sound_alaw_i16, [ARRAY_MULAW] = sound_mulaw_i16},
    .sound_f32 = {[ARRAY_PCM_U8] = sound_u8_f32,
                  [ARRAY_PCM_S16] = sound_s16_f32,
                  [ARRAY_PCM_S24] = sound_s24_f32,
                  [ARRAY_PCM_S32] = sound_s32_f32,
                  [ARRAY_PCM_F32] = copy_4,
                  [ARRAY_PCM_F64] = f64_to_f32,
                  [ARRAY_ALAW] = sound_alaw_f32,
                  [ARRAY_MULAW] = sound_mulaw_f32},
    .sound_f64 = {[ARRAY_PCM_U8] = sound_u8_f64,
                  [ARRAY_PCM_S16] = sound_s16_f64,
                  [ARRAY_PCM_S24] = sound_s24_f64,
                  [ARRAY_PCM_S32] = sound_s32_f64,
                  [ARRAY_PCM_F32] = f32_to_f64,
                  [ARRAY_PCM_F64] = copy_8,
                  [ARRAY_ALAW] = sound_alaw_f64,
                  [ARRAY_MULAW] = sound_mulaw_f64},
    .norm_one = norm_one,
    .norm_each = norm_each,
    .split_2 = split_2,
    .mix_2 = mix_2,
};
