#include "codec/array/hdf5/decompress.h"

#include <assert.h>
#include <libdeflate.h>
#include <lz4.h>
#include <string.h>
#include <zstd.h>

#include "base/text/text.h"
#include "codec/codec_internal.h"
#include "codec/array/hdf5/lzf.h"

/* One filter at work: `in` becomes at most `room` bytes of `out`; *made says how many. False: damaged. */
struct step {
    struct decompress *u;
    const struct array_filter *filter;
    const uint8_t *in;
    size_t n;
    uint8_t *out;
    size_t room, made;
};

/* ---- streams ---- */

static bool undo_deflate(struct step *s)
{
    return libdeflate_zlib_decompress(s->u->inflate, s->in, s->n, s->out, s->room, &s->made) == LIBDEFLATE_SUCCESS;
}

static bool undo_raw_deflate(struct step *s)
{
    return libdeflate_deflate_decompress(s->u->inflate, s->in, s->n, s->out, s->room, &s->made) == LIBDEFLATE_SUCCESS;
}

static bool undo_lzf(struct step *s)
{
    return lzf_expand(s->in, s->n, s->out, s->room, &s->made);
}

static bool undo_zstd(struct step *s)
{
    s->made = ZSTD_decompressDCtx(s->u->zstd, s->out, s->room, s->in, s->n);
    return !ZSTD_isError(s->made);
}

/* One block of HDF5's lz4 framing: its stored size, big-endian; a block that did not shrink lies there as it is. */
static size_t lz4_block(const uint8_t *in, size_t n, uint8_t *out, size_t want)
{
    if (n < 4)
        return 0;
    size_t stored = big_endian_32(in);
    if (stored > n - 4 || stored == 0)
        return 0;
    if (stored == want)
        memcpy(out, in + 4, want);
    else if (stored > LZ4_MAX_INPUT_SIZE || want > LZ4_MAX_INPUT_SIZE ||
             LZ4_decompress_safe((const char *)in + 4, (char *)out, (int)stored, (int)want) != (int)want)
        return 0;
    return stored + 4;
}

/* The frame: size of everything (8 bytes) and of a block (4), then the blocks. */
static bool undo_lz4(struct step *s)
{
    if (s->n < 12)
        return false;
    uint64_t whole = (uint64_t)big_endian_32(s->in) << 32 | big_endian_32(s->in + 4), block = big_endian_32(s->in + 8);
    if (whole > s->room || (whole && !block))
        return false;
    size_t at = 12;
    for (s->made = 0; s->made < whole;) {
        size_t want = whole - s->made < block ? whole - s->made : block;
        size_t used = lz4_block(s->in + at, s->n - at, s->out + s->made, want);
        if (!used)
            return false;
        at += used;
        s->made += want;
    }
    return true;
}

/* ---- sums ---- */

enum { LANES = 8, MAX_GROUPS = 256 }; /* 256 * 257 / 2 * 65535 is below 2^32 */

