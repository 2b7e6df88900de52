/* Regions of common JPEG files, exactly as libjpeg-turbo decodes them, at full scale or at 1/2, 1/4, 1/8.
 *
 * Two ways. Where a record knows every row of the region, the decoder begins in each row at the checkpoint left of it, decodes two rows at
 * a time and stops right of it: nothing else is even looked at. Otherwise one lane goes from the top, or from the last row known, through
 * all rows down to the region's end, and leaves checkpoints as it passes: of rows above the region and columns beside it nothing is kept
 * but the predictors. The scale changes what is made of the coefficients, not the way to them: a record serves all scales.
 *
 * Anything odd ends the attempt: a code that is none, too many coefficients, a marker or the end where data should be, a restart marker out
 * of turn, a checkpoint that is not where the record says. A wrong record is dropped and the file decoded without it; a wrong file is
 * libjpeg-turbo's, from the start.
 */
#include "codec/image/jpeg/jpeg_fast.h"

#include <stdlib.h>
#include <string.h>

#include "base/round_up.h"
#include "codec/image/jpeg/jpeg_band.h"
#include "codec/image/jpeg/jpeg_markers.h"
#include "codec/image/jpeg/jpeg_record.h"

/* What a thread keeps. */
struct own {
    struct jpeg_shelf shelf;
};

/* One decode. */
struct call {
    const struct jpeg_kernels *kernels;
    const uint8_t *file;
    size_t n;
    bool has_part_only;
    struct jpeg_plan plan;
    struct jpeg_schedule schedule;
    struct jpeg_span span;
    struct jpeg_band band;
    struct jpeg_lane lane[JPEG_LANES];
    struct jpeg_stream stream[JPEG_LANES];
    int16_t *coefficients[JPEG_LANES]; /* JPEG_BATCH blocks */
    uint8_t counts[JPEG_LANES][JPEG_BATCH];
    uint32_t spacing;
    struct jpeg_mark *marks[JPEG_LANES]; /* of one row each */
    uint32_t mark_count;                 /* in a row */
    uint32_t batch;                      /* MCUs */
};

/* ---- setting up ---- */

static bool find_tables(struct call *c, struct jpeg_shelf *shelf)
{
    const struct jpeg_plan *p = &c->plan;
    const struct jpeg_huffman *dc[3], *ac[3];
    for (int i = 0; i < p->components; i++) {
        dc[i] = jpeg_shelf_table(shelf, &p->dc[i], true);
        ac[i] = jpeg_shelf_table(shelf, &p->ac[i], false);
        if (!dc[i] || !ac[i])
            return false;
    }
    c->schedule = (struct jpeg_schedule){.blocks = p->blocks};
    for (int i = 0; i < p->blocks; i++) {
        int luma = p->across * p->down, component = i < luma ? 0 : i - luma + 1;
        c->schedule.block[i].component = component;
        c->schedule.block[i].dc = dc[component];
        c->schedule.block[i].ac = ac[component];
        c->schedule.block[i].is_mean = jpeg_plan_side(p, component) == 1;
        c->schedule.has_means |= jpeg_plan_side(p, component) == 1;
    }
    return true;
}

static uint8_t *cut(uint8_t **at, size_t bytes)
{
    uint8_t *part = *at;
    *at += round_up(bytes, 64);
    return part;
}

/* All memory of a decode in one piece; false: there is none. */
static bool lay_out(struct call *c, struct scratch *scratch, const struct region *r, const struct image *out, const struct row_taker *taker)
{
    const size_t coefficient_bytes = JPEG_BATCH * 64 * sizeof(int16_t);
    size_t mark_bytes = c->mark_count * sizeof(struct jpeg_mark), band_bytes = jpeg_band_bytes(&c->plan, &c->span, JPEG_LANES);
    uint8_t *at = scratch_need(scratch, JPEG_LANES * (JPEG_STREAM_BYTES + coefficient_bytes + mark_bytes + 3 * 64) + band_bytes, NULL);
    if (!at)
        return false;
    for (int i = 0; i < JPEG_LANES; i++) {
        jpeg_stream_init(&c->stream[i], c->kernels, cut(&at, JPEG_STREAM_BYTES));
        c->coefficients[i] = (void *)cut(&at, coefficient_bytes);
        c->marks[i] = (void *)cut(&at, mark_bytes);
    }
    jpeg_band_init(&c->band, &c->plan, c->kernels, r, out, JPEG_LANES, at);
    c->band.taker = taker;
    return true;
}

/* ---- a run of MCUs in one or more lanes ---- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How far all lanes, standing at `column` of rows row, row + 1, ..., may go at once: not beyond `end`, a restart or a batch. */
static uint32_t reach(const struct call *c, uint32_t row, int lanes, uint32_t column, uint32_t end)
{
    uint32_t far = smaller(end, column + c->batch);
    for (int i = 0; c->plan.restart && i < lanes; i++) {
        uint64_t mcu = (uint64_t)(row + (uint32_t)i) * c->plan.columns + column;
        far = smaller(far, column + c->plan.restart - (uint32_t)(mcu % c->plan.restart));
    }
    return far;
}

