/* Drawn files (jpeg_draw.h) against the simplest use of libjpeg-turbo: whole images and regions, with and without learnt records, at every
 * scale, row by row, from a part of the file, in C and with SIMD, several files in turn by one thread's state. Our decoder may decline a
 * file; it must never give another pixel or another verdict.
 *
 * FB_SOAK=1 draws for much longer, from a new seed. A failure tells FB_SEED and the group: with FB_GROUP set to it the failure comes at
 * once, and FB_KEEP names a file to keep the culprit in. FB_CASES says how many cases to try.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jpeglib.h>

#include "../../../sanitizers.h"
#include "codec/codec_internal.h"
#include "codec/image/jpeg/kernels/jpeg_kernels.h"
#include "codec/image/jpeg/jpeg_markers.h"
#include "codec/image/jpeg/jpeg_record.h"
#include "jpeg_draw.h"

enum { SCALES = 4, FILES = 3, STEPS = 14, MOST_PIXELS = 1 << 21 };

struct subject {
    struct jpeg_drawn drawn;
    struct image_header header;
    uint8_t *expected[SCALES]; /* what libjpeg makes of it, lazily; NULL if it refuses */
    bool is_known[SCALES];
    struct bytes record;
};

static long cases, ways[CODEC_WAYS], refusals, parts;
static uint64_t seed, group;

static uint32_t below(struct rng *r, uint32_t n)
{
    return (uint32_t)rng_below(r, n);
}

static void differs(const struct subject *s, const char *how, const struct region *r, int scale, const char *what)
{
    char text[200];
    jpeg_drawn_text(&s->drawn, text, sizeof(text));
    const char *keep = getenv("FB_KEEP");
    FILE *f = keep ? fopen(keep, "wb") : NULL;
    if (f) {
        fwrite(s->drawn.file.data, 1, s->drawn.file.n, f);
        fclose(f);
    }
    fail_msg("FB_SEED=%llu, group %llu: %s; %s, %s, 1/%d, %u x %u at left %u, top %u: %s", (unsigned long long)seed,
             (unsigned long long)group, text, how, jpeg_kernels()->name, scale, r->width, r->height, r->left, r->top, what);
}

/* ---- the oracle ---- */

struct plain {
    struct jpeg_error_mgr errors; /* first: libjpeg hands it to the handlers */
    jmp_buf escape;
    bool is_at_end, has_all_rows;
};

static void on_error(j_common_ptr j)
{
    longjmp(((struct plain *)j->err)->escape, 1);
}

static void on_message(j_common_ptr j, int level)
{
    (void)j;
    (void)level;
}

static boolean on_end(j_decompress_ptr j)
{
    struct plain *p = (struct plain *)j->err;
    p->is_at_end = true;
    longjmp(p->escape, 1);
}

static void on_skip(j_decompress_ptr j, long count)
{
    if (count > (long)j->src->bytes_in_buffer)
        on_end(j);
    j->src->next_input_byte += count > 0 ? count : 0;
    j->src->bytes_in_buffer -= (size_t)(count > 0 ? count : 0);
}

/* Every row, and what follows them as far as it is there, which must not be a second frame. */
static bool read_all(struct jpeg_decompress_struct *d, struct plain *p, struct bytes file, uint32_t scale, uint8_t *pixels)
{
    if (setjmp(p->escape))
        return p->is_at_end && p->has_all_rows && !jpeg_is_frame(d->unread_marker);
    jpeg_create_decompress(d);
    jpeg_mem_src(d, file.data, file.n);
    d->src->fill_input_buffer = on_end;
    d->src->skip_input_data = on_skip;
    jpeg_read_header(d, TRUE);
    d->out_color_space = JCS_RGB;
    d->scale_denom = scale;
    jpeg_start_decompress(d);
    while (d->output_scanline < d->output_height) {
        JSAMPROW row = pixels + (size_t)3 * d->output_width * d->output_scanline;
        jpeg_read_scanlines(d, &row, 1);
    }
    p->has_all_rows = true;
    jpeg_finish_decompress(d);
    return true;
}

static uint8_t *decode_plainly(struct bytes file, const struct image_header *h, uint32_t scale)
{
    struct jpeg_decompress_struct d = {0};
    struct plain p = {0};
    uint8_t *pixels = malloc((size_t)3 * h->width * h->height);
    d.err = jpeg_std_error(&p.errors);
    p.errors.error_exit = on_error;
    p.errors.emit_message = on_message;
    bool is_good = read_all(&d, &p, file, scale, pixels);
    jpeg_destroy_decompress(&d);
    if (is_good)
        return pixels;
    free(pixels);
    return NULL;
}

