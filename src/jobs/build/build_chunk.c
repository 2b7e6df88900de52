/* Collects the rows of tasks into chunks and writes the chunks to the file, in order. */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file/file.h"
#include "jobs/build/build_crew.h"

static struct build_chunk *new_chunk(struct build_crew *c)
{
    struct build_chunk *k = c->spare_chunk;
    if (k)
        c->spare_chunk = k->next;
    else if ((k = calloc(1, sizeof(*k))))
        k->kept.budget = k->kept_row.budget = k->packed.budget = &c->budget;
    if (!k)
        return NULL;
    k->next = NULL;
    k->state = BUILD_CHUNK_OPEN;
    k->piece = (struct build_piece){.number = c->chunks_made++};
    k->parts = k->kept_rows = k->bad.bads = 0;
    if (c->last)
        c->last->next = k;
    else
        c->first = k;
    c->last = k;
    return k;
}

static const struct build_row *part_row(const struct build_chunk *k, const struct build_part *x)
{
    return (const struct build_row *)(x->task ? x->task->row.data : k->kept_row.data) + x->first;
}

static int add_part(struct build_chunk *k, struct build_task *t, uint64_t first, uint64_t rows, struct fb_error *e)
{
    struct build_part *part = scratch_grow(&k->part, k->parts * sizeof(*part), (k->parts + 1) * sizeof(*part), e);
    if (!part)
        return FB_E_NOMEM;
    part[k->parts++] = (struct build_part){t, first, rows};
    k->piece.rows += rows;
    if (t)
        t->users++;
    return 0;
}

/* Takes the bad recordings before the chunk's last row. A resumed run meets later ones again, so taking them here would note them twice. */
static int take_bads(struct build_crew *c, struct build_chunk *k, struct fb_error *e)
{
    const struct build_part *last = &((const struct build_part *)k->part.data)[k->parts - 1];
    uint32_t file = part_row(k, last)[last->rows - 1].file;
    struct build_bad *bad = c->bad.bad.data;
    uint64_t n = 0;
    for (; n < c->bad.bads && bad[n].file < file; n++)
        FB_TRY(build_table_add_bad(&k->bad, &bad[n], e));
    c->bad.bads -= n;
    if (n && c->bad.bads)
        memmove(bad, bad + n, c->bad.bads * sizeof(*bad));
    return 0;
}

/* Nothing more will be added. Where it lies is known now, unless it is yet to be deflated. */
static int close_chunk(struct build_crew *c, struct build_chunk *k, struct fb_error *e)
{
    k->state = BUILD_CHUNK_FULL;
    FB_TRY(take_bads(c, k, e));
    if (c->p->q->deflate)
        return 0;
    k->state = BUILD_CHUNK_PACKED;
    k->piece.offset = c->offset_next;
    k->piece.length = (c->p->chunk_rows ? c->p->chunk_rows : k->piece.rows) * c->p->row_bytes;
    c->offset_next += k->piece.length;
    return 0;
}

static int join_rows(struct build_crew *c, struct build_task *t, struct fb_error *e)
{
    for (uint64_t at = 0; at < t->rows;) {
        struct build_chunk *k = c->last && c->last->state == BUILD_CHUNK_OPEN ? c->last : new_chunk(c);
        if (!k)
            return error_set(e, FB_E_NOMEM, "build", "no memory for a chunk");
        uint64_t room = c->p->chunk_rows ? c->p->chunk_rows - k->piece.rows : t->rows, n = t->rows - at < room ? t->rows - at : room;
        FB_TRY(add_part(k, t, at, n, e));
        at += n;
        if (n == room)
            FB_TRY(close_chunk(c, k, e));
    }
    return 0;
}

static int join_task(struct build_crew *c, struct build_task *t, struct fb_error *e)
{
    if (t->error.code) {
        *e = t->error;
        return e->code;
    }
    for (uint64_t i = 0; i < t->bad.bads; i++)
        FB_TRY(build_table_add_bad(&c->bad, &((const struct build_bad *)t->bad.bad.data)[i], e));
    FB_TRY(join_rows(c, t, e));
    c->files_done += t->count;
    return 0;
}

/* All tasks that are done, in order; at the end the chunk that is not full. */
int build_join_tasks(struct build_crew *c, struct fb_error *e)
{
    while (c->oldest && c->oldest->is_done) {
        struct build_task *t = c->oldest;
        FB_TRY(join_task(c, t, e));
        c->oldest = t->next;
        if (!c->oldest)
            c->newest = NULL;
        build_release_task(c, t);
    }
    if (!c->oldest && c->next_file == c->p->files && c->last && c->last->state == BUILD_CHUNK_OPEN)
        FB_TRY(close_chunk(c, c->last, e));
    return 0;
}

