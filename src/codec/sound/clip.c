#include "codec/sound/clip.h"

#include <string.h>

#include "codec/array/convert/array_convert_block.h"

_Static_assert((int)CLIP_MAX_CHANNELS <= (int)ARRAY_BLOCK, "a block holds at least one frame");

static int check_channels(uint32_t channels, struct fb_error *e)
{
    if (channels >= 1 && channels <= CLIP_MAX_CHANNELS)
        return 0;
    return error_set(e, FB_E_DATA, "decode", "it has %u channels; 1 to %d can be read", channels, CLIP_MAX_CHANNELS);
}

/* ---- channels apart ---- */

#define DEFINE_SPLIT(BITS)                                                                                     \
    static void split_##BITS(uint##BITS##_t *to, const uint##BITS##_t *from, size_t frames, uint32_t channels) \
    {                                                                                                          \
        for (uint32_t k = 0; k < channels; k++)                                                                \
            for (size_t i = 0; i < frames; i++)                                                                \
                to[k * frames + i] = from[i * channels + k];                                                   \
    }
DEFINE_SPLIT(16)
DEFINE_SPLIT(32)
DEFINE_SPLIT(64)

static void split(void *to, const void *from, size_t frames, uint32_t channels, size_t bytes)
{
    if (bytes == 4 && channels == 2)
        array_kernels()->split_2(to, (float *)to + frames, from, frames);
    else if (bytes == 2)
        split_16(to, from, frames, channels);
    else if (bytes == 4)
        split_32(to, from, frames, channels);
    else
        split_64(to, from, frames, channels);
}

static size_t wide_bytes(const struct array_conversion *c)
{
    return c->wide == ARRAY_WIDE_F32 ? sizeof(float) : sizeof(double);
}

/* One channel's part of a block to its place. Its pair of a norm is that of index k of a frame. */
static void place_plane(const struct array_conversion *c, uint32_t k, void *plane, size_t n, void *to)
{
    if (c->direct) {
        memcpy(to, plane, n * c->to_bytes);
        return;
    }
    struct array_conversion one = *c;
    if (c->norm.period > 1)
        one.norm = (struct array_norm){c->norm.mean + k, c->norm.inv_std + k, 1, 1};
    array_normalise_block(&one, 0, plane, n);
    c->narrow(to, plane, n);
}

static void place_block(const struct array_conversion *c, const void *from, size_t frames, uint32_t channels, uint8_t *to, size_t plane)
{
    uint64_t together[ARRAY_BLOCK], apart[ARRAY_BLOCK];
    size_t n = frames * channels, bytes = c->direct ? c->to_bytes : wide_bytes(c);
    if (c->direct)
        c->direct(together, from, n);
    else
        array_widen_block(c, from, together, n);
    split(apart, together, frames, channels, bytes);
    for (uint32_t k = 0; k < channels; k++)
        place_plane(c, k, (uint8_t *)apart + k * frames * bytes, frames, to + k * plane * c->to_bytes);
}

static int check_planes(const struct array_conversion *c, uint32_t channels, struct fb_error *e)
{
    FB_TRY(check_channels(channels, e));
    if (c->to_bytes < 2)
        return error_set(e, FB_E_USAGE, "convert", "sound cannot be given as %s", fb_dtype_name(c->to));
    if (c->norm.period <= 1 || (c->norm.period == channels && c->norm.repeat == 1))
        return 0;
    return error_set(e, FB_E_USAGE, "convert", "sound of %u channels is normalised by 1 or %u pairs of numbers, not by %llu", channels,
                     channels, (unsigned long long)c->norm.period);
}

int clip_planes(const struct array_conversion *c, const void *from, uint64_t frames, uint64_t after, uint32_t channels, void *to,
                size_t plane, struct fb_error *e)
{
    FB_TRY(check_planes(c, channels, e));
    uint8_t *out = to;
    size_t step = ARRAY_BLOCK / channels;
    if (channels == 1)
        array_convert(c, from, to, (size_t)frames);
    for (uint64_t i = 0; i < frames && channels > 1; i += step) {
        size_t n = frames - i < step ? (size_t)(frames - i) : step;
        place_block(c, (const uint8_t *)from + i * channels * c->from_bytes, n, channels, out + i * c->to_bytes, plane);
    }
    for (uint32_t k = 0; k < channels && after; k++) {
        struct array_conversion one = *c;
        if (c->norm.period > 1)
            one.norm = (struct array_norm){c->norm.mean + k, c->norm.inv_std + k, 1, 1};
        array_convert_fill(&one, 0, NULL, out + (k * plane + frames) * c->to_bytes, (size_t)after);
    }
    return 0;
}

/* ---- channels mixed ---- */

/* numpy's sum of n numbers side by side: in eight lanes from eight on, halves apart from 129 on. */
static float pairwise_sum(const float *a, size_t n)
{
    if (n > 128) {
        size_t half = n / 2 - n / 2 % 8;
        return pairwise_sum(a, half) + pairwise_sum(a + half, n - half);
    }
    if (n < 8) {
        float sum = -0.0f;
        for (size_t i = 0; i < n; i++)
            sum += a[i];
        return sum;
    }
    float lane[8];
    memcpy(lane, a, sizeof(lane));
    size_t i = 8;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++)
            lane[k] += a[i + k];
    float sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
    for (; i < n; i++)
        sum += a[i];
    return sum;
}

static void mix(float *to, const float *from, size_t frames, uint32_t channels)
{
    for (size_t i = 0; i < frames; i++, from += channels)
        to[i] = pairwise_sum(from, channels) / (float)channels;
}

bool clip_can_mix(const struct array_conversion *c)
{
    return c->wide == ARRAY_WIDE_F32 && c->norm.period <= 1;
}

int clip_mono(const struct array_conversion *c, const void *from, uint64_t frames, uint64_t after, uint32_t channels, void *to,
              struct fb_error *e)
{
    FB_TRY(check_channels(channels, e));
    if (!clip_can_mix(c))
        return error_set(e, FB_E_USAGE, "convert", "channels are mixed into a float type only, normalised by one pair of numbers");
    float wide[ARRAY_BLOCK], mean[ARRAY_BLOCK];
    uint8_t *out = to;
    size_t step = ARRAY_BLOCK / channels;
    if (channels == 1)
        array_convert(c, from, to, (size_t)frames);
    for (uint64_t i = 0; i < frames && channels > 1; i += step) {
        size_t n = frames - i < step ? (size_t)(frames - i) : step;
        array_widen_block(c, (const uint8_t *)from + i * channels * c->from_bytes, wide, n * channels);
        if (channels == 2)
            array_kernels()->mix_2(mean, wide, n);
        else
            mix(mean, wide, n, channels);
        array_normalise_block(c, 0, mean, n);
        c->narrow(out + i * c->to_bytes, mean, n);
    }
    array_convert_fill(c, 0, NULL, out + frames * c->to_bytes, (size_t)after);
    return 0;
}
