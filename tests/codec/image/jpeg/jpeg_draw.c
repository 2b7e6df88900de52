#include "jpeg_draw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, ZRL = 0xf0 };

/* ---- bytes and bits ---- */

struct writer {
    struct rng *r;
    uint8_t *data;
    size_t n, room;
    uint32_t bits; /* of the byte that is being filled */
    int bit_count;
};

static uint32_t below(struct rng *r, uint32_t n)
{
    return (uint32_t)rng_below(r, n);
}

static bool one_in(struct rng *r, uint32_t n)
{
    return below(r, n) == 0;
}

static void byte(struct writer *w, uint32_t value)
{
    if (w->n == w->room) {
        w->room = w->room ? 2 * w->room : 4096;
        w->data = realloc(w->data, w->room);
        if (!w->data)
            abort();
    }
    w->data[w->n++] = (uint8_t)value;
}

static void word(struct writer *w, uint32_t value)
{
    byte(w, value >> 8);
    byte(w, value & 255);
}

static void put_bits(struct writer *w, uint32_t value, int count)
{
    while (count--) {
        w->bits = w->bits << 1 | (value >> count & 1);
        if (++w->bit_count < 8)
            continue;
        byte(w, w->bits & 255);
        if ((w->bits & 255) == 0xff)
            byte(w, 0);
        w->bits = 0;
        w->bit_count = 0;
    }
}

static void pad(struct writer *w)
{
    while (w->bit_count)
        put_bits(w, 1, 1);
}

/* ---- codes ---- */

/* What a file is full of, beside what is drawn at random. */
enum theme {
    ANYTHING,
    ZEROS,  /* runs of zeros with codes of a bit or two */
    ONES,   /* codes and values of ones: most bytes are 0xFF and have a zero stuffed behind them */
    STARVED /* long symbols in complete codes, and next to no data: what reads on where there is nothing finds symbols, and no end */
};

struct code {
    int count;
    uint8_t symbol[256], counts[17]; /* counts: by length, from 1 */
    uint8_t length[256];
    uint32_t bits[256];
    int end, single, zeros; /* symbols that end a block, are one coefficient, are 16 zeros; -1: none */
};

enum style { SHORT, LONG, UNARY, MIXED, STYLES };

/* How many codes of a length: as many as leave room for the rest, few, or none. */
static uint32_t draw_count(struct rng *r, uint32_t free, uint32_t left, int length, enum style style)
{
    uint32_t most = 0;
    while (most < free && most < left && (uint64_t)(free - most) << (16 - length) >= left - most)
        most++;
    if (length == 16)
        return left;
    if (style == UNARY)
        return most > 0;
    if (style == SHORT)
        return most < 2 ? most : below(r, 3) ? most - below(r, 2) : below(r, most + 1);
    if (style == LONG)
        return length < 11 ? 0 : below(r, most + 1) / 2;
    return most ? below(r, most < 3 ? most + 1 : 3) : 0;
}

static void give_codes(struct rng *r, struct code *c, enum style style)
{
    int k = 0;
    uint32_t next = 0;
    memset(c->counts, 0, sizeof(c->counts));
    for (int length = 1; length <= 16; length++) {
        next <<= 1;
        uint32_t count = draw_count(r, (1u << length) - 1 - next, (uint32_t)(c->count - k), length, style);
        c->counts[length] = (uint8_t)count;
        for (uint32_t i = 0; i < count; i++, k++, next++) {
            c->length[k] = (uint8_t)length;
            c->bits[k] = next;
        }
    }
}

static bool is_end(uint8_t symbol)
{
    return !(symbol & 15) && symbol != ZRL;
}

static void shuffle(struct rng *r, uint8_t *symbols, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int k = (int)below(r, (uint32_t)i + 1);
        uint8_t kept = symbols[i];
        symbols[i] = symbols[k];
        symbols[k] = kept;
    }
}

static void draw_dc_code(struct rng *r, struct code *c, enum theme theme)
{
    int most = theme == STARVED || one_in(r, 8) ? 16 : one_in(r, 3) ? 3 : 12;
    c->count = theme == STARVED ? 16 : 1 + (int)below(r, (uint32_t)most);
    for (int i = 0; i < c->count; i++)
        c->symbol[i] = (uint8_t)(c->count == most ? (uint32_t)i : below(r, (uint32_t)most));
    shuffle(r, c->symbol, c->count);
    give_codes(r, c, theme == ZEROS ? SHORT : theme == STARVED ? UNARY : (enum style)below(r, STYLES));
}

