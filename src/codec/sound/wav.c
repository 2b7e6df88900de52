/* WAV: RIFF, RF64 and BW64, plain numbers frame by frame. What the file says of its size is believed only as far as the bytes go.
 *
 * Headers of recordings that were streamed or cut off are wrong in known ways: a size of 0 or 0xFFFFFFFF, a size beyond the end. They are
 * read up to the last whole frame that is there, as libsndfile does. Two things differ from it, where it gives silence or noise: a data
 * chunk of size 0 that goes on beyond the RIFF chunk is a recording that was never closed, whatever the size of the RIFF chunk; and 24 bits
 * in a container of four bytes are read as what they are. Compressed kinds (ADPCM, GSM ...) are libsndfile's: such a file is described by
 * sndfile.c.
 */
#include <string.h>

#include "codec/array/array_window.h"
#include "codec/sound/clip.h"
#include "codec/sound/sndfile.h"

enum { RIFF_HEAD = 12, CHUNK_HEAD = 8, FMT_LEAST = 16, FMT_EXTENSIBLE = 40, MAX_CHUNKS = 4096 };
enum { TAG_PCM = 1, TAG_FLOAT = 3, TAG_ALAW = 6, TAG_MULAW = 7, TAG_EXTENSIBLE = 0xfffe };
#define SIZE_UNKNOWN 0xffffffffu

struct wav {
    struct array_window window;
    bool has_format, has_data;
    uint32_t tag, channels, rate, align, bits;
    uint64_t riff_bytes, long_data_bytes; /* of RIFF and ds64 */
    uint64_t data_at, data_bytes;
};

static bool is_named(const uint8_t *p, const char *name)
{
    return !memcmp(p, name, 4);
}

static bool probe(const uint8_t *bytes, size_t n)
{
    return n >= RIFF_HEAD && is_named(bytes + 8, "WAVE") && (is_named(bytes, "RIFF") || is_named(bytes, "RF64") || is_named(bytes, "BW64"));
}

/* ---- chunks ---- */