static const uint8_t *part_data(const struct build_crew *c, const struct build_chunk *k, const struct build_part *x)
{
    return (const uint8_t *)(x->task ? x->task->data.data : k->kept.data) + x->first * c->p->row_bytes;
}

/* Small tasks fill a large chunk slowly: when they are all taken, their rows are copied and they are free again. */
int build_keep_rows(struct build_crew *c, struct build_chunk *k, struct fb_error *e)
{
    struct build_part *part = k->part.data;
    uint64_t row_bytes = c->p->row_bytes, n = k->kept_rows, count = k->piece.rows;
    uint8_t *data = scratch_need(&k->kept, c->p->chunk_rows * row_bytes, e);
    struct build_row *row = data ? scratch_need(&k->kept_row, c->p->chunk_rows * sizeof(*row), e) : NULL;
    if (!row)
        return FB_E_NOMEM;
    for (uint64_t i = 0; i < k->parts; i++) {
        if (!part[i].task)
            continue;
        memcpy(data + n * row_bytes, part_data(c, k, &part[i]), part[i].rows * row_bytes);
        memcpy(row + n, part_row(k, &part[i]), part[i].rows * sizeof(*row));
        n += part[i].rows;
        build_release_task(c, part[i].task);
    }
    k->kept_rows = n;
    part[0] = (struct build_part){NULL, 0, count};
    k->parts = 1;
    return 0;
}

static bool has_borrowed(const struct build_chunk *k)
{
    const struct build_part *part = k->part.data;
    for (uint64_t i = 0; i < k->parts; i++)
        if (part[i].task)
            return true;
    return false;
}

/* Nothing can start before the open chunk has let its tasks go. */
bool build_is_stuck(const struct build_crew *c)
{
    bool is_open = c->first && c->first == c->last && c->first->state == BUILD_CHUNK_OPEN;
    bool is_full = c->next_file < c->p->files && c->tasks >= c->p->task_limit && !c->oldest;
    return is_open && (is_full || (c->oldest && c->oldest->is_waiting && c->large)) && has_borrowed(c->first);
}

/* ---- packing and writing ---- */

static const uint8_t *gather(struct build_worker *w, const struct build_chunk *k, uint64_t bytes, struct fb_error *e)
{
    const struct build_part *part = k->part.data;
    uint64_t at = 0;
    if (k->parts == 1 && part[0].rows == w->c->p->chunk_rows)
        return part_data(w->c, k, &part[0]);
    uint8_t *to = scratch_need(&w->gather, bytes, e);
    for (uint64_t i = 0; to && i < k->parts; i++) {
        uint64_t n = part[i].rows * w->c->p->row_bytes;
        memcpy(to + at, part_data(w->c, k, &part[i]), n);
        at += n;
    }
    if (to)
        memset(to + at, 0, bytes - at);
    return to;
}

static int pack_rows(struct build_worker *w, struct build_chunk *k, struct fb_error *e)
{
    const struct build_plan *p = w->c->p;
    uint64_t bytes = p->chunk_rows * p->row_bytes;
    const uint8_t *rows = gather(w, k, bytes, e), *packed;
    if (!rows)
        return FB_E_NOMEM;
    FB_TRY(build_deflate_run(&w->deflate, p->q->deflate, rows, bytes, fb_dtype_size(p->dtype), &packed, &k->piece.length, e));
    uint8_t *out = scratch_need(&k->packed, k->piece.length, e);
    if (!out)
        return FB_E_NOMEM;
    memcpy(out, packed, k->piece.length);
    k->piece.hash = checksum_of(out, k->piece.length);
    return 0;
}

/* The split that a chunk's time is counted for: that of its first row. */
static int split_of(const struct build_crew *c, const struct build_chunk *k)
{
    return build_split_of(c->p, part_row(k, k->part.data)->file);
}

struct chunk_clock {
    enum build_stage stage;
    uint64_t since_ns, cpu_ns;
};

static struct chunk_clock start_clock(struct build_worker *w, enum build_stage stage)
{
    return (struct chunk_clock){stage, build_meter_move(w->c->meter, -1, stage, 0), clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID)};
}

/* What a chunk costs is part of what its files cost. */
static void stop_clock(struct build_worker *w, const struct build_chunk *k, const struct chunk_clock *t)
{
    struct build_figures f = {.file_cpu_seconds = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - t->cpu_ns) / 1e9};
    f.seconds[t->stage] = (double)(build_meter_move(w->c->meter, (int)t->stage, -1, 0) - t->since_ns) / 1e9;
    build_meter_add(w->c->meter, split_of(w->c, k), &f);
}

