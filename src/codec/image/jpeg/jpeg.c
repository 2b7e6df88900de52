/* JPEG, exact regions: common files by the decoder in jpeg_fast.c, everything else, and whatever that one finds odd, by libjpeg-turbo.
 *
 * This is libjpeg-turbo's way: rows above the region are skipped (their coefficients are decoded and dropped), columns beside it are
 * neither transformed nor converted, and nothing below it is read. The result equals a full decode because what is decoded reaches one
 * pixel further than the region on either side: chroma upsampling by two blends a pixel with its neighbours, and libjpeg treats the border
 * of a crop like the border of an image.
 * It rounds the left border down to a whole iMCU by itself, and reads the row above when upsampling needs one.
 * Files whose coefficients are incomplete (a progressive file that stops early, yet has its end marker) are smoothed across blocks by
 * libjpeg; the smoothing looks further than we can prove, so these are decoded whole.
 *
 * Whether a file is cut off must not depend on the region: unless the coded data runs up to an end marker (found by looking for markers,
 * which is far cheaper than decoding), the rest is decoded too. As in Pillow, a file without the marker but with all its pixels is good,
 * and what libjpeg only warns of is tolerated.
 *
 * A decompressor is made for each image: that costs 0.15 us, and keeping one would also keep its Huffman and quantisation tables, so that a
 * file without tables would decode to whatever came before it.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#include "codec/image/jpeg/jpeg_fast.h"
#include "codec/image/jpeg/jpeg_markers.h"
#include "codec/image/jpeg/jpeg_record.h"
#include "codec/image/jpeg/jpeg_turbo.h"
#include "codec/image/to_rgb.h"

enum {
    MAX_SCANS = 500, /* real progressive files have about ten; each scan of a hostile one costs a walk over all coefficients */
    ROWS = 16        /* rows in the intermediate buffer */
};

struct jpeg_call {
    struct jpeg_error_mgr errors; /* first: libjpeg hands it to the handlers */
    struct jpeg_decompress_struct j;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    const uint8_t *bytes;
    size_t n;
    bool is_cut_off, has_too_many_scans;
    bool has_all_rows; /* all pixels are there: only what follows them can be missing */
    bool is_reduced;   /* decoded at 1/2, 1/4 or 1/8 */
    uint64_t borrowed;
};

/* ---- libjpeg's hooks ---- */

static void on_error(j_common_ptr j)
{
    longjmp(((struct jpeg_call *)j->err)->escape, 1);
}

static void on_message(j_common_ptr j, int level)
{
    if (level < 0)
        j->err->num_warnings++;
}

static void on_output(j_common_ptr j)
{
    (void)j;
}

static void on_source(j_decompress_ptr j)
{
    (void)j;
}

static boolean on_end_of_bytes(j_decompress_ptr j)
{
    struct jpeg_call *c = (struct jpeg_call *)j->err;
    c->is_cut_off = true;
    longjmp(c->escape, 1);
}

static void on_skip(j_decompress_ptr j, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > j->src->bytes_in_buffer)
        on_end_of_bytes(j);
    j->src->next_input_byte += count;
    j->src->bytes_in_buffer -= (size_t)count;
}

static void on_progress(j_common_ptr j)
{
    struct jpeg_call *c = (struct jpeg_call *)j->err;
    if (c->j.input_scan_number <= MAX_SCANS)
        return;
    c->has_too_many_scans = true;
    longjmp(c->escape, 1);
}

static void prepare(struct jpeg_call *c, const uint8_t *bytes, size_t n)
{
    c->bytes = bytes;
    c->n = n;
    jpeg_std_error(&c->errors);
    c->errors.error_exit = on_error;
    c->errors.emit_message = on_message;
    c->errors.output_message = on_output;
    c->source = (struct jpeg_source_mgr){
        .next_input_byte = bytes,
        .bytes_in_buffer = n,
        .init_source = on_source,
        .fill_input_buffer = on_end_of_bytes,
        .skip_input_data = on_skip,
        .resync_to_restart = jpeg_resync_to_restart,
        .term_source = on_source,
    };
    c->progress.progress_monitor = on_progress;
    c->j.err = &c->errors;
}

static int report(struct jpeg_call *c, struct fb_error *e)
{
    size_t at = c->n - c->source.bytes_in_buffer;
    char text[JMSG_LENGTH_MAX];
    if (c->errors.msg_code == JERR_OUT_OF_MEMORY)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for decoding a JPEG of %u x %u pixels", c->j.image_width, c->j.image_height);
    if (c->is_cut_off) {
        error_set(e, FB_E_DATA, "decode", "the JPEG file is cut off: its pixels need more than the %zu bytes that are there", c->n);
        at = c->n;
    } else if (c->has_too_many_scans) {
        error_set(e, FB_E_DATA, "decode", "the JPEG file has more than %d scans", MAX_SCANS);
    } else {
        c->errors.format_message((j_common_ptr)&c->j, text);
        error_set(e, FB_E_DATA, "decode", "damaged JPEG: %s", text);
    }
    error_at(e, NULL, (int64_t)at);
    return FB_E_DATA;
}