static uint64_t folded(uint64_t sum)
{
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

/* Groups of eight words, each lane summed by itself; a compiler makes vectors of it, 4-5 times as fast as word by word. A word that k words
 * follow counts k + 1 times in `high`: eight times what its lane says, less its place in the group. */
static void add_groups(const uint8_t *bytes, size_t groups, uint64_t *low, uint64_t *high)
{
    uint32_t lane_low[LANES] = {0}, lane_high[LANES] = {0};
    for (size_t g = 0; g < groups; g++)
        for (size_t j = 0; j < LANES; j++) {
            lane_low[j] += big_endian_16(bytes + 2 * (g * LANES + j));
            lane_high[j] += lane_low[j];
        }
    *high += groups * LANES * *low;
    for (uint64_t j = 0; j < LANES; j++) {
        *low += lane_low[j];
        *high += LANES * (uint64_t)lane_high[j] - j * lane_low[j];
    }
    *low = folded(*low);
    *high = folded(*high);
}

/* HDF5's: over 16-bit big-endian words, an odd last byte as the upper half of one. */
uint32_t fletcher32_of(const uint8_t *bytes, size_t n)
{
    uint64_t low = 0, high = 0;
    while (n >= 2 * LANES) {
        size_t groups = n / (2 * LANES) < MAX_GROUPS ? n / (2 * LANES) : MAX_GROUPS;
        add_groups(bytes, groups, &low, &high);
        bytes += groups * 2 * LANES;
        n -= groups * 2 * LANES;
    }
    for (; n; bytes += 2, n -= n < 2 ? n : 2) {
        low = folded(low + (n < 2 ? (uint32_t)*bytes << 8 : big_endian_16(bytes)));
        high = folded(high + low);
    }
    return (uint32_t)(high << 16 | low);
}

/* HDF5 before 1.6.3 wrote the sum with the bytes of each half swapped on little-endian machines; its readers take either, so do we. */
static bool is_sum_right(const uint8_t *bytes, size_t n)
{
    uint32_t stored = little_endian_32(bytes + n), sum = fletcher32_of(bytes, n);
    return stored == sum || stored == ((sum & 0x00ff00ff) << 8 | (sum >> 8 & 0x00ff00ff));
}

/* ---- the chain ---- */

static const struct {
    uint32_t id;
    const char *name;
    bool (*undo)(struct step *s); /* NULL: not a stream */
} kinds[] = {
    {ARRAY_DEFLATE, "deflate", undo_deflate},
    {ARRAY_RAW_DEFLATE, "deflate", undo_raw_deflate},
    {ARRAY_LZF, "lzf", undo_lzf},
    {ARRAY_LZ4, "lz4", undo_lz4},
    {ARRAY_ZSTD, "zstd", undo_zstd},
    {ARRAY_SHUFFLE, "shuffle", NULL},
    {ARRAY_FLETCHER32, "fletcher32", NULL},
    {ARRAY_CRC32, "crc32", NULL},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static int kind_of(uint32_t id)
{
    int k = 0;
    while (k < KINDS - 1 && kinds[k].id != id)
        k++;
    assert(kinds[k].id == id); /* array_check knows the same ones */
    return k;
}

static int damaged(const struct array_layout *a, struct fb_error *e, const char *its, const char *problem)
{
    char name[96];
    return error_set(e, FB_E_DATA, "decode", "a chunk of the array \"%s\" is damaged: its %s %s", text_escape(a->name, name, sizeof(name)),
                     its, problem);
}

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "decode", "no memory for a decompressor");
}

static int make_decoders(struct decompress *u, uint32_t id, struct fb_error *e)
{
    if ((id == ARRAY_DEFLATE || id == ARRAY_RAW_DEFLATE) && !u->inflate && !(u->inflate = libdeflate_alloc_decompressor()))
        return no_memory(e);
    if (id == ARRAY_ZSTD && !u->zstd && !(u->zstd = ZSTD_createDCtx()))
        return no_memory(e);
    return 0;
}

/* The chain of one chunk, undone from its end. */
struct step_chain {
    struct decompress *u;
    const struct array_layout *a;
    uint32_t skips;
    size_t whole; /* bytes that must come out */
    uint8_t *out;
    const uint8_t *data; /* where it is now */
    size_t n;
    int work; /* the buffer that is free */
};

static bool is_active(const struct step_chain *c, int i)
{
    return !(c->skips >> i & 1);
}

/* How many bytes there were before filter i when the chunk was written: known unless another compressor came before it (SIZE_MAX). */
static size_t bytes_before(const struct step_chain *c, int i)
{
    size_t bytes = c->whole;
    for (int k = 0; k < i; k++) {
        if (!is_active(c, k))
            continue;
        if (c->a->filter[k].id == ARRAY_FLETCHER32)
            bytes += 4;
        else if (c->a->filter[k].id != ARRAY_SHUFFLE && c->a->filter[k].id != ARRAY_CRC32)
            return SIZE_MAX;
    }
    return bytes;
}

static bool is_last(const struct step_chain *c, int i)
{
    for (int k = 0; k < i; k++)
        if (is_active(c, k))
            return false;
    return true;
}