/* The tag proper of WAVE_FORMAT_EXTENSIBLE: the first two bytes of an id whose others are Microsoft's, or those of Ambisonic B-format. */
static uint32_t extensible_tag(const uint8_t *id)
{
    static const uint8_t usual[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
    static const uint8_t ambisonic[14] = {0, 0, 0x21, 0x07, 0xd3, 0x11, 0x86, 0x44, 0xc8, 0xc1, 0xca, 0, 0, 0};
    bool is_known = !memcmp(id + 2, usual, sizeof(usual)) || !memcmp(id + 2, ambisonic, sizeof(ambisonic));
    return is_known ? array_u16(id) : TAG_EXTENSIBLE;
}

static int read_format(struct wav *w, uint64_t at, uint64_t length, struct fb_error *e)
{
    const uint8_t *p;
    if (w->has_format)
        return array_damaged(e, (int64_t)at, "the WAV file has two format chunks");
    if (length < FMT_LEAST)
        return array_damaged(e, (int64_t)at, "the WAV format chunk has %llu bytes, but needs at least 16", (unsigned long long)length);
    FB_TRY(array_peek(&w->window, at, length < FMT_EXTENSIBLE ? FMT_LEAST : FMT_EXTENSIBLE, &p, e));
    w->has_format = true;
    w->tag = array_u16(p);
    w->channels = array_u16(p + 2);
    w->rate = array_u32(p + 4);
    w->align = array_u16(p + 12);
    w->bits = array_u16(p + 14);
    if (w->tag == TAG_EXTENSIBLE && length >= FMT_EXTENSIBLE)
        w->tag = extensible_tag(p + 24);
    return 0;
}

/* Where the data end: by the chunk, by ds64, or at the end of the file. */
static void place_data(struct wav *w, uint64_t at, uint32_t stated)
{
    uint64_t there = w->window.source->size - at, bytes = stated;
    bool is_long = stated == SIZE_UNKNOWN;
    bool was_never_closed = stated == 0 && w->riff_bytes + CHUNK_HEAD <= at;
    if (is_long)
        bytes = w->long_data_bytes ? w->long_data_bytes : there;
    if (was_never_closed)
        bytes = there;
    w->has_data = true;
    w->data_at = at;
    w->data_bytes = bytes < there ? bytes : there;
}

static int read_long_sizes(struct wav *w, uint64_t at, uint64_t length, struct fb_error *e)
{
    const uint8_t *p;
    if (length < 24)
        return array_damaged(e, (int64_t)at, "the ds64 chunk has %llu bytes, but needs at least 24", (unsigned long long)length);
    FB_TRY(array_peek(&w->window, at, 16, &p, e));
    w->riff_bytes = array_u64(p) <= INT64_MAX ? array_u64(p) : INT64_MAX;
    w->long_data_bytes = array_u64(p + 8);
    return 0;
}

/* Up to the data: whatever else there is before them is passed over, what comes behind does not matter. */
static int walk(struct wav *w, struct fb_error *e)
{
    uint64_t size = w->window.source->size, at = RIFF_HEAD;
    for (int i = 0; i < MAX_CHUNKS && at <= size && size - at >= CHUNK_HEAD && !w->has_data; i++) {
        const uint8_t *p;
        FB_TRY(array_peek(&w->window, at, CHUNK_HEAD, &p, e));
        uint64_t length = array_u32(p + 4), body = at + CHUNK_HEAD;
        if (is_named(p, "fmt "))
            FB_TRY(read_format(w, body, length, e));
        else if (is_named(p, "ds64"))
            FB_TRY(read_long_sizes(w, body, length, e));
        else if (is_named(p, "data"))
            place_data(w, body, (uint32_t)length);
        at = body + length + (length & 1);
    }
    if (!w->has_data)
        return array_damaged(e, (int64_t)(at < size ? at : size), "the WAV file has no data chunk, or is cut off before it");
    if (!w->has_format)
        return array_damaged(e, (int64_t)w->data_at, "the WAV file has no format chunk before its data");
    return 0;
}

/* ---- the format ---- */

static int unsupported_bits(const struct wav *w, struct fb_error *e)
{
    const char *what = w->tag == TAG_FLOAT ? "floats" : "numbers";
    return error_set(e, FB_E_UNSUPPORTED, "decode", "WAV with %s of %u bits is not read", what, w->bits);
}

static int read_code(const struct wav *w, enum array_code *code, struct fb_error *e)
{
    static const enum array_code pcm[] = {[1] = ARRAY_PCM_U8, [2] = ARRAY_PCM_S16, [3] = ARRAY_PCM_S24, [4] = ARRAY_PCM_S32};
    uint32_t bytes = (w->bits + 7) / 8;
    switch (w->tag) {
    case TAG_PCM:
        if (bytes < 1 || bytes > 4)
            return unsupported_bits(w, e);
        *code = bytes == 3 && w->align == 4 * w->channels ? ARRAY_PCM_S32 : pcm[bytes];
        return 0;
    case TAG_FLOAT:
        if (w->bits != 32 && w->bits != 64)
            return unsupported_bits(w, e);
        *code = w->bits == 32 ? ARRAY_PCM_F32 : ARRAY_PCM_F64;
        return 0;
    case TAG_ALAW: *code = ARRAY_ALAW; return 0;
    case TAG_MULAW: *code = ARRAY_MULAW; return 0;
    default: return 1;
    }
}

static int check_format(const struct wav *w, struct fb_error *e)
{
    if (w->channels < 1)
        return array_damaged(e, -1, "the WAV file has no channels");
    if (w->channels > CLIP_MAX_CHANNELS)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the WAV file has %u channels; at most %d can be read", w->channels,
                         CLIP_MAX_CHANNELS);
    if (w->rate < 1 || w->rate > INT32_MAX)
        return array_damaged(e, -1, "the WAV file claims %u samples per second", w->rate);
    return 0;
}

static int describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    struct wav w = {.window = {.source = s}};
    struct array_layout a = {.dtype = FB_FLOAT32, .ndim = 2, .storage = ARRAY_CONTIGUOUS};
    const uint8_t *p;
    FB_TRY(array_peek(&w.window, 0, RIFF_HEAD, &p, e));
    w.riff_bytes = array_u32(p + 4);
    FB_TRY(walk(&w, e));
    FB_TRY(check_format(&w, e));
    int rc = read_code(&w, &a.code, e);
    if (rc > 0)
        return sound_describe(s, out, e);
    FB_TRY(rc);
    a.stored_bytes = array_stored_bytes(a.code, a.dtype);
    a.offset = w.data_at;
    a.shape[0] = w.data_bytes / ((uint64_t)a.stored_bytes * w.channels);
    a.shape[1] = w.channels;
    a.bytes = a.shape[0] * a.stored_bytes * w.channels;
    a.rate = w.rate;
    FB_TRY(array_check(&a, s->size, e));
    FB_TRY(array_file_make(out, "wav", s->size, 1, 0, NULL, e));
    out->array[0] = a;
    return 0;
}

const struct array_ops array_wav = {.name = "wav", .probe = probe, .describe = describe, .read_rows = sound_read_rows};