static void draw_ac_symbols(struct rng *r, struct code *c)
{
    static const uint8_t favourites[] = {0x00, ZRL, 0x0f, 0x01, 0x11, 0x02, 0xf1, 0x3f, 0x0e, 0x71, 0x50};
    int kind = (int)below(r, 5);
    c->count = kind == 0 ? 255 : kind == 1 ? 20 + (int)below(r, 150) : 2 + (int)below(r, 9);
    for (int i = 0; i < c->count; i++)
        c->symbol[i] = (uint8_t)(kind == 0 ? (uint32_t)i : one_in(r, 3) ? below(r, 256) : favourites[below(r, sizeof(favourites))]);
    if (!one_in(r, 6))
        c->symbol[1] = 0; /* an end of block */
    if (kind || one_in(r, 2))
        shuffle(r, c->symbol, c->count);
}

/* What comes first has the shortest code, the lowest among its equals. */
static void draw_ac_code(struct rng *r, struct code *c, enum theme theme)
{
    enum style style = one_in(r, 2) ? MIXED : (enum style)below(r, STYLES);
    if (theme != ANYTHING)
        style = theme == ZEROS && one_in(r, 2) ? SHORT : UNARY;
    draw_ac_symbols(r, c);
    if (theme == ONES || theme == STARVED)
        c->count = 16;
    for (int i = 0; theme == STARVED && i < 16; i++)
        c->symbol[i] = (uint8_t)(15 - below(r, 2));
    for (int i = 0; theme == ONES && i < 15; i++)
        c->symbol[i] = (uint8_t)(i ? below(r, 256) : 0);
    if (theme == ZEROS) {
        c->symbol[0] = ZRL;
        c->symbol[1] = (uint8_t)(1 + below(r, 3));
    }
    if (theme == ONES)
        c->symbol[15] = 0x0f;
    give_codes(r, c, style);
    c->end = c->single = c->zeros = -1;
    for (int i = 0; i < c->count; i++) {
        if (c->symbol[i] == ZRL)
            c->zeros = i;
        if (is_end(c->symbol[i]))
            c->end = i;
        if (c->symbol[i] >> 4 == 0 && c->symbol[i] & 15)
            c->single = i;
    }
    if (c->end < 0 && c->single < 0) { /* no block could be filled: */
        c->end = c->count - 1;
        c->symbol[c->end] = 0;
    }
}

/* ---- the data ---- */

/* How a file's blocks are drawn. */
struct manner {
    int first_favourite;
    uint32_t favourite;  /* one symbol in so many is another than the favourite; 0: all are drawn alike */
    uint32_t ends;       /* one end of block in so many is taken when drawn */
    int values;          /* 0: any, 1: all ones, 2: all zeros */
    bool is_overfull;    /* runs may go beyond the last coefficient */
    int most_dc;         /* predictors stay within */
    uint32_t is_aligned; /* not 0: zeros fill up blocks to the last coefficient, but for one symbol in so many */
};

static int value_of(uint32_t bits, int size)
{
    return size && !(bits >> (size - 1)) ? (int)bits - (1 << size) + 1 : (int)bits;
}

static uint32_t draw_value(struct rng *r, const struct manner *m, int size)
{
    uint32_t all = (1u << size) - 1;
    return m->values == 1 ? all : m->values == 2 ? 0 : rng_u32(r) & all;
}

static void put_symbol(struct writer *w, const struct code *c, int i)
{
    put_bits(w, c->bits[i], c->length[i]);
}

static void draw_dc(struct writer *w, const struct code *c, const struct manner *m, int *dc)
{
    int i = (int)below(w->r, (uint32_t)c->count), size = c->symbol[i];
    uint32_t bits = draw_value(w->r, m, size);
    if (abs(*dc + value_of(bits, size)) > m->most_dc)
        bits = ~bits & ((1u << size) - 1); /* its negative */
    *dc += value_of(bits, size);
    put_symbol(w, c, i);
    put_bits(w, bits, size);
}

static int draw_symbol(struct writer *w, const struct code *c, const struct manner *m, int favourite, int k)
{
    if (m->is_aligned && c->zeros >= 0 && c->single >= 0 && !one_in(w->r, m->is_aligned))
        return k % 16 == 0 ? c->zeros : c->single;
    bool is_new = !m->favourite || one_in(w->r, m->favourite) || favourite >= c->count;
    return is_new ? (int)below(w->r, (uint32_t)c->count) : favourite;
}

