#include "codec/image/jpeg/jpeg_plan.h"

#include <string.h>

#include "codec/codec_internal.h"

enum {
    SOF0 = 0xc0,
    SOF1 = 0xc1,
    DHT = 0xc4,
    SOI = 0xd8,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    APP15 = 0xef,
    COM = 0xfe
};

const uint8_t jpeg_natural[256] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
};

struct component {
    uint8_t id, sampling, quant;
};

struct reading {
    struct jpeg_plan *plan;
    struct component component[3];
    struct jpeg_code code[2][4]; /* dc, ac */
    int16_t quant[4][64];
    bool has_quant[4], has_frame, has_jfif, has_adobe;
    uint8_t adobe_transform;
};

static bool read_frame(struct reading *r, const uint8_t *p, uint32_t n)
{
    if (r->has_frame || n < 6 || p[0] != 8 || (p[5] != 1 && p[5] != 3) || n != 6u + 3u * p[5])
        return false;
    r->has_frame = true;
    r->plan->height = big_endian_16(p + 1);
    r->plan->width = big_endian_16(p + 3);
    r->plan->components = p[5];
    for (int i = 0; i < p[5]; i++)
        r->component[i] = (struct component){p[6 + 3 * i], p[7 + 3 * i], p[8 + 3 * i]};
    return r->plan->width && r->plan->height;
}

static bool read_quant(struct reading *r, const uint8_t *p, uint32_t n)
{
    while (n) {
        uint32_t bytes = p[0] >> 4 ? 128 : 64;
        int at = p[0] & 15;
        if (p[0] >> 4 > 1 || at > 3 || n < 1 + bytes)
            return false;
        for (int k = 0; k < 64; k++)
            r->quant[at][jpeg_natural[k]] = (int16_t)(bytes == 64 ? p[1 + k] : big_endian_16(p + 1 + 2 * k));
        r->has_quant[at] = true;
        p += 1 + bytes;
        n -= 1 + bytes;
    }
    return true;
}

static bool read_codes(struct reading *r, const uint8_t *p, uint32_t n)
{
    while (n) {
        if (n < 17 || p[0] >> 4 > 1 || (p[0] & 15) > 3)
            return false;
        uint32_t symbols = 0;
        for (int i = 1; i <= 16; i++)
            symbols += p[i];
        if (symbols > 256 || n < 17 + symbols)
            return false;
        r->code[p[0] >> 4][p[0] & 15] = (struct jpeg_code){p + 1, 16 + symbols};
        p += 17 + symbols;
        n -= 17 + symbols;
    }
    return true;
}

/* One segment before the scan. False: something that is not for us. */
static bool read_segment(struct reading *r, int marker, const uint8_t *p, uint32_t n)
{
    switch (marker) {
    case SOF0:
    case SOF1: return read_frame(r, p, n);
    case DQT: return read_quant(r, p, n);
    case DHT: return read_codes(r, p, n);
    case DRI:
        if (n == 2)
            r->plan->restart = big_endian_16(p);
        return n == 2;
    case APP0:
        if (n >= 14 && !memcmp(p, "JFIF", 5))
            r->has_jfif = true;
        return true;
    case APP14:
        if (n >= 12 && !memcmp(p, "Adobe", 5)) {
            r->has_adobe = true;
            r->adobe_transform = p[11];
        }
        return true;
    default: return marker == COM || (marker > APP0 && marker <= APP15);
    }
}

/* The rules of libjpeg: three components are YCbCr if there is a JFIF marker, or Adobe's says so, or nothing says otherwise. */
static bool is_ycc(const struct reading *r)
{
    const struct component *c = r->component;
    if (r->has_jfif)
        return true;
    if (r->has_adobe)
        return r->adobe_transform == 1;
    return c[0].id == 1 && c[1].id == 2 && c[2].id == 3;
}

static bool has_known_sampling(const struct reading *r)
{
    const struct component *c = r->component;
    int across = c[0].sampling >> 4, down = c[0].sampling & 15;
    r->plan->across = r->plan->down = 1;
    if (r->plan->components == 1) /* a scan of one component is coded block by block, whatever its sampling */
        return across >= 1 && across <= 4 && down >= 1 && down <= 4;
    r->plan->across = across;
    r->plan->down = down;
    if (across < 1 || across > 2 || down < 1 || down > 2 || c[1].sampling != 0x11 || c[2].sampling != 0x11)
        return false;
    return c[0].id != c[1].id && c[0].id != c[2].id && c[1].id != c[2].id && is_ycc(r);
}

