/* FLAC, Ogg (Vorbis, Opus), MP3, AIFF, AU, CAF, W64, big-endian WAV and the compressed kinds of WAV, by libsndfile.
 *
 * The library sees the file through callbacks and nothing else, so a recording may come from anywhere. It opens the file again for each
 * read: it keeps no state that two threads could share. Numbers are its float32. It has more formats than these; a file that it takes for
 * one of the others is refused, because those are parsers that nobody here has a reason to run on hostile bytes.
 */
#include "codec/sound/sndfile.h"

#include <stdio.h>
#include <string.h>

#include "codec/array/array_window.h"
#include "codec/sound/clip.h"
#include "codec/sound/sndfile_dynlib.h"

/* ---- a source as libsndfile wants it ---- */

struct stream {
    const struct array_source *source;
    uint64_t at;
    struct fb_error *e; /* the first failed read */
    int rc;
};

static sf_count_t stream_length(void *p)
{
    const struct stream *s = p;
    return (sf_count_t)s->source->size;
}

static sf_count_t stream_seek(sf_count_t offset, int whence, void *p)
{
    struct stream *s = p;
    int64_t base = whence == SEEK_CUR ? (int64_t)s->at : whence == SEEK_END ? (int64_t)s->source->size : 0, to;
    if (__builtin_add_overflow(base, (int64_t)offset, &to) || to < 0)
        return -1;
    s->at = (uint64_t)to;
    return to;
}

static sf_count_t stream_read(void *to, sf_count_t count, void *p)
{
    struct stream *s = p;
    uint64_t left = s->at < s->source->size ? s->source->size - s->at : 0;
    uint64_t n = count > 0 && (uint64_t)count < left ? (uint64_t)count : left;
    if (count <= 0 || n == 0 || s->rc < 0)
        return 0;
    s->rc = s->source->read(s->source->ctx, s->at, n, to, s->e);
    if (s->rc < 0)
        return 0;
    s->at += n;
    return (sf_count_t)n;
}

static sf_count_t stream_write(const void *from, sf_count_t count, void *p)
{
    (void)from, (void)count, (void)p;
    return 0;
}

static sf_count_t stream_tell(void *p)
{
    const struct stream *s = p;
    return (sf_count_t)s->at;
}

static SNDFILE *open_stream(struct stream *s, SF_INFO *info)
{
    static SF_VIRTUAL_IO io = {stream_length, stream_seek, stream_read, stream_write, stream_tell};
    memset(info, 0, sizeof(*info));
    s->rc = sndfile_dynlib_open(s->e);
    if (s->rc < 0)
        return NULL;
    return sf_open_virtual(&io, SFM_READ, info, s);
}

/* ---- what may be read ---- */

static const struct {
    int format;
    const char *name;
} known[] = {
    {SF_FORMAT_WAV, "WAV"}, {SF_FORMAT_WAVEX, "WAV"}, {SF_FORMAT_RF64, "RF64"}, {SF_FORMAT_AIFF, "AIFF"}, {SF_FORMAT_AU, "AU"},
    {SF_FORMAT_CAF, "CAF"}, {SF_FORMAT_W64, "W64"},   {SF_FORMAT_FLAC, "FLAC"}, {SF_FORMAT_OGG, "Ogg"},   {SF_FORMAT_MPEG, "MP3"},
};

static const char *format_name(int format)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if ((format & SF_FORMAT_TYPEMASK) == known[i].format)
            return known[i].name;
    return NULL;
}

static bool is_mp3(const uint8_t *b)
{
    bool is_layer_3 = b[0] == 0xff && (b[1] & 0xe6) == 0xe2, has_version = (b[1] & 0x18) != 0x08;
    return is_layer_3 && has_version && (b[2] & 0xf0) != 0xf0 && (b[2] & 0xf0) != 0 && (b[2] & 0x0c) != 0x0c;
}

static bool probe(const uint8_t *bytes, size_t n)
{
    static const char *const starts[] = {"fLaC", "OggS", ".snd", "dns.", "caff", "riff"}; /* "dns.": AU with its bytes swapped */
    if (n < 12)
        return false;
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
        if (!memcmp(bytes, starts[i], 4))
            return true;
    bool is_aiff = !memcmp(bytes, "FORM", 4) && (!memcmp(bytes + 8, "AIFF", 4) || !memcmp(bytes + 8, "AIFC", 4));
    bool is_rifx = !memcmp(bytes, "RIFX", 4) && !memcmp(bytes + 8, "WAVE", 4);
    return is_aiff || is_rifx || !memcmp(bytes, "ID3", 3) || is_mp3(bytes);
}