/* The symbol that can come next where coefficient k is, if `i` was drawn. */
static int fitting(const struct code *c, const struct manner *m, int i, int k)
{
    if (m->is_overfull || k + (c->symbol[i] >> 4) <= 63)
        return i;
    return c->end >= 0 ? c->end : c->single;
}

static void draw_block(struct writer *w, const struct code *c, const struct manner *m, int *favourite)
{
    int k = 1;
    while (k < 64) {
        int i = fitting(c, m, draw_symbol(w, c, m, *favourite, k), k);
        if (is_end(c->symbol[i]) && c->single >= 0 && !one_in(w->r, m->ends)) {
            if (m->first_favourite == 0)
                *favourite = (int)below(w->r, (uint32_t)c->count);
            i = fitting(c, m, *favourite, k);
        }
        put_symbol(w, c, i);
        if (is_end(c->symbol[i]))
            return;
        put_bits(w, draw_value(w->r, m, c->symbol[i] & 15), c->symbol[i] & 15);
        k += (c->symbol[i] >> 4) + 1;
    }
}

struct layout {
    int blocks[3]; /* of each component in an MCU */
    uint64_t mcus;
    int dc[3], ac[3]; /* which codes */
};

static void draw_data(struct writer *w, const struct jpeg_drawn *d, const struct layout *l, const struct code *dc_codes,
                      const struct code *ac_codes, const struct manner *m)
{
    int dc[3] = {0}, favourite[3] = {m->first_favourite, m->first_favourite, m->first_favourite};
    size_t start = w->n;
    for (uint64_t i = 0; i < l->mcus; i++) {
        if (d->restart && i && i % d->restart == 0) {
            pad(w);
            word(w, 0xffd0 + (uint32_t)((i / d->restart - 1) & 7));
            memset(dc, 0, sizeof(dc));
        }
        struct manner brief = *m;
        if (w->n - start > MOST_BYTES) { /* enough: the rest is as short as it can be */
            brief.ends = 1;
            brief.favourite = 0;
        }
        for (int c = 0; c < d->components; c++)
            for (int b = 0; b < l->blocks[c]; b++) {
                draw_dc(w, &dc_codes[l->dc[c]], &brief, &dc[c]);
                draw_block(w, &ac_codes[l->ac[c]], &brief, &favourite[c]);
            }
    }
    pad(w);
}

/* ---- the header ---- */

static void put_code(struct writer *w, int id, const struct code *c)
{
    byte(w, (uint32_t)id);
    for (int i = 1; i <= 16; i++)
        byte(w, c->counts[i]);
    for (int i = 0; i < c->count; i++)
        byte(w, c->symbol[i]);
}

static void put_codes(struct writer *w, const struct code *dc, const struct code *ac)
{
    bool is_joined = one_in(w->r, 3);
    uint32_t all = 2;
    for (int i = 0; i < 8; i++)
        all += 17 + (uint32_t)(i < 4 ? &dc[i] : &ac[i - 4])->count;
    for (int i = 0; i < 8; i++) {
        const struct code *c = i < 4 ? &dc[i] : &ac[i - 4];
        if (!is_joined || i == 0) {
            word(w, 0xffc4);
            word(w, is_joined ? all : 19 + (uint32_t)c->count);
        }
        put_code(w, i < 4 ? i : 0x10 + i - 4, c);
    }
}

static void put_quant(struct writer *w)
{
    bool is_wide = one_in(w->r, 5);
    uint32_t most = is_wide ? 65535 : one_in(w->r, 3) ? 3 : 255;
    for (uint32_t i = 0; i < 4; i++) {
        word(w, 0xffdb);
        word(w, is_wide ? 131 : 67);
        byte(w, (is_wide ? 0x10u : 0u) | i);
        for (int k = 0; k < 64; k++) {
            uint32_t step = 1 + below(w->r, most);
            is_wide ? word(w, step) : byte(w, step);
        }
    }
}

static void put_text(struct writer *w)
{
    static const uint32_t markers[] = {0xfffe, 0xffe1, 0xffe2, 0xffed};
    uint32_t n = below(w->r, one_in(w->r, 9) ? 60000 : 40);
    word(w, markers[below(w->r, 4)]);
    word(w, n + 2);
    for (uint32_t i = 0; i < n; i++)
        byte(w, rng_u32(w->r));
}