static bool read_scan(struct reading *r, const uint8_t *p, uint32_t n)
{
    struct jpeg_plan *plan = r->plan;
    if (!r->has_frame || !has_known_sampling(r) || n != 4u + 2u * (uint32_t)plan->components || p[0] != plan->components)
        return false;
    for (int i = 0; i < plan->components; i++) {
        int dc = p[2 + 2 * i] >> 4, ac = p[2 + 2 * i] & 15, quant = r->component[i].quant;
        if (p[1 + 2 * i] != r->component[i].id || dc > 3 || ac > 3 || quant > 3 || !r->has_quant[quant])
            return false;
        plan->dc[i] = r->code[0][dc];
        plan->ac[i] = r->code[1][ac];
        if (!plan->dc[i].n || !plan->ac[i].n)
            return false;
        memcpy(plan->quant[i], r->quant[quant], sizeof(plan->quant[i]));
    }
    const uint8_t *tail = p + 1 + 2 * plan->components;
    return tail[0] == 0 && tail[1] == 63 && tail[2] == 0;
}

void jpeg_plan_measure(struct jpeg_plan *p)
{
    uint32_t wide = 8u * (uint32_t)p->across, high = 8u * (uint32_t)p->down;
    p->columns = (p->width + wide - 1) / wide;
    p->rows = (p->height + high - 1) / high;
    p->blocks = p->components == 1 ? 1 : p->across * p->down + 2;
    jpeg_plan_reduce(p, 1);
}

/* libjpeg's rules: chroma with half the samples in both directions is transformed at twice the scale instead of being enlarged; of what is
 * left to be enlarged, single samples of a block and rows of one or two samples are repeated, everything else is blended. */
void jpeg_plan_reduce(struct jpeg_plan *p, uint32_t scale)
{
    bool is_enlarged = scale == 1 || p->across != p->down;
    int halvings = scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0;
    p->scale = scale;
    p->out_width = image_reduced(p->width, scale);
    p->out_height = image_reduced(p->height, scale);
    p->wide = is_enlarged ? p->across : 1;
    p->high = is_enlarged ? p->down : 1;
    p->chroma_width = image_reduced(p->out_width, (uint32_t)p->wide);
    p->chroma_height = image_reduced(p->out_height, (uint32_t)p->high);
    p->is_blended = scale < 8 && (p->wide == 1 || p->chroma_width > 2);
    p->halvings[0] = halvings;
    p->halvings[1] = p->halvings[2] = halvings - (p->across / p->wide - 1);
}

bool jpeg_plan_read(struct jpeg_plan *p, const uint8_t *bytes, size_t n)
{
    *p = (struct jpeg_plan){0};
    struct reading r = {.plan = p};
    size_t at = 2;
    if (n > JPEG_MAX_FILE || n < 4 || bytes[0] != 0xff || bytes[1] != SOI)
        return false;
    for (;;) {
        if (n - at < 4 || bytes[at] != 0xff)
            return false;
        int marker = bytes[at + 1];
        uint32_t length = big_endian_16(bytes + at + 2);
        if (length < 2 || n - at - 2 < length)
            return false;
        const uint8_t *segment = bytes + at + 4;
        at += 2 + length;
        if (marker == SOS) {
            p->scan = (uint32_t)at;
            if (!read_scan(&r, segment, length - 2))
                return false;
            break;
        }
        if (!read_segment(&r, marker, segment, length - 2))
            return false;
    }
    jpeg_plan_measure(p);
    return true;
}

/* First and end of the MCUs, `size` pixels each, that pixels [from, from + count) of `all` need. */
static void span_of(uint32_t from, uint32_t count, uint32_t all, uint32_t size, bool is_blended, uint32_t *first, uint32_t *end)
{
    uint32_t last = from + count - 1;
    if (is_blended) { /* each pixel blends its chroma with that of the pixel before or behind */
        from = from ? from - 1 : 0;
        last = last + 1 < all ? last + 1 : all - 1;
    }
    *first = from / size;
    *end = last / size + 1;
}

struct jpeg_span jpeg_plan_span(const struct jpeg_plan *p, const struct region *r)
{
    struct jpeg_span s;
    uint32_t side = jpeg_plan_side(p, 0), across = (uint32_t)p->across, down = (uint32_t)p->down;
    span_of(r->top, r->height, p->out_height, side * down, p->is_blended && p->high == 2, &s.first_row, &s.end_row);
    span_of(r->left, r->width, p->out_width, side * across, p->is_blended && p->wide == 2, &s.first_column, &s.end_column);
    return s;
}
