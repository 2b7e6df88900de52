/* Single images for the public API: the codecs and the resampler without an engine around them. */
#include <stdlib.h>
#include <string.h>

#include "codec/image/codec.h"
#include "transform/pipeline.h"

/* A pipeline that does nothing but turn the image upright. */
static int plan_upright(struct pipeline **p, struct plan *plan, const struct image_header *h, int exif, struct fb_error *e)
{
    FB_TRY(pipeline_open(p, NULL, FB_UINT8, FB_NHWC, exif != 0, e));
    return pipeline_plan(*p, h, rng_stream(RNG_TRANSFORM, 0, 0, 0, 0), plan, e);
}

int fb_image_size(const void *bytes, size_t n, int exif, int *height, int *width, struct fb_error *e)
{
    struct image_header h;
    const struct codec_ops *codec;
    FB_TRY(codec_header(bytes, n, &h, &codec, e));
    bool is_turned = exif && h.orientation >= 5;
    *height = (int)(is_turned ? h.width : h.height);
    *width = (int)(is_turned ? h.height : h.width);
    return 0;
}

static int decode_upright(const void *bytes, size_t n, int exif, const struct region *crop, void *out, struct codec_state *state,
                          struct pipeline **p, struct fb_error *e)
{
    struct image_header h;
    const struct codec_ops *codec;
    struct plan plan;
    struct scratch pixels = {0}, work = {0};
    FB_TRY(codec_header(bytes, n, &h, &codec, e));
    if (!exif || h.orientation <= 1) {
        struct region all = {0, 0, h.height, h.width};
        struct region r = crop ? *crop : all;
        struct image image = {out, 3 * (size_t)r.width, r.width, r.height};
        return codec_decode(state, codec, bytes, n, &h, &r, &image, e);
    }
    FB_TRY(plan_upright(p, &plan, &h, exif, e));
    struct image image = {NULL, 3 * (size_t)plan.region.width, plan.region.width, plan.region.height};
    image.data = scratch_need(&pixels, image.stride * image.height, e);
    int rc = image.data ? codec_decode(state, codec, bytes, n, &h, &plan.region, &image, e) : e->code;
    struct place place = {out, FB_UINT8, FB_NHWC, plan.out_height, plan.out_width};
    if (rc == 0)
        rc = pipeline_run(*p, &plan, &image, &place, &work, e);
    scratch_free(&pixels);
    scratch_free(&work);
    return rc;
}

static int decode(const void *bytes, size_t n, int exif, const struct region *crop, void *out, struct fb_error *e)
{
    struct fb_error unused = {0};
    struct codec_state state;
    struct pipeline *p = NULL;
    codec_state_init(&state, NULL);
    int rc = decode_upright(bytes, n, exif, crop, out, &state, &p, e ? e : &unused);
    pipeline_close(p);
    codec_state_free(&state);
    return rc;
}

int fb_decode_image(const void *bytes, size_t n, int exif, void *out, struct fb_error *e)
{
    return decode(bytes, n, exif, NULL, out, e);
}

int fb_decode_region(const void *bytes, size_t n, int exif, int top, int left, int height, int width, void *out, struct fb_error *e)
{
    int full_height, full_width;
    FB_TRY(fb_image_size(bytes, n, exif, &full_height, &full_width, e));
    if (top < 0 || left < 0 || height < 1 || width < 1 || top > full_height - height || left > full_width - width)
        return error_set(e, FB_E_USAGE, "decode", "the region (top %d, left %d, %d x %d) is not inside the image of %d x %d", top, left,
                         height, width, full_height, full_width);
    struct region r = {(uint32_t)top, (uint32_t)left, (uint32_t)height, (uint32_t)width};
    struct image_header h;
    const struct codec_ops *codec;
    FB_TRY(codec_header(bytes, n, &h, &codec, e));
    if (!exif || h.orientation <= 1)
        return decode(bytes, n, 0, &r, out, e);
    uint8_t *all = malloc(3 * (size_t)full_height * (size_t)full_width); /* turned images are rare: decode all, then cut */
    if (!all)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for an image of %d x %d", full_height, full_width);
    int rc = decode(bytes, n, exif, NULL, all, e);
    size_t row = 3 * (size_t)r.width, full_row = 3 * (size_t)full_width;
    for (uint32_t y = 0; rc == 0 && y < r.height; y++)
        memcpy((uint8_t *)out + y * row, all + (r.top + y) * full_row + 3 * (size_t)r.left, row);
    free(all);
    return rc;
}

int fb_resize_image(const void *pixels, int height, int width, int channels, enum fb_filter filter, int out_height, int out_width,
                    void *out, struct fb_error *e)
{
    if (height < 1 || width < 1 || out_height < 1 || out_width < 1 || height > IMAGE_MAX_SIDE || width > IMAGE_MAX_SIDE ||
        out_height > IMAGE_MAX_SIDE || out_width > IMAGE_MAX_SIDE)
        return error_set(e, FB_E_USAGE, "transform", "sizes must be from 1 to %d", IMAGE_MAX_SIDE);
    if (channels != 1 && channels != 3 && channels != 4)
        return error_set(e, FB_E_USAGE, "transform", "images have 1, 3 or 4 channels, not %d", channels);
    if (filter != FB_BILINEAR && filter != FB_BICUBIC)
        return error_set(e, FB_E_USAGE, "transform", "the filter is bilinear or bicubic");
    return resize_image(pixels, (uint32_t)height, (uint32_t)width, channels, filter, (uint32_t)out_height, (uint32_t)out_width, out, e);
}