static void put_bytes(struct writer *w, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        byte(w, ((const uint8_t *)bytes)[i]);
}

/* JFIF, Adobe (YCbCr, or RGB that is not for the fast decoder) or neither. */
static void put_colour(struct writer *w, struct jpeg_drawn *d)
{
    uint32_t kind = below(w->r, 8);
    if (kind < 5) {
        put_bytes(w, "\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0", 18);
    } else if (kind < 7) {
        put_bytes(w,
                  "\xff\xee\0\x0e"
                  "Adobe\0\x64\0\0\0\0",
                  15);
        bool is_rgb = one_in(w->r, 4);
        byte(w, !is_rgb);
        d->is_common &= !is_rgb || d->components == 1;
    }
}

static void put_frame(struct writer *w, const struct jpeg_drawn *d)
{
    word(w, one_in(w->r, 4) ? 0xffc1 : 0xffc0);
    word(w, 8 + 3 * (uint32_t)d->components);
    byte(w, 8);
    word(w, d->height);
    word(w, d->width);
    byte(w, (uint32_t)d->components);
    for (uint32_t i = 0; i < (uint32_t)d->components; i++) {
        byte(w, i + 1);
        byte(w, d->sampling[i]);
        byte(w, below(w->r, 4));
    }
}

static void put_scan(struct writer *w, const struct jpeg_drawn *d, struct layout *l)
{
    word(w, 0xffda);
    word(w, 6 + 2 * (uint32_t)d->components);
    byte(w, (uint32_t)d->components);
    for (int i = 0; i < d->components; i++) {
        l->dc[i] = (int)below(w->r, 4);
        l->ac[i] = (int)below(w->r, 4);
        byte(w, (uint32_t)i + 1);
        byte(w, (uint32_t)(l->dc[i] << 4 | l->ac[i]));
    }
    put_bytes(w, "\0\x3f\0", 3);
}

/* ---- the whole ---- */

static void draw_size(struct rng *r, struct jpeg_drawn *d, enum theme theme)
{
    uint32_t kind = theme == STARVED ? 39 : below(r, 40), most = kind < 12 ? 20 : kind < 32 ? 90 : 400;
    d->width = 1 + below(r, most);
    d->height = 1 + below(r, most);
    if (kind == 39) { /* up to the limits on a side, longer than a spacing of checkpoints */
        d->width = one_in(r, 3) ? 65500 : 1 + below(r, 12000);
        d->height = 1 + below(r, 24);
    } else if (kind == 38) {
        d->height = one_in(r, 3) ? 65500 : 1 + below(r, 12000);
        d->width = 1 + below(r, 24);
    }
}

static void draw_sampling(struct rng *r, struct jpeg_drawn *d)
{
    static const uint8_t common[][3] = {{0x11, 0x11, 0x11}, {0x21, 0x11, 0x11}, {0x22, 0x11, 0x11}, {0x12, 0x11, 0x11}};
    static const uint8_t odd[][3] = {{0x41, 0x11, 0x11}, {0x14, 0x11, 0x11}, {0x42, 0x11, 0x11}, {0x22, 0x12, 0x21}, {0x11, 0x22, 0x11},
                                     {0x21, 0x21, 0x21}, {0x31, 0x11, 0x11}, {0x22, 0x21, 0x21}, {0x12, 0x12, 0x11}};
    static const uint8_t grey[] = {0x11, 0x11, 0x22, 0x21, 0x12, 0x41, 0x44};
    d->components = one_in(r, 4) ? 1 : 3;
    d->is_common = d->components == 1 || !one_in(r, 12);
    if (d->components == 1)
        d->sampling[0] = grey[below(r, sizeof(grey))];
    else
        memcpy(d->sampling, d->is_common ? common[below(r, 4)] : odd[below(r, 9)], 3);
}

static struct layout lay_out(const struct jpeg_drawn *d)
{
    struct layout l = {.blocks = {1, 0, 0}};
    uint32_t wide = 1, high = 1;
    for (int i = 0; i < d->components && d->components > 1; i++) {
        uint32_t across = d->sampling[i] >> 4, down = d->sampling[i] & 15;
        l.blocks[i] = (int)(across * down);
        wide = across > wide ? across : wide;
        high = down > high ? down : high;
    }
    l.mcus = (uint64_t)((d->width + 8 * wide - 1) / (8 * wide)) * ((d->height + 8 * high - 1) / (8 * high));
    return l;
}