static struct image_header at_scale(const struct subject *s, uint32_t scale)
{
    return (struct image_header){image_reduced(s->drawn.width, scale), image_reduced(s->drawn.height, scale), 1, true, (uint8_t)scale};
}

static const uint8_t *expected(struct subject *s, int i)
{
    struct image_header h = at_scale(s, 1u << i);
    if (!s->is_known[i])
        s->expected[i] = decode_plainly(s->drawn.file, &h, 1u << i);
    s->is_known[i] = true;
    return s->expected[i];
}

/* ---- kernels under watch: no lane may leave its window's memory, with or without a sanitizer ---- */

static struct jpeg_kernels watched[2];
static const struct jpeg_kernels *inner;
static const uint8_t *windows[2 * JPEG_LANES]; /* the latest ones */

static uint32_t watched_unstuff(uint8_t *out, uint32_t room, const uint8_t **in, const uint8_t *end, uint16_t *dropped, uint32_t *drops,
                                uint32_t before)
{
    if (windows[0] != out - before) {
        memmove(windows + 1, windows, sizeof(windows) - sizeof(windows[0]));
        windows[0] = out - before;
    }
    uint32_t n = inner->unstuff(out, room, in, end, dropped, drops, before);
    assert_true(*drops <= JPEG_DROP_BYTES / sizeof(uint16_t));
    assert_true((const uint8_t *)(dropped + *drops) <= out - before || (const uint8_t *)dropped >= out + room);
    return n;
}

static bool is_in_a_window(const uint8_t *p)
{
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
        if (windows[i] && p >= windows[i] && p + 8 <= windows[i] + JPEG_WINDOW + JPEG_WINDOW_SLACK)
            return true;
    return false;
}

static bool watched_entropy(struct jpeg_lane *lanes, int n, const struct jpeg_schedule *s, uint32_t mcus)
{
    bool is_good = inner->entropy(lanes, n, s, mcus);
    for (int i = 0; i < n; i++)
        if (!is_in_a_window(lanes[i].next))
            fail_msg("FB_SEED=%llu, group %llu: the entropy decoder has left its window", (unsigned long long)seed,
                     (unsigned long long)group);
    return is_good;
}

static void use_kernels(uint32_t which)
{
    inner = jpeg_kernels_by_name(which ? "avx2" : "c");
    inner = inner ? inner : jpeg_kernels_by_name("c");
    watched[which] = *inner;
    watched[which].entropy = watched_entropy;
    watched[which].unstuff = watched_unstuff;
    jpeg_kernels_use(&watched[which]);
}

/* ---- ours ---- */

struct ring {
    const struct image *out;
    const uint8_t *rows;
};

static void collect(void *ctx, uint32_t first, uint32_t count)
{
    const struct ring *g = ctx;
    for (uint32_t y = first; y < first + count; y++)
        memcpy(g->out->data + y * g->out->stride, g->rows + y % CODEC_RING_ROWS * g->out->stride, (size_t)3 * g->out->width);
}

static int decode_by_rows(struct codec_state *state, const struct subject *s, const struct image_header *h, const struct region *r,
                          const struct image *out, struct fb_error *e)
{
    struct image rows = {malloc(out->stride * CODEC_RING_ROWS), out->stride, out->width, out->height};
    state->taker = &(struct row_taker){collect, &(struct ring){out, rows.data}};
    int rc = codec_decode(state, &codec_jpeg, s->drawn.file.data, s->drawn.file.n, h, r, &rows, e);
    state->taker = NULL;
    free(rows.data);
    return rc;
}

static void compare(struct subject *s, const char *how, const struct image_header *h, const struct region *r, const struct image *out,
                    int rc)
{
    int i = h->scale == 8 ? 3 : h->scale / 2;
    const uint8_t *whole = expected(s, i);
    if (rc < 0 || !whole) {
        if ((rc == 0) != (whole != NULL))
            differs(s, how, r, h->scale, rc < 0 ? "refused, libjpeg reads it" : "read, libjpeg refuses it");
        return;
    }
    for (uint32_t y = 0; y < r->height; y++)
        if (memcmp(out->data + y * out->stride, whole + 3 * ((size_t)(r->top + y) * h->width + r->left), (size_t)3 * r->width))
            differs(s, how, r, h->scale, "another pixel");
}

static void keep_record(struct subject *s, const struct codec_state *state)
{
    if (!state->record_bytes)
        return;
    s->record.data = realloc(s->record.data, state->record_bytes);
    s->record.n = state->record_bytes;
    memcpy(s->record.data, state->record.data, s->record.n);
}

