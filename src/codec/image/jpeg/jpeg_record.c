#include "codec/image/jpeg/jpeg_record.h"

#include <string.h>

#include "base/checksum.h"

/* The header, little-endian:
 *   0 magic and version  8 checksum of everything from byte 16  16 checksum of the file  24 bytes of the file  28 start of the scan
 *   32 width  34 height  36 luma blocks across | down << 4  37 components  38 spacing  39 zero  40 rows  44 restart interval */
enum {
    AT_SEAL = 8,
    AT_FILE = 16,
    AT_SIZE = 24,
    AT_SCAN = 28,
    AT_WIDTH = 32,
    AT_HEIGHT = 34,
    AT_SHAPE = 36,
    AT_COMPONENTS = 37,
    AT_SPACING = 38,
    AT_ROWS = 40,
    AT_RESTART = 44
};
static const char magic[8] = "fbjpgr1";

static void put(uint8_t *p, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get(const uint8_t *p, int bytes)
{
    uint64_t v = 0;
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* ---- bits, the lowest first ---- */

static uint32_t take(struct jpeg_record *r, uint32_t count)
{
    uint64_t word = 0, byte = r->at >> 3, last = (r->bit_count + 7) >> 3;
    if (count > 32 || r->at + count > r->bit_count) {
        r->at = UINT64_MAX >> 1; /* everything after fails too */
        return 0;
    }
    memcpy(&word, r->bits + byte, last - byte < 8 ? last - byte : 8);
    word >>= r->at & 7;
    r->at += count;
    return (uint32_t)(word & ((UINT64_C(1) << count) - 1));
}

static bool has_failed(const struct jpeg_record *r)
{
    return r->at > r->bit_count;
}

static void give(struct jpeg_writing *w, uint32_t value, uint32_t count)
{
    uint8_t *rows = w->bytes + JPEG_RECORD_HEADER;
    if (JPEG_RECORD_HEADER + ((w->at + count) >> 3) + 1 > w->room) {
        w->is_full = true;
        return;
    }
    for (uint32_t done = 0; done < count;) {
        uint32_t shift = (uint32_t)(w->at & 7), some = 8 - shift < count - done ? 8 - shift : count - done;
        uint8_t *byte = rows + (w->at >> 3), bits = (uint8_t)((value >> done & ((1u << some) - 1)) << shift);
        *byte = shift ? (uint8_t)(*byte | bits) : bits;
        w->at += some;
        done += some;
    }
}

static uint32_t folded(int32_t v) /* small for small differences of either sign */
{
    return (uint32_t)v << 1 ^ (uint32_t)(v >> 31);
}

static int32_t unfolded(uint32_t v)
{
    return (int32_t)(v >> 1) ^ -(int32_t)(v & 1);
}

static uint32_t width_of(uint32_t v)
{
    return v ? 32 - (uint32_t)__builtin_clz(v) : 0;
}

/* ---- a row: 6 bits width of distances, 5 of luma's differences, 5 of chroma's; then for each mark after the first: distance in bits,
 *      differences ---- */

struct fields {
    uint32_t distance, luma, chroma; /* values, or their widths */
};

static uint32_t distance_of(const struct jpeg_mark *from, const struct jpeg_mark *to)
{
    return (to->byte - from->byte) * 8 + to->bit - from->bit;
}

static struct fields widths_of(const struct jpeg_mark *marks, uint32_t count, int components)
{
    struct fields all = {0, 0, 0};
    for (uint32_t i = 1; i < count; i++) {
        all.distance |= distance_of(&marks[i - 1], &marks[i]);
        for (int c = 0; c < components; c++)
            *(c ? &all.chroma : &all.luma) |= folded(marks[i].dc[c] - marks[i - 1].dc[c]);
    }
    return (struct fields){width_of(all.distance), width_of(all.luma), width_of(all.chroma)};
}

void jpeg_record_add(struct jpeg_writing *w, const struct jpeg_mark *marks)
{
    uint32_t count = jpeg_marks_in_row(w->columns, w->spacing);
    struct fields widths = widths_of(marks, count, w->components);
    give(w, widths.distance, 6);
    give(w, widths.luma, 5);
    if (w->components > 1)
        give(w, widths.chroma, 5);
    for (uint32_t i = 1; i < count; i++) {
        give(w, distance_of(&marks[i - 1], &marks[i]), widths.distance);
        for (int c = 0; c < w->components; c++)
            give(w, folded(marks[i].dc[c] - marks[i - 1].dc[c]), c ? widths.chroma : widths.luma);
    }
    w->rows++;
}

static struct fields take_widths(struct jpeg_record *r)
{
    struct fields f = {take(r, 6), take(r, 5), 0};
    if (r->components > 1)
        f.chroma = take(r, 5);
    return f;
}

static void take_mark(struct jpeg_record *r, const struct fields *widths, struct jpeg_mark *m)
{
    uint64_t bit = (uint64_t)m->byte * 8 + m->bit + take(r, widths->distance);
    m->byte = (uint32_t)(bit >> 3);
    m->bit = (uint8_t)(bit & 7);
    for (int c = 0; c < r->components; c++)
        m->dc[c] = (int16_t)(uint16_t)((uint32_t)m->dc[c] + (uint32_t)unfolded(take(r, c ? widths->chroma : widths->luma)));
}

bool jpeg_record_row(struct jpeg_record *r, struct jpeg_mark *marks)
{
    if (r->row >= r->rows)
        return false;
    uint32_t count = jpeg_marks_in_row(r->columns, r->spacing);
    struct fields widths = take_widths(r);
    marks[0] = r->start;
    for (uint32_t i = 1; i < count; i++) {
        marks[i] = marks[i - 1];
        take_mark(r, &widths, &marks[i]);
    }
    r->start = marks[count - 1];
    r->row++;
    return !has_failed(r) && r->start.byte <= JPEG_MAX_FILE;
}

bool jpeg_record_skip(struct jpeg_record *r, uint32_t row)
{
    uint32_t count = jpeg_marks_in_row(r->columns, r->spacing);
    for (; r->row < row && r->row < r->rows; r->row++) {
        struct fields widths = take_widths(r);
        for (uint32_t i = 1; i < count; i++)
            take_mark(r, &widths, &r->start);
        if (has_failed(r) || r->start.byte > JPEG_MAX_FILE)
            return false;
    }
    return r->row == row;
}

/* ---- the header ---- */

static uint64_t seal_of(const uint8_t *record, size_t n)
{
    return checksum_of(record + AT_FILE, n - AT_FILE);
}

void jpeg_record_seal(uint8_t *record, size_t n, const uint8_t *file, size_t file_bytes)
{
    if (n < JPEG_RECORD_HEADER)
        return;
    if (file) {
        put(record + AT_FILE, checksum_of(file, file_bytes), 8);
        put(record + AT_SIZE, file_bytes, 4);
    }
    put(record + AT_SEAL, seal_of(record, n), 8);
}

/* Reads what the header says of image and record; false: it cannot be. */
static bool read_header(struct jpeg_record *r, struct jpeg_plan *p, const uint8_t *record, size_t n)
{
    if (n < JPEG_RECORD_HEADER || memcmp(record, magic, sizeof(magic)) || get(record + AT_SEAL, 8) != seal_of(record, n))
        return false;
    *p = (struct jpeg_plan){
        .width = (uint32_t)get(record + AT_WIDTH, 2),
        .height = (uint32_t)get(record + AT_HEIGHT, 2),
        .components = record[AT_COMPONENTS],
        .across = record[AT_SHAPE] & 15,
        .down = record[AT_SHAPE] >> 4,
        .scan = (uint32_t)get(record + AT_SCAN, 4),
        .restart = (uint32_t)get(record + AT_RESTART, 4),
    };
    if (!p->width || !p->height || (p->components != 1 && p->components != 3) || p->across < 1 || p->across > 2 || p->down < 1 ||
        p->down > 2 || !record[AT_SPACING] || p->scan > get(record + AT_SIZE, 4))
        return false;
    jpeg_plan_measure(p);
    *r = (struct jpeg_record){
        .bits = record + JPEG_RECORD_HEADER,
        .bit_count = (uint64_t)(n - JPEG_RECORD_HEADER) * 8,
        .spacing = record[AT_SPACING],
        .rows = (uint32_t)get(record + AT_ROWS, 4),
        .columns = p->columns,
        .components = p->components,
        .start = {.byte = p->scan},
    };
    return r->rows <= p->rows;
}

bool jpeg_record_open(struct jpeg_record *r, const uint8_t *record, size_t n, const struct jpeg_plan *p, const uint8_t *file,
                      size_t file_bytes, bool whole_file)
{
    struct jpeg_plan q;
    if (!read_header(r, &q, record, n) || get(record + AT_SIZE, 4) != file_bytes)
        return false;
    if (q.width != p->width || q.height != p->height || q.components != p->components || q.across != p->across || q.down != p->down ||
        q.scan != p->scan || q.restart != p->restart)
        return false;
    return !whole_file || get(record + AT_FILE, 8) == checksum_of(file, file_bytes);
}

/* Bits of a row that are not for its marks, and of a mark, by experience with photographs: an estimate for choosing, not a limit. */
enum { ROW_BITS = 16, MARK_BITS_COLOUR = 35, MARK_BITS_GREY = 20 };

uint32_t jpeg_record_spacing(const struct jpeg_plan *p, size_t file_bytes)
{
    double wanted = (double)file_bytes * 8 * JPEG_RECORD_SHARE - JPEG_RECORD_HEADER * 8 - (double)p->rows * ROW_BITS;
    double marks = wanted / (p->components == 1 ? MARK_BITS_GREY : MARK_BITS_COLOUR) / p->rows; /* in a row */
    if (marks * JPEG_MAX_SPACING < p->columns)
        return JPEG_MAX_SPACING;
    double spacing = p->columns / marks;
    return spacing < 2 ? 2 : (uint32_t)spacing + 1;
}

size_t jpeg_record_most(const struct jpeg_plan *p, uint32_t spacing)
{
    size_t mark_bits = 32 + (size_t)p->components * 17, marks = jpeg_marks_in_row(p->columns, spacing);
    return JPEG_RECORD_HEADER + p->rows * (16 + marks * mark_bits) / 8 + 16;
}

void jpeg_record_begin(struct jpeg_writing *w, uint8_t *bytes, size_t room, const struct jpeg_plan *p, uint32_t spacing,
                       const struct jpeg_record *known)
{
    *w = (struct jpeg_writing){.bytes = bytes, .room = room, .columns = p->columns, .spacing = spacing, .components = p->components};
    if (!known)
        return;
    size_t n = (size_t)((known->at + 7) >> 3);
    w->is_full = JPEG_RECORD_HEADER + n + 1 > room;
    if (w->is_full)
        return;
    memcpy(bytes + JPEG_RECORD_HEADER, known->bits, n);
    if (known->at & 7)
        bytes[JPEG_RECORD_HEADER + n - 1] &= (uint8_t)((1u << (known->at & 7)) - 1);
    w->at = known->at;
    w->rows = known->row;
}

size_t jpeg_record_end(struct jpeg_writing *w, const struct jpeg_plan *p, const uint8_t *file, size_t file_bytes)
{
    uint8_t *h = w->bytes;
    size_t n = JPEG_RECORD_HEADER + (size_t)((w->at + 7) >> 3);
    if (w->is_full)
        return 0;
    memset(h, 0, JPEG_RECORD_HEADER);
    memcpy(h, magic, sizeof(magic));
    put(h + AT_SCAN, p->scan, 4);
    put(h + AT_WIDTH, p->width, 2);
    put(h + AT_HEIGHT, p->height, 2);
    h[AT_SHAPE] = (uint8_t)(p->across | p->down << 4);
    h[AT_COMPONENTS] = (uint8_t)p->components;
    h[AT_SPACING] = (uint8_t)w->spacing;
    put(h + AT_ROWS, w->rows, 4);
    put(h + AT_RESTART, p->restart, 4);
    jpeg_record_seal(h, n, file, file_bytes);
    return n;
}

/* ---- the bytes of a region ---- */

/* The mark with that number in that row; reads a copy of `r`. */
static bool mark_at(struct jpeg_record r, uint32_t row, uint32_t number, struct jpeg_mark *m)
{
    if (!jpeg_record_skip(&r, row))
        return false;
    struct fields widths = take_widths(&r);
    *m = r.start;
    for (uint32_t i = 0; i < number; i++)
        take_mark(&r, &widths, m);
    return !has_failed(&r);
}

bool jpeg_record_range(const uint8_t *record, size_t n, const struct region *r, uint32_t *header, uint32_t *first, uint32_t *last)
{
    struct jpeg_record read;
    struct jpeg_plan p;
    struct jpeg_mark from, to;
    if (!read_header(&read, &p, record, n) || !r->width || !r->height || r->left >= p.width || r->width > p.width - r->left ||
        r->top >= p.height || r->height > p.height - r->top)
        return false;
    struct jpeg_span span = jpeg_plan_span(&p, r);
    if (span.end_row > read.rows || !mark_at(read, span.first_row, span.first_column / read.spacing, &from) ||
        !mark_at(read, span.end_row - 1, (span.end_column + read.spacing - 1) / read.spacing, &to))
        return false;
    uint32_t size = (uint32_t)get(record + AT_SIZE, 4);
    *header = p.scan;
    *first = from.byte;
    *last = to.byte + JPEG_MARK_REACH < size ? to.byte + JPEG_MARK_REACH : size;
    return *first <= *last && *first >= p.scan;
}