static struct manner draw_manner(struct rng *r, enum jpeg_damage damage, enum theme theme)
{
    static const int limits[] = {100, 2047, 32767};
    struct manner m = {.favourite = one_in(r, 3) ? 0 : 1 + below(r, 60), .ends = 1 + below(r, one_in(r, 2) ? 3 : 12)};
    m.values = one_in(r, 3) ? 1 : one_in(r, 8) ? 2 : 0;
    m.is_overfull = damage == JPEG_OVERFULL;
    m.most_dc = limits[below(r, 3)];
    if (theme == ZEROS && one_in(r, 2)) {
        m.is_aligned = 20 + below(r, 200);
        m.values = one_in(r, 2) ? 2 : 0;
    }
    if (theme == ONES)
        m = (struct manner){
            .first_favourite = 15, .favourite = 30 + below(r, 1000), .ends = 2 + below(r, 50), .values = 1, .most_dc = 2047};
    return m;
}

static void harm(struct writer *w, enum jpeg_damage damage, size_t data)
{
    uint32_t n = (uint32_t)(w->n - data);
    if (n == 0)
        return;
    if (damage == JPEG_CUT)
        w->n = one_in(w->r, 4) ? w->n - 1 - below(w->r, n < 6 ? n : 6) : data + below(w->r, n);
    for (uint32_t flips = damage == JPEG_FLIPPED ? 1 + below(w->r, 3) : 0; flips--;)
        w->data[data + below(w->r, n)] ^= (uint8_t)(1u << below(w->r, 8));
    if (damage == JPEG_STRAY && n >= 2)
        memcpy(w->data + data + below(w->r, n - 1), (uint8_t[]){0xff, (uint8_t)rng_u32(w->r)}, 2);
    for (uint32_t more = damage == JPEG_TRAILED ? 1 + below(w->r, 300) : 0; more--;)
        byte(w, one_in(w->r, 4) ? 0xff : rng_u32(w->r));
}

struct jpeg_drawn jpeg_draw(struct rng *r)
{
    static struct code dc[4], ac[4];
    struct writer w = {.r = r};
    struct jpeg_drawn d = {.damage = one_in(r, 2) ? JPEG_SOUND : (enum jpeg_damage)below(r, JPEG_DAMAGES)};
    enum theme theme = one_in(r, 2) ? ANYTHING : one_in(r, 12) ? STARVED : one_in(r, 2) ? ONES : ZEROS;
    draw_sampling(r, &d);
    draw_size(r, &d, theme);
    struct layout l = lay_out(&d);
    word(&w, 0xffd8);
    put_colour(&w, &d);
    while (one_in(r, 3))
        put_text(&w);
    put_quant(&w);
    put_frame(&w, &d);
    for (int i = 0; i < 4; i++) {
        draw_dc_code(r, &dc[i], theme);
        draw_ac_code(r, &ac[i], theme);
    }
    put_codes(&w, dc, ac);
    if (one_in(r, 4)) {
        d.restart = 1 + below(r, one_in(r, 3) ? 65535 : 40);
        put_bytes(&w, "\xff\xdd\0\4", 4);
        word(&w, d.restart);
    }
    put_scan(&w, &d, &l);
    size_t data = w.n;
    struct manner m = draw_manner(r, d.damage, theme);
    if (theme == STARVED) {
        d.damage = JPEG_STARVED;
        for (uint32_t some = below(r, 400); some--;)
            byte(&w, one_in(r, 4) ? below(r, 255) : 0);
    } else {
        draw_data(&w, &d, &l, dc, ac, &m);
    }
    if (d.damage != JPEG_ENDLESS)
        word(&w, 0xffd9);
    harm(&w, d.damage, data);
    d.file = (struct bytes){w.data, w.n};
    return d;
}

void jpeg_drawn_text(const struct jpeg_drawn *d, char *out, size_t n)
{
    static const char *const damages[] = {"sound",        "overfull",      "flipped",        "cut",
                                          "stray marker", "no end marker", "trailing bytes", "starved"};
    snprintf(out, n, "%u x %u, %d components %02x %02x %02x, restart %u, %zu bytes, %s", d->width, d->height, d->components, d->sampling[0],
             d->sampling[1], d->sampling[2], d->restart, d->file.n, damages[d->damage]);
}