/* ---- decoding a region ---- */

struct window { /* the decoder's output: these columns, so many bytes each */
    JDIMENSION left, width;
    int channels;
};

/* Coefficients of a file with several scans are all kept by libjpeg: the only large memory it takes. */
static uint64_t coefficient_bytes(const struct jpeg_decompress_struct *j)
{
    uint64_t blocks = 0;
    for (int i = 0; i < j->num_components; i++) {
        const jpeg_component_info *k = &j->comp_info[i];
        blocks += (uint64_t)(k->width_in_blocks + (JDIMENSION)k->h_samp_factor) * (k->height_in_blocks + (JDIMENSION)k->v_samp_factor);
    }
    return blocks * sizeof(JBLOCK);
}

static int start(struct jpeg_call *c, struct codec_state *s, const struct image_header *h, struct fb_error *e)
{
    struct jpeg_decompress_struct *j = &c->j;
    jpeg_read_header(j, TRUE);
    uint32_t scale = h->scale ? h->scale : 1;
    if (image_reduced(j->image_width, scale) != h->width || image_reduced(j->image_height, scale) != h->height)
        return error_set(e, FB_E_DATA, "decode", "damaged JPEG: it holds two frames, %u x %u and %u x %u pixels", h->width, h->height,
                         j->image_width, j->image_height);
    if (jpeg_has_multiple_scans(j)) {
        uint64_t bytes = coefficient_bytes(j);
        FB_TRY(codec_borrow(s, bytes, "the coefficients of a progressive JPEG", e));
        c->borrowed = bytes;
    }
    j->out_color_space = j->num_components == 4 ? JCS_CMYK : JCS_RGB;
    j->scale_denom = scale;
    c->is_reduced = scale > 1;
    j->dct_method = JDCT_ISLOW;
    j->do_fancy_upsampling = TRUE;
    jpeg_start_decompress(j);
    return 0;
}

/* Are coefficients missing, so that libjpeg guesses them from the blocks around? */
static bool is_smoothed(const struct jpeg_decompress_struct *j)
{
    if (!j->progressive_mode || !j->coef_bits)
        return false;
    for (int i = 0; i < j->num_components; i++)
        for (int k = 0; k < 10; k++) /* the ones that the smoothing looks at */
            if (j->coef_bits[i][k] != 0)
                return true;
    return false;
}

static struct window crop_columns(struct jpeg_decompress_struct *j, const struct region *r)
{
    enum { LEAST = 2 * DCTSIZE }; /* narrower crops could make libjpeg change the way it upsamples */
    struct window w = {0, j->output_width, j->out_color_components};
    if (j->output_width <= 2 * LEAST)
        return w;
    JDIMENSION first = r->left ? r->left - 1 : 0, end = r->left + r->width + 1;
    if (first > j->output_width - LEAST)
        first = j->output_width - LEAST;
    if (end < first + LEAST)
        end = first + LEAST;
    if (end > j->output_width)
        end = j->output_width;
    if (first >= DCTSIZE || end < j->output_width) {
        w.left = first;
        w.width = end - first;
        jpeg_crop_scanline(j, &w.left, &w.width);
    }
    return w;
}

static void discard_rows(struct jpeg_decompress_struct *j, JDIMENSION count, uint8_t *buffer)
{
    JSAMPROW row = buffer;
    while (count)
        count -= jpeg_read_scanlines(j, &row, 1);
}

static void read_direct(struct jpeg_decompress_struct *j, const struct image *out)
{
    JSAMPROW rows[ROWS];
    for (JDIMENSION y = 0; y < out->height;) {
        JDIMENSION count = out->height - y < ROWS ? out->height - y : ROWS;
        for (JDIMENSION i = 0; i < count; i++)
            rows[i] = out->data + (y + i) * out->stride;
        y += jpeg_read_scanlines(j, rows, count);
    }
}