/* Lane i has arrived at that MCU of the image: passes the restart marker there, if there is one. */
static bool arrive(struct call *c, int i, uint64_t mcu)
{
    const struct jpeg_plan *p = &c->plan;
    if (!p->restart || mcu % p->restart || mcu == (uint64_t)p->columns * p->rows)
        return true;
    return jpeg_stream_restart(&c->stream[i], &c->lane[i], (uint32_t)((mcu / p->restart - 1) & 7));
}

/* Decodes [column, end) of rows row, row + 1, ...; is_kept: for the picture. */
static bool run(struct call *c, uint32_t row, int lanes, uint32_t column, uint32_t end, bool is_kept)
{
    uint32_t mcus = end - column;
    for (int i = 0; i < lanes; i++) {
        if (!jpeg_stream_ensure(&c->stream[i], &c->lane[i]))
            return false;
        c->lane[i].blocks = c->coefficients[i];
        c->lane[i].counts = c->counts[i];
        c->lane[i].is_dropped = !is_kept;
        if (is_kept)
            memset(c->coefficients[i], 0, (size_t)mcus * (size_t)c->plan.blocks * 64 * sizeof(int16_t));
    }
    if (!c->kernels->entropy(c->lane, lanes, &c->schedule, mcus))
        return false;
    for (int i = 0; i < lanes; i++) {
        uint32_t at = row + (uint32_t)i;
        if (is_kept)
            jpeg_band_transform(&c->band, at - c->band.row, column, mcus, c->coefficients[i], c->counts[i]);
        if (!arrive(c, i, (uint64_t)at * c->plan.columns + end))
            return false;
    }
    return true;
}

/* There is a mark before every `spacing`-th column and behind the last. */
static bool has_mark(const struct call *c, uint32_t column)
{
    return column % c->spacing == 0 || column == c->plan.columns;
}

static uint32_t mark_number(const struct call *c, uint32_t column)
{
    return (column + c->spacing - 1) / c->spacing;
}

/* ---- by record: all rows of the region are known ---- */

static bool is_at_mark(struct call *c, int lanes, uint32_t number)
{
    for (int i = 0; i < lanes; i++) {
        struct jpeg_mark m;
        if (!jpeg_stream_mark(&c->stream[i], &c->lane[i], &m) || !jpeg_mark_is_equal(&m, &c->marks[i][number]))
            return false;
    }
    return true;
}

static bool has_enough(struct call *c, int lanes)
{
    struct jpeg_mark m;
    for (int i = 0; i < lanes; i++)
        if (!jpeg_stream_mark(&c->stream[i], &c->lane[i], &m))
            return false;
    return true;
}

static bool decode_known_rows(struct call *c, struct jpeg_record *record, uint32_t row, int lanes)
{
    uint32_t first = c->span.first_column, end = c->span.end_column, from = first / c->spacing, to = mark_number(c, end);
    uint32_t stop = c->has_part_only ? smaller(to * c->spacing, c->plan.columns) : end; /* where nothing else vouches, to the next mark */
    for (int i = 0; i < lanes; i++) {
        if (!jpeg_record_row(record, c->marks[i]) || c->marks[i][from].byte < c->plan.scan || c->marks[i][to].byte > c->n)
            return false;
        uint32_t limit = smaller(c->marks[i][to].byte + JPEG_MARK_REACH, (uint32_t)c->n);
        jpeg_stream_begin(&c->stream[i], &c->lane[i], c->file, limit, &c->marks[i][from]);
    }
    for (uint32_t x = from * c->spacing, next; x < stop; x = next) {
        next = reach(c, row, lanes, x, x < first ? first : x < end ? end : stop);
        if (next / c->spacing * c->spacing > x) /* arrive at marks */
            next = next / c->spacing * c->spacing;
        if (!run(c, row, lanes, x, next, x >= first && x < end))
            return false;
        if (has_mark(c, next) && !is_at_mark(c, lanes, mark_number(c, next)))
            return false;
    }
    return has_enough(c, lanes);
}

static bool decode_known(struct call *c, struct jpeg_record *record)
{
    if (!jpeg_record_skip(record, c->span.first_row))
        return false;
    for (uint32_t row = c->span.first_row; row < c->span.end_row;) {
        int lanes = (int)smaller(c->span.end_row - row, JPEG_LANES);
        if (!decode_known_rows(c, record, row, lanes))
            return false;
        jpeg_band_emit(&c->band, (uint32_t)lanes);
        row += (uint32_t)lanes;
    }
    return true;
}

/* ---- plainly: one lane from `row` on, leaving marks ---- */

