/* Resizing one image outside a pipeline. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/round_up.h"
#include "transform/pipeline.h"
#include "transform/image/kernels/resample/resample.h"

/* Pillow resizes RGBA with colours multiplied by alpha, so that transparent pixels do not bleed; and divides again. */
static void multiply_alpha(const uint8_t *in, uint8_t *out, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, in += 4, out += 4) {
        for (int c = 0; c < 3; c++) {
            unsigned v = in[c] * in[3] + 128u;
            out[c] = (uint8_t)((v + (v >> 8)) >> 8);
        }
        out[3] = in[3];
    }
}

static void divide_alpha(uint8_t *p, size_t pixels)
{
    for (size_t i = 0; i < pixels; i++, p += 4)
        for (int c = 0; c < 3; c++) {
            unsigned v = p[3] == 0 || p[3] == 255 ? p[c] : 255u * p[c] / p[3];
            p[c] = (uint8_t)(v > 255 ? 255 : v);
        }
}

static int check(uint32_t height, uint32_t width, int channels, enum fb_filter filter, uint32_t out_height, uint32_t out_width,
                 struct fb_error *e)
{
    if (channels != 1 && channels != 3 && channels != 4)
        return error_set(e, FB_E_USAGE, "transform", "images have 1, 3 or 4 channels, not %d", channels);
    if (filter != FB_BILINEAR && filter != FB_BICUBIC)
        return error_set(e, FB_E_USAGE, "transform", "there is no filter %d", (int)filter);
    bool is_good = height && width && out_height && out_width && (uint64_t)height * width <= IMAGE_MAX_PIXELS;
    if (!is_good || (uint64_t)out_height * out_width > IMAGE_MAX_PIXELS || (uint64_t)out_width * height > IMAGE_MAX_PIXELS * 16)
        return error_set(e, FB_E_USAGE, "transform", "cannot resize %u x %u pixels (width x height) to %u x %u: each must have 1 to %llu",
                         width, height, out_width, out_height, (unsigned long long)IMAGE_MAX_PIXELS);
    return 0;
}

int resize_image(const uint8_t *in, uint32_t height, uint32_t width, int channels, enum fb_filter filter, uint32_t out_height,
                 uint32_t out_width, uint8_t *out, struct fb_error *e)
{
    FB_TRY(check(height, width, channels, filter, out_height, out_width, e));
    size_t in_bytes = (size_t)height * width * (size_t)channels;
    if (height == out_height && width == out_width) {
        memcpy(out, in, in_bytes);
        return 0;
    }
    struct resample r = {
        .kind = filter == FB_BICUBIC ? RESAMPLE_BICUBIC : RESAMPLE_BILINEAR,
        .x = {width, out_width, 0, width, 0, out_width},
        .y = {height, out_height, 0, height, 0, out_height},
    };
    size_t work_bytes = resample_work_bytes(&r, channels), copy_bytes = channels == 4 ? round_up(in_bytes, 64) : 0;
    uint8_t *work = aligned_alloc(64, round_up(work_bytes + copy_bytes, 64));
    if (!work)
        return error_set_errno(e, "transform", ENOMEM, "allocate %zu bytes", work_bytes + copy_bytes);
    if (channels == 4) {
        multiply_alpha(in, work, (size_t)height * width);
        in = work;
    }
    resample_run(&r, channels, in, (size_t)width * (size_t)channels, out, (size_t)out_width * (size_t)channels, work + copy_bytes);
    if (channels == 4)
        divide_alpha(out, (size_t)out_height * out_width);
    free(work);
    return 0;
}
