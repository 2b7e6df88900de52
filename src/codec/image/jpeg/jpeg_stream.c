#include "codec/image/jpeg/jpeg_stream.h"

#include <string.h>

void jpeg_stream_init(struct jpeg_stream *s, const struct jpeg_kernels *k, void *memory)
{
    uint8_t *bytes = memory;
    *s = (struct jpeg_stream){.kernels = k, .dropped = memory, .window = bytes + JPEG_DROP_BYTES};
}

/* Bits of the window that have been read. */
static uint64_t bits_read(const struct jpeg_stream *s, const struct jpeg_lane *l)
{
    return (uint64_t)(l->next - s->window) * 8 - l->left;
}

static void fill(struct jpeg_stream *s)
{
    s->filled += s->kernels->unstuff(s->window + s->filled, JPEG_WINDOW - s->filled, &s->in, s->end, s->dropped, &s->drops, s->filled);
    memset(s->window + s->filled, 0, 32); /* so that peeking beyond the end is the same every time */
}

static void point_at(struct jpeg_stream *s, struct jpeg_lane *l, uint32_t bit)
{
    uint64_t word;
    memcpy(&word, s->window, 8);
    l->bits = __builtin_bswap64(word) << bit;
    l->next = s->window + 7;
    l->left = 56 - bit;
}

void jpeg_stream_begin(struct jpeg_stream *s, struct jpeg_lane *l, const uint8_t *file, uint32_t end, const struct jpeg_mark *m)
{
    s->file = file;
    s->end = file + end;
    s->start = m->byte < end ? m->byte : end;
    s->in = file + s->start;
    s->filled = s->drops = s->passed = 0;
    fill(s);
    point_at(s, l, m->bit & 7);
    for (int i = 0; i < 3; i++)
        l->dc[i] = m->dc[i];
}

/* Where window byte `at` is in the file; positions asked for must not go back. */
static uint32_t place_in_file(struct jpeg_stream *s, uint32_t at)
{
    while (s->passed < s->drops && s->dropped[s->passed] <= at)
        s->passed++;
    return s->start + at + s->passed;
}

static void slide(struct jpeg_stream *s, uint32_t at)
{
    s->start = place_in_file(s, at);
    memmove(s->window, s->window + at, s->filled - at);
    for (uint32_t i = s->passed; i < s->drops; i++)
        s->dropped[i - s->passed] = (uint16_t)(s->dropped[i] - at);
    s->drops -= s->passed;
    s->passed = 0;
    s->filled -= at;
}

bool jpeg_stream_ensure(struct jpeg_stream *s, struct jpeg_lane *l)
{
    uint64_t bits = bits_read(s, l);
    uint32_t at = (uint32_t)(bits >> 3);
    if (bits > (uint64_t)s->filled * 8)
        return false;
    if (s->filled - at >= JPEG_MOST_BATCH_BYTES || s->in >= s->end)
        return true;
    slide(s, at);
    fill(s);
    point_at(s, l, (uint32_t)bits & 7);
    return true;
}

bool jpeg_stream_mark(struct jpeg_stream *s, const struct jpeg_lane *l, struct jpeg_mark *m)
{
    uint64_t bits = bits_read(s, l);
    if (bits > (uint64_t)s->filled * 8)
        return false;
    *m = (struct jpeg_mark){.byte = place_in_file(s, (uint32_t)(bits >> 3)), .bit = (uint8_t)(bits & 7)};
    for (int i = 0; i < 3; i++) {
        m->dc[i] = (int16_t)l->dc[i];
        if (m->dc[i] != l->dc[i])
            return false;
    }
    return true;
}

bool jpeg_stream_restart(struct jpeg_stream *s, struct jpeg_lane *l, uint32_t number)
{
    uint64_t bytes = (bits_read(s, l) + 7) / 8;
    if (bytes != s->filled || s->end - s->in < 2 || s->in[0] != 0xff || s->in[1] != 0xd0 + number)
        return false;
    struct jpeg_mark m = {.byte = (uint32_t)(s->in - s->file) + 2};
    jpeg_stream_begin(s, l, s->file, (uint32_t)(s->end - s->file), &m);
    return true;
}