/* The whole row; its marks into marks[0], the first of which is there already. */
static bool pass_row(struct call *c, uint32_t row)
{
    bool is_needed = row >= c->span.first_row;
    uint32_t first = c->span.first_column, end = c->span.end_column;
    for (uint32_t x = 0, next; x < c->plan.columns; x = next) {
        uint32_t border = !is_needed || x >= end ? c->plan.columns : x < first ? first : end;
        next = reach(c, row, 1, x, smaller(border, (x / c->spacing + 1) * c->spacing));
        if (!run(c, row, 1, x, next, is_needed && x >= first && x < end))
            return false;
        if (has_mark(c, next) && !jpeg_stream_mark(&c->stream[0], &c->lane[0], &c->marks[0][mark_number(c, next)]))
            return false;
    }
    return true;
}

/* Begins at `record`'s next row (record->start). Rows it does not know are added to `w`, if there is one. */
static bool decode_plainly(struct call *c, const struct jpeg_record *record, struct jpeg_writing *w)
{
    uint32_t row = record->row;
    c->marks[0][0] = record->start;
    jpeg_stream_begin(&c->stream[0], &c->lane[0], c->file, (uint32_t)c->n, &record->start);
    for (; row < c->span.end_row; row++) {
        if (!pass_row(c, row))
            return false;
        if (row >= c->span.first_row)
            jpeg_band_emit(&c->band, 1);
        if (w && row >= w->rows)
            jpeg_record_add(w, c->marks[0]);
        c->marks[0][0] = c->marks[0][c->mark_count - 1];
    }
    uint32_t at = c->marks[0][0].byte;
    return at <= c->n && jpeg_ends_here(0, c->file + at, c->n - at);
}

/* ---- choosing ---- */

static bool open_record(const struct codec_state *s, const struct call *c, struct jpeg_record *record)
{
    return s->known && jpeg_record_open(record, s->known, s->known_bytes, &c->plan, c->file, c->n, !c->has_part_only);
}

/* A record that knows nothing. */
static struct jpeg_record nothing(const struct call *c)
{
    return (struct jpeg_record){.spacing = jpeg_record_spacing(&c->plan, c->n), .start = {.byte = c->plan.scan}};
}

static void set_spacing(struct call *c, uint32_t spacing)
{
    c->spacing = spacing;
    c->mark_count = jpeg_marks_in_row(c->plan.columns, spacing);
}

/* Decodes with what `known` knows, perhaps nothing; true: done. */
static bool attempt(struct call *c, struct codec_state *s, const struct jpeg_record *known, const struct region *r, const struct image *out)
{
    struct jpeg_record from = *known, all = *known;
    struct jpeg_writing w;
    set_spacing(c, known->spacing);
    if (!lay_out(c, &s->scratch, r, out, s->taker))
        return false;
    if (known->rows >= c->span.end_row)
        return decode_known(c, &from);
    if (c->has_part_only || !jpeg_record_skip(&from, smaller(known->rows, c->span.first_row)) || !jpeg_record_skip(&all, known->rows))
        return false;
    size_t most = jpeg_record_most(&c->plan, c->spacing);
    uint8_t *room = s->wants_record ? scratch_need(&s->record, most, NULL) : NULL;
    if (room)
        jpeg_record_begin(&w, room, most, &c->plan, c->spacing, known->rows ? &all : NULL);
    if (!decode_plainly(c, &from, room ? &w : NULL))
        return false;
    s->record_bytes = room ? jpeg_record_end(&w, &c->plan, c->file, c->n) : 0;
    return true;
}

static struct own *own_of(struct codec_state *s, void **own)
{
    if (!*own) {
        struct own *o = calloc(1, sizeof(*o));
        if (o)
            o->shelf.memory.budget = s->scratch.budget;
        *own = o;
    }
    return *own;
}

int jpeg_fast_decode(struct codec_state *s, void **own, const uint8_t *bytes, size_t n, const struct image_header *h,
                     const struct region *r, const struct image *out)
{
    struct call c;
    struct jpeg_record record;
    c.kernels = jpeg_kernels();
    c.file = bytes;
    c.n = n;
    c.has_part_only = s->has_part_only;
    struct own *o = own_of(s, own);
    if (!o || !c.kernels || !jpeg_plan_read(&c.plan, bytes, n))
        return 1;
    jpeg_plan_reduce(&c.plan, h->scale ? h->scale : 1);
    if (c.plan.out_width != h->width || c.plan.out_height != h->height || !find_tables(&c, &o->shelf))
        return 1;
    c.span = jpeg_plan_span(&c.plan, r);
    c.batch = JPEG_BATCH / (uint32_t)c.plan.blocks;
    if (open_record(s, &c, &record)) {
        s->way = CODEC_BY_RECORD;
        if (attempt(&c, s, &record, r, out))
            return 0;
    }
    record = nothing(&c);
    s->way = CODEC_PLAIN;
    if (attempt(&c, s, &record, r, out))
        return 0;
    s->way = CODEC_FALLBACK;
    s->record_bytes = 0;
    return 1;
}

void jpeg_fast_close(void **own)
{
    struct own *o = *own;
    if (o)
        jpeg_shelf_free(&o->shelf);
    free(o);
    *own = NULL;
}
