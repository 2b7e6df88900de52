/* Which frames of a recording are used, and where silence goes. Values against soundfile and numpy: test_convert_oracle.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codec/sound/clip.h"

static void a_longer_recording_is_cut_at_the_draw(void **state)
{
    (void)state;
    bool seen[11] = {false};
    for (uint64_t draw = 0; draw < 1000; draw++) {
        struct clip c = clip_crop_or_pad((struct clip){.frames = 110}, 100, draw * 0x9e3779b97f4a7c15);
        assert_true(c.first <= 10 && c.frames == 100 && c.after == 0);
        seen[c.first] = true;
    }
    for (int i = 0; i < 11; i++)
        assert_true(seen[i]);
    assert_int_equal(clip_crop_or_pad((struct clip){.frames = 110}, 100, 0).first, 0);
}

static void a_shorter_recording_is_followed_by_silence_whatever_the_draw(void **state)
{
    (void)state;
    for (uint64_t draw = 0; draw < 100; draw++) {
        struct clip c = clip_crop_or_pad((struct clip){.frames = 60}, 100, draw);
        assert_true(c.first == 0 && c.frames == 60 && c.after == 40);
    }
    struct clip equal = clip_crop_or_pad((struct clip){.frames = 100}, 100, 12345),
                empty = clip_crop_or_pad((struct clip){.frames = 0}, 100, 7),
                none = clip_crop_or_pad((struct clip){.frames = UINT64_MAX}, 0, 99);
    assert_true(equal.first == 0 && equal.frames == 100 && equal.after == 0);
    assert_true(empty.frames == 0 && empty.after == 100);
    assert_true(none.frames == 0 && none.after == 0 && none.first == 99);
}

static void channels_are_normalised_each_by_its_own_pair_and_silence_too(void **state)
{
    (void)state;
    enum { FRAMES = 700, AFTER = 5, CHANNELS = 3, PLANE = FRAMES + AFTER + 2 };
    int16_t frames[FRAMES * CHANNELS];
    float mean[CHANNELS] = {0.1f, -0.2f, 0.3f}, inv[CHANNELS] = {2, 3, 4}, out[CHANNELS * PLANE];
    for (int i = 0; i < FRAMES * CHANNELS; i++)
        frames[i] = (int16_t)(i * 37);
    struct array_norm norm = {mean, inv, CHANNELS, 1};
    struct array_conversion c;
    assert_int_equal(array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, &norm, NULL), 0);
    for (int i = 0; i < CHANNELS * PLANE; i++)
        out[i] = 99;
    assert_int_equal(clip_planes(&c, frames, FRAMES, AFTER, CHANNELS, out, PLANE, NULL), 0);
    for (int k = 0; k < CHANNELS; k++) {
        for (int i = 0; i < FRAMES + AFTER; i++) {
            float v = i < FRAMES ? (float)frames[i * CHANNELS + k] / 32768 : 0;
            assert_true(out[k * PLANE + i] == (v - mean[k]) * inv[k]);
        }
        assert_true(out[k * PLANE + FRAMES + AFTER] == 99 && out[k * PLANE + FRAMES + AFTER + 1] == 99);
    }
}

static void a_mean_is_normalised_after_mixing(void **state)
{
    (void)state;
    int16_t frames[4] = {1000, 3000, -500, -1500};
    float mean = 0.5f, inv = 2, out[3];
    struct array_norm norm = {&mean, &inv, 1, 1};
    struct array_conversion c;
    assert_int_equal(array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, &norm, NULL), 0);
    assert_true(clip_can_mix(&c));
    assert_int_equal(clip_mono(&c, frames, 2, 1, 2, out, NULL), 0);
    assert_true(out[0] == (2000.0f / 32768 - mean) * inv && out[1] == (-1000.0f / 32768 - mean) * inv && out[2] == -mean * inv);
}

static void what_cannot_be_placed_is_refused_and_nothing_is_written(void **state)
{
    (void)state;
    int16_t frames[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    float mean[3] = {0}, inv[3] = {1, 1, 1}, out[8] = {9, 9, 9, 9, 9, 9, 9, 9};
    struct array_norm three = {mean, inv, 3, 1};
    struct array_conversion plain, normed, bytes;
    struct fb_error e;
    assert_int_equal(array_conversion_init(&plain, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, NULL, NULL), 0);
    assert_int_equal(array_conversion_init(&normed, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, &three, NULL), 0);
    assert_int_equal(array_conversion_init(&bytes, ARRAY_PLAIN, FB_UINT8, FB_UINT8, NULL, NULL), 0);
    static const uint32_t channels[] = {0, CLIP_MAX_CHANNELS + 1, UINT32_MAX};
    for (int i = 0; i < 3; i++) {
        error_clear(&e);
        assert_int_equal(clip_planes(&plain, frames, 2, 1, channels[i], out, 4, &e), FB_E_DATA);
        assert_non_null(strstr(e.cause, "channels"));
        assert_int_equal(clip_mono(&plain, frames, 2, 1, channels[i], out, NULL), FB_E_DATA);
    }
    error_clear(&e);
    assert_int_equal(clip_planes(&normed, frames, 2, 1, 2, out, 4, &e), FB_E_USAGE);
    assert_int_equal(clip_mono(&normed, frames, 2, 1, 3, out, NULL), FB_E_USAGE);
    assert_int_equal(clip_planes(&bytes, frames, 2, 1, 2, out, 4, NULL), FB_E_USAGE);
    for (int i = 0; i < 8; i++)
        assert_true(out[i] == 9);
}

static void int16_and_float64_are_not_mixed(void **state)
{
    (void)state;
    struct array_conversion c;
    assert_int_equal(array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_INT16, NULL, NULL), 0);
    assert_false(clip_can_mix(&c));
    assert_int_equal(array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT64, NULL, NULL), 0);
    assert_false(clip_can_mix(&c));
    assert_int_equal(array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_BFLOAT16, NULL, NULL), 0);
    assert_true(clip_can_mix(&c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_longer_recording_is_cut_at_the_draw),
        cmocka_unit_test(a_shorter_recording_is_followed_by_silence_whatever_the_draw),
        cmocka_unit_test(channels_are_normalised_each_by_its_own_pair_and_silence_too),
        cmocka_unit_test(a_mean_is_normalised_after_mixing),
        cmocka_unit_test(what_cannot_be_placed_is_refused_and_nothing_is_written),
        cmocka_unit_test(int16_and_float64_are_not_mixed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