/* With nothing of the file but what the record names. */
static void check_part(struct subject *s, struct codec_state *state, const struct image_header *h, const struct region *r,
                       const struct image *out)
{
    uint32_t head, first, last;
    struct fb_error e = {0};
    struct region in_file = h->scale == 1 ? *r : image_region_in_file(*r, h->scale, s->drawn.width, s->drawn.height);
    if (!s->record.n || !jpeg_record_range(s->record.data, s->record.n, &in_file, &head, &first, &last))
        return;
    uint8_t *part = calloc(1, s->drawn.file.n);
    memcpy(part, s->drawn.file.data, head);
    memcpy(part + first, s->drawn.file.data + first, last - first);
    state->has_part_only = true;
    int rc = codec_decode(state, &codec_jpeg, part, s->drawn.file.n, h, r, out, &e);
    state->has_part_only = false;
    if (rc == 0)
        compare(s, "from a part", h, r, out, rc);
    parts += rc == 0;
    free(part);
}

static struct region draw_region(struct rng *r, const struct image_header *h)
{
    struct region g = {0, 0, h->height, h->width};
    if (below(r, 4) == 0)
        return g;
    g.top = below(r, h->height);
    g.left = below(r, h->width);
    g.height = 1 + below(r, h->height - g.top);
    g.width = 1 + below(r, h->width - g.left);
    return g;
}

static void check_step(struct subject *s, struct codec_state *state, struct rng *rng)
{
    struct image_header h = at_scale(s, 1u << (below(rng, 2) ? 0 : below(rng, SCALES)));
    struct region r = draw_region(rng, &h);
    struct fb_error e = {0};
    struct image out = {malloc((size_t)3 * r.width * r.height), (size_t)3 * r.width, r.width, r.height};
    use_kernels(below(rng, 2));
    bool is_known = s->record.n && below(rng, 3), by_rows = below(rng, 4) == 0;
    state->known = is_known ? s->record.data : NULL;
    state->known_bytes = is_known ? s->record.n : 0;
    int rc = by_rows ? decode_by_rows(state, s, &h, &r, &out, &e)
                     : codec_decode(state, &codec_jpeg, s->drawn.file.data, s->drawn.file.n, &h, &r, &out, &e);
    if (rc <= 0)
        compare(s, by_rows ? "by rows" : is_known ? "with a record" : "plainly", &h, &r, &out, rc);
    refusals += rc < 0;
    ways[state->way]++;
    cases++;
    keep_record(s, state);
    state->known = s->record.data; /* the one before may be freed */
    state->known_bytes = s->record.n;
    if (is_known)
        check_part(s, state, &h, &r, &out);
    free(out.data);
}

static void forget(struct subject *s)
{
    for (int i = 0; i < SCALES; i++)
        free(s->expected[i]);
    free(s->record.data);
    free(s->drawn.file.data);
}

/* Some files in turn, with one state. */
static void check_group(void)
{
    struct rng rng = rng_stream(RNG_TRANSFORM, seed, 0, group, 0);
    struct subject subjects[FILES] = {0};
    struct codec_state state;
    codec_state_init(&state, NULL);
    state.wants_record = true;
    for (int i = 0; i < FILES; i++)
        do {
            free(subjects[i].drawn.file.data);
            subjects[i].drawn = jpeg_draw(&rng);
        } while ((uint64_t)subjects[i].drawn.width * subjects[i].drawn.height > MOST_PIXELS);
    for (int i = 0; i < STEPS; i++)
        check_step(&subjects[below(&rng, FILES)], &state, &rng);
    jpeg_kernels_use(NULL);
    codec_state_free(&state);
    for (int i = 0; i < FILES; i++)
        forget(&subjects[i]);
}

static long wanted_cases(void)
{
    const char *text = getenv("FB_CASES");
    return text ? atol(text) : getenv("FB_SOAK") ? 400000 : 9000 / SANITIZED_STRIDE(3);
}

static void drawn_files_decode_as_libjpeg_decodes_them(void **unused)
{
    (void)unused;
    const char *text = getenv("FB_SEED"), *first = getenv("FB_GROUP");
    seed = text ? strtoull(text, NULL, 10) : getenv("FB_SOAK") ? (uint64_t)time(NULL) : 1;
    group = first ? strtoull(first, NULL, 10) : 0;
    for (; cases < wanted_cases(); group++)
        check_group();
    print_message("seed %llu, %ld cases: %ld plainly, %ld by record, %ld left to libjpeg (%ld refused), %ld from parts\n",
                  (unsigned long long)seed, cases, ways[CODEC_PLAIN], ways[CODEC_BY_RECORD], ways[CODEC_FALLBACK], refusals, parts);
    assert_true(cases < 1000 || ways[CODEC_PLAIN] + ways[CODEC_BY_RECORD] > cases / 3);
    assert_true(cases < 1000 || (ways[CODEC_BY_RECORD] > cases / 10 && parts > cases / 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_files_decode_as_libjpeg_decodes_them)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