/* The place for the result of filter i, `bytes` of it. */
static uint8_t *room_for(struct step_chain *c, int i, size_t bytes, struct fb_error *e)
{
    if (is_last(c, i) && bytes == c->whole)
        return c->out;
    uint8_t *p = scratch_need(&c->u->work[c->work], bytes, e);
    c->work ^= 1;
    return p;
}

static int undo_stream(struct step_chain *c, int i, int kind, struct fb_error *e)
{
    const struct array_filter *f = &c->a->filter[i];
    size_t drop = f->id == ARRAY_RAW_DEFLATE ? f->param : 0, want = bytes_before(c, i);
    size_t room = want == SIZE_MAX ? c->whole + c->whole / 8 + 4096 : want + drop; /* a compressor makes it no larger, or is skipped */
    FB_TRY(make_decoders(c->u, f->id, e));
    struct step s = {.u = c->u, .filter = f, .in = c->data, .n = c->n, .room = room, .out = room_for(c, i, room, e)};
    if (!s.out)
        return e ? e->code : FB_E_NOMEM;
    if (!kinds[kind].undo(&s) || s.made < drop || (want != SIZE_MAX && s.made != room))
        return damaged(c->a, e, kinds[kind].name, "stream is broken or gives another size");
    c->data = s.out + drop;
    c->n = s.made - drop;
    return 0;
}

static int undo_shuffle(struct step_chain *c, int i, struct fb_error *e)
{
    uint8_t *out = room_for(c, i, c->n, e);
    if (!out)
        return e ? e->code : FB_E_NOMEM;
    unshuffle(out, c->data, c->n, c->a->filter[i].param);
    c->data = out;
    return 0;
}

static int undo_fletcher32(struct step_chain *c, struct fb_error *e)
{
    if (c->n < 4 || !is_sum_right(c->data, c->n - 4))
        return damaged(c->a, e, "fletcher32 checksum", "does not fit its bytes");
    c->n -= 4;
    return 0;
}

static int check_crc32(struct step_chain *c, int i, struct fb_error *e)
{
    if (libdeflate_crc32(0, c->data, c->n) != c->a->filter[i].param)
        return damaged(c->a, e, "crc32 checksum", "does not fit its bytes");
    return 0;
}

static int undo(struct step_chain *c, int i, struct fb_error *e)
{
    int kind = kind_of(c->a->filter[i].id);
    if (kinds[kind].undo)
        return undo_stream(c, i, kind, e);
    if (c->a->filter[i].id == ARRAY_CRC32)
        return check_crc32(c, i, e);
    return c->a->filter[i].id == ARRAY_SHUFFLE ? undo_shuffle(c, i, e) : undo_fletcher32(c, e);
}

int decompress_chunk(struct decompress *u, const struct array_layout *a, uint32_t skips, const uint8_t *stored, size_t n, uint8_t *out,
                     struct fb_error *e)
{
    struct step_chain c = {.u = u, .a = a, .skips = skips, .whole = decompressed_chunk_bytes(a), .out = out, .data = stored, .n = n};
    for (int i = a->filter_count - 1; i >= 0; i--)
        if (is_active(&c, i))
            FB_TRY(undo(&c, i, e));
    if (c.n != c.whole)
        return damaged(a, e, "size", "is not what its shape asks for");
    if (c.data != out)
        memcpy(out, c.data, c.n);
    return 0;
}

uint64_t decompressed_chunk_bytes(const struct array_layout *a)
{
    uint64_t bytes = a->stored_bytes;
    for (int d = 0; d < a->ndim; d++)
        bytes *= a->chunk_shape[d];
    return bytes;
}

void decompress_init(struct decompress *u, struct budget *budget)
{
    *u = (struct decompress){.work = {{.budget = budget}, {.budget = budget}}};
}

void decompress_free(struct decompress *u)
{
    scratch_free(&u->work[0]);
    scratch_free(&u->work[1]);
    if (u->inflate)
        libdeflate_free_decompressor(u->inflate);
    ZSTD_freeDCtx(u->zstd);
    u->inflate = u->zstd = NULL;
}
