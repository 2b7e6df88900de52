#include "transform/image/store.h"

#include <string.h>

#include "transform/image/kernels/image_kernels.h"

static void store_planes(const struct place *out, size_t at, const uint8_t *in, bool mirrored, const struct levels *l)
{
    const struct kernels *k = kernels();
    size_t plane = (size_t)out->height * out->width, size = fb_dtype_size(out->dtype);
    uint8_t *first = (uint8_t *)out->data + at * size;
    uint8_t *rows[3] = {first, first + plane * size, first + 2 * plane * size};
    uint16_t *const halves[3] = {(uint16_t *)(void *)rows[0], (uint16_t *)(void *)rows[1], (uint16_t *)(void *)rows[2]};
    float *const floats[3] = {(float *)(void *)rows[0], (float *)(void *)rows[1], (float *)(void *)rows[2]};
    switch (out->dtype) {
    case FB_FLOAT32: k->planes_f32(floats, in, out->width, mirrored, l); break;
    case FB_FLOAT16: k->planes_f16(halves, in, out->width, mirrored, l); break;
    case FB_BFLOAT16: k->planes_bf16(halves, in, out->width, mirrored, l); break;
    default: k->planes_u8(rows, in, out->width, mirrored); break;
    }
}

static void store_pixels(const struct place *out, size_t at, const uint8_t *in, bool mirrored, const struct levels *l)
{
    const struct kernels *k = kernels();
    at *= 3;
    switch (out->dtype) {
    case FB_FLOAT32: k->pixels_f32((float *)out->data + at, in, out->width, mirrored, l); break;
    case FB_FLOAT16: k->pixels_f16((uint16_t *)out->data + at, in, out->width, mirrored, l); break;
    case FB_BFLOAT16: k->pixels_bf16((uint16_t *)out->data + at, in, out->width, mirrored, l); break;
    default:
        if (mirrored)
            k->mirror((uint8_t *)out->data + at, in, out->width);
        else
            memcpy((uint8_t *)out->data + at, in, (size_t)out->width * 3);
    }
}

void store_image(const struct image *image, const struct place *out, bool hflip, bool vflip, const struct levels *l)
{
    for (uint32_t y = 0; y < out->height; y++) {
        const uint8_t *row = image->data + (vflip ? out->height - 1 - y : y) * image->stride;
        size_t at = (size_t)y * out->width;
        if (out->layout == FB_NCHW)
            store_planes(out, at, row, hflip, l);
        else
            store_pixels(out, at, row, hflip, l);
    }
}

/* False: a pixel has a colour. */
static bool store_numbers(uint8_t *out, const uint8_t *in, uint32_t n, bool mirrored)
{
    uint32_t differs = 0;
    for (uint32_t i = 0; i < n; i++, in += 3) {
        out[mirrored ? n - 1 - i : i] = in[0];
        differs |= (uint32_t)(in[0] ^ in[1]) | (uint32_t)(in[0] ^ in[2]);
    }
    return !differs;
}

int store_mask(const struct image *image, const struct place *out, bool hflip, bool vflip, struct fb_error *e)
{
    bool is_grey = true;
    for (uint32_t y = 0; y < out->height; y++)
        is_grey &= store_numbers((uint8_t *)out->data + (size_t)y * out->width,
                                 image->data + (vflip ? out->height - 1 - y : y) * image->stride, out->width, hflip);
    if (is_grey)
        return 0;
    error_set(e, FB_E_DATA, "transform", "it has colours, but a mask holds one number per pixel: a grey picture, or a PNG with a palette");
    error_remedy(e, "save it as one, or leave its column out of masks= to have it as a picture");
    return FB_E_DATA;
}
