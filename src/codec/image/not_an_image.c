/* Files that are no image, or of a format that is not read: saying what they are, so that the owner knows what to do. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "codec/codec_internal.h"

struct signature {
    size_t at;
    const char *bytes;
    size_t length;
    const char *is; /* "not an image: IS" */
    const char *remedy;
};

#define CONVERT "convert it to PNG, JPEG or WebP, or leave it out"
#define LEAVE "leave it out, or put the image itself there"
#define SIGNATURE(at, text, is, remedy) {at, text, sizeof(text) - 1, is, remedy}

static const struct signature signatures[] = {
    SIGNATURE(0, "GIF8", "it is a GIF, which is not supported", CONVERT),
    SIGNATURE(0, "II*\0", "it is a TIFF, which is not supported", CONVERT),
    SIGNATURE(0, "MM\0*", "it is a TIFF, which is not supported", CONVERT),
    SIGNATURE(4, "ftypavif", "it is an AVIF, which is not supported", CONVERT),
    SIGNATURE(4, "ftypavis", "it is an AVIF, which is not supported", CONVERT),
    SIGNATURE(4, "ftyphei", "it is a HEIC, which is not supported", CONVERT),
    SIGNATURE(4, "ftyphev", "it is a HEIC, which is not supported", CONVERT),
    SIGNATURE(4, "ftypmif1", "it is a HEIF, which is not supported", CONVERT),
    SIGNATURE(4, "ftyp", "it is an MP4 or a relative of it", LEAVE),
    SIGNATURE(0, "\0\0\0\x0cJXL ", "it is a JPEG XL, which is not supported", CONVERT),
    SIGNATURE(0, "\xff\x0a", "it is a JPEG XL, which is not supported", CONVERT),
    SIGNATURE(0, "\0\0\0\x0cjP  ", "it is a JPEG 2000, which is not supported", CONVERT),
    SIGNATURE(0, "8BPS", "it is a Photoshop file, which is not supported", CONVERT),
    SIGNATURE(0, "v/1\x01", "it is an OpenEXR file, which is not supported", CONVERT),
    SIGNATURE(0, "version https://git-lfs", "it is a git-lfs pointer, the image itself was not fetched", "run git lfs pull"),
    SIGNATURE(0, "%PDF", "it is a PDF", LEAVE),
    SIGNATURE(0, "PK\x03\x04", "it is a zip archive", LEAVE),
    SIGNATURE(0, "\x1f\x8b", "it is gzip-compressed", "decompress it"),
    SIGNATURE(0, "\x93NUMPY", "it is a numpy array", LEAVE),
    SIGNATURE(0, "\x89HDF", "it is an HDF5 file", LEAVE),
    SIGNATURE(0, "MATLAB 5.0", "it is a MATLAB file", LEAVE),
    SIGNATURE(0, "BM", "it is a BMP, which is not supported", CONVERT),
};

static bool begins_with_word(const char *text, size_t n, const char *word)
{
    return n >= strlen(word) && strncasecmp(text, word, strlen(word)) == 0;
}

static bool is_markup(const char *text, size_t n)
{
    return begins_with_word(text, n, "<!doctype html") || begins_with_word(text, n, "<html") || begins_with_word(text, n, "<head") ||
           begins_with_word(text, n, "<body");
}

static bool is_text(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] < 32 && !isspace(bytes[i]))
            return false;
    return true;
}

/* A file of a few bytes that agree with the beginning of a format we read. */
static const char *cut_off_format(const uint8_t *bytes, size_t n)
{
    static const char jpeg[] = "\xff\xd8\xff", png[] = "\x89PNG\r\n\x1a\n", riff[] = "RIFF";
    if (n < sizeof(jpeg) - 1 && !memcmp(bytes, jpeg, n))
        return "JPEG";
    if (n < sizeof(png) - 1 && !memcmp(bytes, png, n))
        return "PNG";
    if (n < CODEC_PROBE_BYTES && !memcmp(bytes, riff, n < 4 ? n : 4))
        return "WebP";
    return NULL;
}

static int refuse(struct fb_error *e, const char *is, const char *remedy)
{
    return error_advise(e, error_set(e, FB_E_DATA, "decode", "not an image: %s", is), "%s", remedy);
}

static int refuse_text(const uint8_t *bytes, size_t n, struct fb_error *e)
{
    if (n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) { /* a byte order mark */
        bytes += 3;
        n -= 3;
    }
    for (; n && isspace(*bytes); n--)
        bytes++;
    const char *text = (const char *)bytes;
    if (is_markup(text, n))
        return refuse(e, "it is an HTML page, perhaps an error page that was saved instead of the image", "fetch the image again");
    if (begins_with_word(text, n, "<svg"))
        return refuse(e, "it is an SVG drawing, which is not supported", CONVERT);
    if (begins_with_word(text, n, "<?xml"))
        return refuse(e, "it is an XML document", LEAVE);
    return refuse(e, "it is text", LEAVE);
}

int codec_not_an_image(const uint8_t *bytes, size_t n, struct fb_error *e)
{
    if (n == 0)
        return refuse(e, "the file is empty", "fetch or write it again, or leave it out");
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        const struct signature *s = &signatures[i];
        if (n >= s->at + s->length && !memcmp(bytes + s->at, s->bytes, s->length))
            return refuse(e, s->is, s->remedy);
    }
    const char *format = cut_off_format(bytes, n);
    if (format) {
        error_set(e, FB_E_DATA, "decode", "not an image: its %zu bytes are only the beginning of a %s signature", n, format);
        error_at(e, NULL, (int64_t)n);
        return FB_E_DATA;
    }
    if (is_text(bytes, n < 512 ? n : 512))
        return refuse_text(bytes, n, e);
    for (size_t i = 0; i < n && !bytes[i]; i++)
        if (i + 1 == n || i == 4095)
            return refuse(e, "it holds only zero bytes, as after a crash or a broken copy", "fetch or write it again");
    uint8_t first[4] = {0};
    memcpy(first, bytes, n < 4 ? n : 4);
    return error_advise(e,
                        error_set(e, FB_E_DATA, "decode", "not an image: it begins with %02x %02x %02x %02x, which is no JPEG, PNG or WebP",
                                  first[0], first[1], first[2], first[3]),
                        LEAVE);
}