static void read_through(struct jpeg_decompress_struct *j, const struct window *w, uint8_t *buffer, const struct region *r,
                         const struct image *out)
{
    size_t stride = (size_t)w->width * (size_t)w->channels;
    const uint8_t *from = buffer + (size_t)(r->left - w->left) * (size_t)w->channels;
    JSAMPROW rows[ROWS];
    for (JDIMENSION i = 0; i < ROWS; i++)
        rows[i] = buffer + i * stride;
    for (JDIMENSION y = 0; y < out->height;) {
        JDIMENSION left = out->height - y, got = jpeg_read_scanlines(j, rows, left < ROWS ? left : ROWS);
        for (JDIMENSION i = 0; i < got; i++) {
            uint8_t *to = out->data + (y + i) * out->stride;
            if (w->channels == 4)
                rgb_from_inverted_cmyk(to, from + i * stride, r->width);
            else
                memcpy(to, from + i * stride, (size_t)r->width * 3);
        }
        y += got;
    }
}

/* Decodes what is left of a file that does not end as it should, so that a missing piece or a stray marker shows. */
static void prove_rest(struct jpeg_call *c, bool may_skip, uint8_t *buffer)
{
    struct jpeg_decompress_struct *j = &c->j;
    JDIMENSION rest = j->output_height - j->output_scanline;
    if (may_skip && rest > 1)
        rest -= jpeg_skip_scanlines(j, rest - 1);
    discard_rows(j, rest, buffer);
    c->has_all_rows = true;
    jpeg_finish_decompress(j);
}

static bool has_end(const struct jpeg_call *c)
{
    return jpeg_ends_here(c->j.unread_marker, c->source.next_input_byte, c->source.bytes_in_buffer);
}

static int read_region(struct jpeg_call *c, struct codec_state *s, const struct region *r, const struct image *out, struct fb_error *e)
{
    struct jpeg_decompress_struct *j = &c->j;
    bool may_skip = !is_smoothed(j) && !c->is_reduced; /* reduced images are small already, and libjpeg's skipping is not proved for them */
    struct window w = {0, j->output_width, j->out_color_components};
    if (may_skip)
        w = crop_columns(j, r);
    uint8_t *buffer = scratch_need(&s->scratch, (size_t)w.width * (size_t)w.channels * ROWS, e);
    if (!buffer)
        return e ? e->code : FB_E_NOMEM;
    if (r->top && may_skip)
        jpeg_skip_scanlines(j, r->top);
    else
        discard_rows(j, r->top, buffer);
    if (w.left == r->left && w.width == r->width && w.channels == 3)
        read_direct(j, out);
    else
        read_through(j, &w, buffer, r, out);
    if (!jpeg_has_multiple_scans(j) && !has_end(c)) /* several scans were all read at the start */
        prove_rest(c, may_skip, buffer);
    return 0;
}

/* The bytes end behind the pixels, in something that does no harm. A second frame does: no decoder knows which of them is meant. */
static bool has_harmless_end(const struct jpeg_call *c)
{
    return c->is_cut_off && c->has_all_rows && !jpeg_is_frame(c->j.unread_marker);
}

/* Its caller owns everything that outlives a longjmp. */
static int guarded(struct jpeg_call *c, struct codec_state *s, const struct image_header *h, const struct region *r,
                   const struct image *out, struct fb_error *e)
{
    if (setjmp(c->escape))
        return has_harmless_end(c) ? 0 : report(c, e);
    jpeg_create_decompress(&c->j);
    c->j.src = &c->source;
    c->j.progress = &c->progress;
    FB_TRY(start(c, s, h, e));
    return read_region(c, s, r, out, e);
}

int jpeg_turbo_decode(struct codec_state *s, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                      const struct image *out, struct fb_error *e)
{
    struct jpeg_call c = {0};
    prepare(&c, bytes, n);
    int rc = guarded(&c, s, h, r, out, e);
    jpeg_destroy_decompress(&c.j);
    if (c.borrowed)
        codec_give_back(s, c.borrowed);
    return rc;
}

static int decode(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h, const struct region *r,
                  const struct image *out, struct fb_error *e)
{
    if (jpeg_fast_decode(s, own, bytes, n, h, r, out) == 0)
        return 0;
    return s->has_part_only || s->taker ? 1 : jpeg_turbo_decode(s, bytes, n, h, r, out, e);
}

static bool range(const uint8_t *record, size_t n, const struct region *r, uint64_t *head, uint64_t *first, uint64_t *last)
{
    static const struct region anything = {0, 0, 1, 1};
    uint32_t scan, from, to;
    if (!jpeg_record_range(record, n, r ? r : &anything, &scan, &from, &to))
        return false;
    *head = scan;
    *first = from;
    *last = to;
    return true;
}

static bool probe(const uint8_t *bytes, size_t n)
{
    return n >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

const struct codec_ops codec_jpeg = {
    .name = "jpeg", .gives_rows = true, .probe = probe, .header = jpeg_header, .decode = decode, .range = range, .close = jpeg_fast_close};
