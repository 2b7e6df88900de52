/* JPEG regions with hostile records: the input is a file, a record, three bytes with the record's length, one byte of wishes (the scale
 * among them) and eight bytes that choose a region.
 *
 * Promises checked, beyond the sanitizers': whatever the record, verdict and pixels are libjpeg-turbo's, unless its checksums were made
 * right for this file and it was believed; C and SIMD agree; a record that a decode has left serves the next one, and again the pixels are
 * libjpeg-turbo's, with the bytes it names as with all of them.
 */
#include "codec/image/jpeg/jpeg_record.h"
#include "codec/image/jpeg/jpeg_turbo.h"
#include "codec_region.h"

enum { TAIL_BYTES = 12, IS_SEALED = 1, IS_WHOLE = 2, SCALE_SHIFT = 2 };

struct input {
    const uint8_t *file;
    size_t n;
    struct image_header header; /* at the scale that is wanted */
    struct region region;
    struct region in_file; /* the same in pixels of the file */
    uint8_t *theirs;       /* libjpeg-turbo's pixels */
    int verdict;           /* and what it says */
};

struct ours {
    int rc;
    enum codec_way way;
    uint8_t *pixels, *record;
    size_t record_bytes;
};

static size_t region_bytes(const struct input *in)
{
    return (size_t)3 * in->region.width * in->region.height;
}

static struct ours decode(const struct input *in, const uint8_t *file, const uint8_t *record, size_t record_bytes, bool has_part_only)
{
    struct codec_state s;
    struct fb_error e = {0};
    struct ours o = {.pixels = malloc(region_bytes(in))};
    struct image out = {o.pixels, (size_t)3 * in->region.width, in->region.width, in->region.height};
    PROMISE(o.pixels);
    codec_state_init(&s, NULL);
    s.known = record;
    s.known_bytes = record_bytes;
    s.wants_record = true;
    s.has_part_only = has_part_only;
    o.rc = codec_decode(&s, &codec_jpeg, file, in->n, &in->header, &in->region, &out, &e);
    o.way = s.way;
    o.record_bytes = s.record_bytes;
    o.record = malloc(o.record_bytes + 1);
    PROMISE(o.record);
    memcpy(o.record, s.record_bytes ? s.record.data : "", o.record_bytes);
    codec_state_free(&s);
    return o;
}

static void drop(struct ours *o)
{
    free(o->pixels);
    free(o->record);
}

static void must_be_theirs(const struct input *in, const struct ours *o)
{
    PROMISE(o->rc == in->verdict);
    PROMISE(o->rc != 0 || !memcmp(o->pixels, in->theirs, region_bytes(in)));
}

static void ask_turbo(struct input *in)
{
    struct budget memory = {.limit = FUZZ_MEMORY};
    struct codec_state s;
    struct fb_error e = {0};
    in->theirs = malloc(region_bytes(in));
    PROMISE(in->theirs);
    struct image out = {in->theirs, (size_t)3 * in->region.width, in->region.width, in->region.height};
    codec_state_init(&s, &memory);
    in->verdict = jpeg_turbo_decode(&s, in->file, in->n, &in->header, &in->region, &out, &e);
    codec_state_free(&s);
}

/* Decodes with nothing but the header and the bytes that a record of ours names. */
static void use_part(const struct input *in, const struct ours *known)
{
    uint32_t header, first, last;
    bool is_known = jpeg_record_range(known->record, known->record_bytes, &in->in_file, &header, &first, &last);
    PROMISE(is_known || in->header.scale > 1); /* reduced, a row more is asked for than decoding had to pass */
    if (!is_known)
        return;
    PROMISE(header <= first && first <= last && last <= in->n);
    uint8_t *part = calloc(1, in->n);
    PROMISE(part);
    memcpy(part, in->file, header);
    memcpy(part + first, in->file + first, last - first);
    struct ours o = decode(in, part, known->record, known->record_bytes, true);
    PROMISE(o.rc == 0 && o.way == CODEC_BY_RECORD);
    must_be_theirs(in, &o);
    drop(&o);
    free(part);
}

static void learn_and_use(const struct input *in)
{
    jpeg_kernels_use(jpeg_kernels_by_name("c"));
    struct ours plain = decode(in, in->file, NULL, 0, false);
    jpeg_kernels_use(jpeg_kernels_by_name("avx2") ? jpeg_kernels_by_name("avx2") : jpeg_kernels_by_name("c"));
    must_be_theirs(in, &plain);
    struct ours first = decode(in, in->file, NULL, 0, false);
    must_be_theirs(in, &first);
    PROMISE(first.way == plain.way && first.record_bytes == plain.record_bytes && !memcmp(first.record, plain.record, first.record_bytes));
    if (first.record_bytes) {
        struct ours second = decode(in, in->file, first.record, first.record_bytes, false);
        PROMISE(second.way == CODEC_BY_RECORD && !second.record_bytes);
        must_be_theirs(in, &second);
        drop(&second);
        use_part(in, &first);
    }
    drop(&plain);
    drop(&first);
}

static void use_hostile(const struct input *in, const uint8_t *bytes, size_t n, bool is_sealed)
{
    uint8_t *record = malloc(n + !n);
    uint32_t header, first, last;
    PROMISE(record);
    memcpy(record, bytes, n);
    if (is_sealed)
        jpeg_record_seal(record, n, in->file, in->n);
    struct ours o = decode(in, in->file, record, n, false);
    if (!is_sealed || o.way != CODEC_BY_RECORD)
        must_be_theirs(in, &o);
    drop(&o);
    o = decode(in, in->file, record, n, true);
    PROMISE(o.rc == 0 || o.rc == 1);
    drop(&o);
    if (jpeg_record_range(record, n, &in->in_file, &header, &first, &last))
        PROMISE(header <= first && first <= last);
    free(record);
}

/* Scale and region. */
static void choose(struct input *in, const uint8_t *tail)
{
    uint32_t width = in->header.width, height = in->header.height, scale = 1u << (tail[3] >> SCALE_SHIFT & 3);
    in->header.width = image_reduced(width, scale);
    in->header.height = image_reduced(height, scale);
    in->header.scale = (uint8_t)scale;
    in->region = chosen_region(tail + 4, &in->header);
    if (tail[3] & IS_WHOLE && !is_large(&in->header))
        in->region = (struct region){0, 0, in->header.height, in->header.width};
    in->in_file = scale == 1 ? in->region : image_region_in_file(in->region, scale, width, height);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fb_error e = {0};
    if (size < TAIL_BYTES)
        return 0;
    const uint8_t *tail = data + size - TAIL_BYTES;
    size_t record_bytes = (size_t)tail[0] << 16 | (size_t)tail[1] << 8 | tail[2], rest = size - TAIL_BYTES;
    if (record_bytes > rest)
        return 0;
    size_t n = rest - record_bytes;
    struct input in = {.file = malloc(n + !n), .n = n}; /* exactly its size */
    PROMISE(in.file);
    memcpy((uint8_t *)in.file, data, n);
    if (codec_jpeg.probe(in.file, n < CODEC_PROBE_BYTES ? n : CODEC_PROBE_BYTES) && codec_jpeg.header(in.file, n, &in.header, &e) == 0) {
        choose(&in, tail);
        ask_turbo(&in);
        if (in.verdict != FB_E_BUDGET) {
            learn_and_use(&in);
            use_hostile(&in, data + n, record_bytes, tail[3] & IS_SEALED);
        }
        free(in.theirs);
    }
    free((uint8_t *)in.file);
    return 0;
}