int build_pack_chunk(struct build_worker *w, struct build_chunk *k, struct fb_error *e)
{
    struct chunk_clock t = start_clock(w, BUILD_COMPRESS);
    int rc = pack_rows(w, k, e);
    stop_clock(w, k, &t);
    return rc;
}

/* Rows of one task, as they lie in the file. */
static bool is_one_piece(const struct build_crew *c, const struct build_chunk *k)
{
    return !c->p->q->deflate && k->parts == 1 && k->piece.rows * c->p->row_bytes == k->piece.length;
}

/* Rows from where they are; a last chunk that is not full is followed by zeros. */
static int write_rows(struct build_worker *w, const struct build_chunk *k, struct fb_error *e)
{
    const struct build_part *part = k->part.data;
    struct iovec v[64];
    uint64_t offset = k->piece.offset, end = k->piece.offset + k->piece.length;
    for (uint64_t i = 0; i < k->parts;) {
        int n = 0;
        uint64_t bytes = 0;
        for (; i < k->parts && n < 64; i++, n++) {
            v[n] = (struct iovec){(void *)(uintptr_t)part_data(w->c, k, &part[i]), part[i].rows * w->c->p->row_bytes};
            bytes += v[n].iov_len;
        }
        FB_TRY(file_write_parts_at(w->c->files->data_fd, v, n, offset, e));
        offset += bytes;
    }
    uint8_t *zeros = offset < end ? scratch_need(&w->gather, end - offset, e) : NULL;
    if (offset < end && !zeros)
        return FB_E_NOMEM;
    if (zeros)
        memset(zeros, 0, end - offset);
    return zeros ? file_write_all_at(w->c->files->data_fd, zeros, end - offset, offset, e) : 0;
}

int build_write_chunk(struct build_worker *w, struct build_chunk *k, struct fb_error *e)
{
    struct chunk_clock t = start_clock(w, BUILD_WRITE);
    const struct build_part *part = k->part.data;
    struct build_files *files = w->c->files;
    int rc = w->c->p->q->deflate     ? file_write_all_at(files->data_fd, k->packed.data, k->piece.length, k->piece.offset, e)
             : is_one_piece(w->c, k) ? build_direct_write(&files->direct, part_data(w->c, k, part), k->piece.length, k->piece.offset, e)
                                     : write_rows(w, k, e);
    stop_clock(w, k, &t);
    return rc;
}

/* ---- committing ---- */

static int commit(struct build_crew *c, struct build_chunk *k, struct fb_error *e)
{
    const struct build_part *part = k->part.data;
    uint64_t before = c->table->rows;
    struct build_row *row = scratch_grow(&c->table->row, before * sizeof(*row), (before + k->piece.rows) * sizeof(*row), e);
    if (!row)
        return FB_E_NOMEM;
    uint64_t at = before;
    for (uint64_t i = 0; i < k->parts; i++, at += part[i - 1].rows)
        memcpy(row + at, part_row(k, &part[i]), part[i].rows * sizeof(*row));
    FB_TRY(build_files_note(c->files, &k->piece, row + before, k->bad.bad.data, k->bad.bads, e));
    for (uint64_t i = 0; i < k->bad.bads; i++)
        FB_TRY(build_table_add_bad(c->table, &((const struct build_bad *)k->bad.bad.data)[i], e));
    return build_table_add(c->table, &k->piece, row + before, e);
}

int build_commit_chunks(struct build_crew *c, struct fb_error *e)
{
    while (c->first && c->first->state == BUILD_CHUNK_WRITTEN) {
        struct build_chunk *k = c->first;
        struct build_part *part = k->part.data;
        FB_TRY(commit(c, k, e));
        c->first = k->next;
        if (!c->first)
            c->last = NULL;
        for (uint64_t i = 0; i < k->parts; i++)
            if (part[i].task)
                build_release_task(c, part[i].task);
        k->next = c->spare_chunk;
        c->spare_chunk = k;
    }
    return 0;
}

/* Deflated chunks get their places in order, as their lengths become known. */
void build_place_chunks(struct build_crew *c)
{
    if (!c->p->q->deflate)
        return;
    for (struct build_chunk *k = c->first; k && k->state >= BUILD_CHUNK_PACKED; k = k->next)
        if (k->state == BUILD_CHUNK_PACKED && k->piece.number == c->packed_next) {
            k->piece.offset = c->offset_next;
            c->offset_next += k->piece.length;
            c->packed_next++;
        }
}

struct build_chunk *build_find_chunk(const struct build_crew *c, enum build_chunk_state state)
{
    for (struct build_chunk *k = c->first; k; k = k->next)
        if (k->state == state && (state != BUILD_CHUNK_PACKED || k->piece.offset))
            return k;
    return NULL;
}