/* ---- hooks ---- */

static int cannot_open(const struct stream *s, struct fb_error *e)
{
    if (s->rc < 0)
        return s->rc;
    return array_damaged(e, -1, "the sound file cannot be read: %s", sf_strerror(NULL));
}

/* Does what the header says make sense? */
static int check_info(const SF_INFO *info, struct fb_error *e)
{
    const char *name = format_name(info->format);
    if (!name)
        return error_set(e, FB_E_UNSUPPORTED, "decode", "the sound file is of a kind that is not read here (libsndfile's 0x%x)",
                         info->format);
    if (info->channels < 1 || info->channels > CLIP_MAX_CHANNELS || info->samplerate < 1)
        return array_damaged(e, -1, "the %s file claims %d channels and %d samples per second", name, info->channels, info->samplerate);
    if (info->frames < 0 || info->frames > INT64_MAX / 8 / info->channels)
        return array_damaged(e, -1, "the %s file claims an impossible length", name);
    return 0;
}

int sound_describe(const struct array_source *s, struct array_file *out, struct fb_error *e)
{
    struct stream stream = {.source = s, .e = e};
    SF_INFO info;
    SNDFILE *file = open_stream(&stream, &info);
    if (!file)
        return cannot_open(&stream, e);
    sf_close(file);
    FB_TRY(check_info(&info, e));
    struct array_layout a = {.dtype = FB_FLOAT32, .code = ARRAY_PCM_F32, .stored_bytes = 4, .ndim = 2, .storage = ARRAY_OPAQUE};
    a.shape[0] = (uint64_t)info.frames;
    a.shape[1] = (uint64_t)info.channels;
    a.rate = (uint32_t)info.samplerate;
    snprintf(a.why_opaque, sizeof(a.why_opaque), "%s, decoded by libsndfile", format_name(info.format));
    FB_TRY(array_check(&a, s->size, e));
    FB_TRY(array_file_make(out, "sound", s->size, 1, 0, NULL, e));
    out->array[0] = a;
    return 0;
}

/* To frame `first`: by the library, or by decoding everything before it where it cannot seek (GSM), or does so only nearly: an MP3 frame
 * needs bits of those before it, and libsndfile 1.2 gives zeros instead. */
static int go_to(SNDFILE *file, const struct stream *s, const SF_INFO *info, uint64_t first, struct fb_error *e)
{
    float passed[CLIP_MAX_CHANNELS];
    bool can_seek = (info->format & SF_FORMAT_TYPEMASK) != SF_FORMAT_MPEG;
    if (!first || (can_seek && sf_seek(file, (sf_count_t)first, SEEK_SET) == (sf_count_t)first))
        return 0;
    for (uint64_t at = 0; at < first;) {
        uint64_t most = (uint64_t)(CLIP_MAX_CHANNELS / info->channels), left = first - at;
        sf_count_t got = sf_readf_float(file, passed, (sf_count_t)(left < most ? left : most));
        if (got <= 0)
            return s->rc < 0 ? s->rc : array_damaged(e, -1, "the sound ends before frame %llu", (unsigned long long)first);
        at += (uint64_t)got;
    }
    return 0;
}

static int read_frames(SNDFILE *file, const struct stream *s, const SF_INFO *info, uint64_t first, uint64_t rows, float *out,
                       struct fb_error *e)
{
    FB_TRY(go_to(file, s, info, first, e));
    sf_count_t got = sf_readf_float(file, out, (sf_count_t)rows);
    if (s->rc < 0)
        return s->rc;
    if (got != (sf_count_t)rows)
        return array_damaged(e, -1, "the sound ends at frame %llu, but its header promises %llu",
                             (unsigned long long)(first + (uint64_t)got), (unsigned long long)(first + rows));
    return 0;
}

int sound_read_rows(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows, void *out,
                    struct fb_error *e)
{
    struct stream stream = {.source = s, .e = e};
    SF_INFO info;
    if (!rows)
        return 0;
    SNDFILE *file = open_stream(&stream, &info);
    if (!file)
        return cannot_open(&stream, e);
    int rc;
    if ((uint64_t)info.channels != a->shape[1] || (uint64_t)info.frames != a->shape[0] || (uint32_t)info.samplerate != a->rate)
        rc = array_damaged(e, -1, "the sound file was changed after its header was read");
    else
        rc = read_frames(file, &stream, &info, first, rows, out, e);
    sf_close(file);
    return rc;
}

const struct array_ops array_sound = {.name = "sound", .probe = probe, .describe = sound_describe, .read_rows = sound_read_rows};
