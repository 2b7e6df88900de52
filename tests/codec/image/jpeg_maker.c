#include "jpeg_maker.h"

#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

static void fill_plainly(uint8_t *row, uint32_t y, uint32_t width, int channels, int content, uint32_t *seed)
{
    for (uint32_t i = 0; i < width * (uint32_t)channels; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        row[i] = (uint8_t)(content == 1 ? (i / (uint32_t)channels + y) / 4 + i % (uint32_t)channels * 60 : content == 2 ? 90 : *seed >> 24);
    }
}

static void fill_row(uint8_t *row, uint32_t y, uint32_t width, int channels, uint32_t *seed)
{
    for (uint32_t x = 0; x < width; x++)
        for (int k = 0; k < channels; k++) {
            *seed = *seed * 1664525u + 1013904223u;
            uint32_t noise = *seed >> 25, edge = ((x / 11 + y / 7) % 3 == 0) * 80u;
            row[x * (uint32_t)channels + (uint32_t)k] = (uint8_t)((x * (uint32_t)(k + 2) + y * (uint32_t)(5 - k)) / 3 + noise + edge);
        }
}

static void use_separate_scans(struct jpeg_compress_struct *c, jpeg_scan_info *scans)
{
    for (int i = 0; i < c->num_components; i++)
        scans[i] = (jpeg_scan_info){1, {i}, 0, 63, 0, 0};
    c->scan_info = scans;
    c->num_scans = c->num_components;
}

static void set_up(struct jpeg_compress_struct *c, const struct jpeg_recipe *r, jpeg_scan_info *scans)
{
    static const J_COLOR_SPACE spaces[5] = {[1] = JCS_GRAYSCALE, [3] = JCS_RGB, [4] = JCS_CMYK};
    c->input_components = r->components;
    c->in_color_space = spaces[r->components];
    jpeg_set_defaults(c);
    if (r->components == 4)
        jpeg_set_colorspace(c, JCS_YCCK);
    if (r->is_rgb)
        jpeg_set_colorspace(c, JCS_RGB);
    if (r->has_adobe) {
        c->write_JFIF_header = FALSE;
        c->write_Adobe_marker = TRUE;
    }
    jpeg_set_quality(c, r->quality ? r->quality : 80, !r->has_wide_quant);
    for (int i = 0; i < r->components; i++) {
        c->comp_info[i].h_samp_factor = r->sampling[i] >> 4;
        c->comp_info[i].v_samp_factor = r->sampling[i] & 15;
    }
    c->arith_code = r->is_arithmetic;
    c->restart_in_rows = r->restart_rows;
    c->restart_interval = (unsigned)r->restart_mcus;
    c->optimize_coding = r->is_optimised;
    if (r->has_no_jfif)
        c->write_JFIF_header = c->write_Adobe_marker = FALSE;
    if (r->is_separate)
        use_separate_scans(c, scans);
    if (r->is_progressive)
        jpeg_simple_progression(c);
    if (r->stops_early)
        c->num_scans -= 3;
}

void jpeg_say_nothing(j_common_ptr j)
{
    (void)j;
}

struct bytes jpeg_make(const struct jpeg_recipe *r, uint32_t width, uint32_t height)
{
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[4];
    unsigned char *data = NULL;
    unsigned long n = 0;
    c.err = jpeg_std_error(&errors);
    errors.output_message = jpeg_say_nothing; /* on coarse quantisation tables */
    jpeg_create_compress(&c);
    jpeg_mem_dest(&c, &data, &n);
    c.image_width = width;
    c.image_height = height;
    set_up(&c, r, scans);
    jpeg_start_compress(&c, TRUE);
    uint8_t *row = malloc((size_t)width * 4);
    uint32_t seed = width * 31 + height;
    for (uint32_t y = 0; row && y < height; y++) {
        if (r->content)
            fill_plainly(row, y, width, r->components, r->content, &seed);
        else
            fill_row(row, y, width, r->components, &seed);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return (struct bytes){data, n};
}

uint8_t *jpeg_decode_plainly(struct bytes file, uint32_t scale)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, file.data, file.n);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    d.scale_denom = scale;
    jpeg_start_decompress(&d);
    size_t stride = (size_t)3 * d.output_width;
    uint8_t *pixels = malloc(stride * d.output_height);
    while (pixels && d.output_scanline < d.output_height) {
        JSAMPROW row = pixels + stride * d.output_scanline;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
    return pixels;
}
