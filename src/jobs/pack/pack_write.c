/* Writing records into shards. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file/file.h"
#include "jobs/pack/pack_input.h"
#include "jobs/pack/pack_internal.h"

enum { PIECE = 4 << 20, WRITE_BACK_EVERY = 32 << 20 };

/* ---- shards ---- */

static int open_shard(struct packing *p, struct fb_error *e)
{
    uint32_t number = p->out->shards;
    int fd = pack_files_shard(&p->files, number, e);
    if (fd < 0)
        return fd;
    p->out->shards++;
    return pack_shard_open(&p->shard, fd, number, p->dataset.catalog, e);
}

int packing_finish_shard(struct packing *p, bool is_last, struct fb_error *e)
{
    int rc = pack_shard_finish(&p->shard, p->dataset.catalog, p->learnt, is_last, e);
    off_t size = rc == 0 ? lseek(p->shard.fd, 0, SEEK_END) : 0;
    p->out->pack_bytes += size > 0 ? (uint64_t)size : 0;
    pack_shard_close(&p->shard);
    return rc;
}

int packing_turn(struct packing *p, uint64_t record_bytes, struct fb_error *e)
{
    struct pack_shard *s = &p->shard;
    bool is_full = p->q->shard_bytes && s->fd >= 0 && s->samples > 0 && s->position + record_bytes > p->q->shard_bytes;
    if (is_full)
        FB_TRY(packing_finish_shard(p, false, e));
    return s->fd < 0 ? open_shard(p, e) : 0;
}

/* ---- records ---- */

int packing_add(struct packing *p, const struct pack_entry *entry, const char *name, struct fb_error *e)
{
    FB_TRY(pack_shard_add(&p->shard, p->dataset.catalog, entry, name, e));
    p->out->samples++;
    p->out->bytes += entry->data_length;
    p->next = entry->sample + 1;
    return 0;
}

/* So that the sync at the end finds little to do. */
static void write_back(struct pack_shard *s)
{
    if (s->position - s->synced_to < WRITE_BACK_EVERY)
        return;
    sync_file_range(s->fd, (off_t)s->synced_to, (off_t)(s->position - s->synced_to), SYNC_FILE_RANGE_WRITE);
    s->synced_to = s->position;
}

struct copying {
    struct checksum *data, *record;
    char *piece;
    uint64_t at;
};

static int copy_piece(struct packing *p, struct copying *c, const struct pack_input *in, uint64_t offset, size_t n, struct fb_error *e)
{
    FB_TRY(pack_input_read(in, c->piece, offset, n, e));
    checksum_add(c->data, c->piece, n);
    checksum_add(c->record, c->piece, n);
    FB_TRY(file_write_all_at(p->shard.fd, c->piece, n, c->at, e));
    c->at += n;
    return 0;
}

static int copy_large(struct packing *p, struct copying *c, struct pack_item *item, struct fb_error *e)
{
    struct pack_input in;
    uint64_t size = item->size, start = c->at;
    int64_t mtime_ns = item->mtime_ns;
    FB_TRY(pack_input_open(&in, &p->source, item, e));
    int rc =
        item->size == size && item->mtime_ns == mtime_ns ? 0 : error_set(e, FB_E_STATE, "pack", "the source was changed while it was read");
    while (rc == 0 && c->at - start < size) {
        uint64_t left = size - (c->at - start);
        rc = copy_piece(p, c, &in, c->at - start, left < PIECE ? (size_t)left : PIECE, e);
        if (rc == 0 && p->q->options.interrupted && p->q->options.interrupted(p->q->options.ctx))
            rc = error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
    }
    if (rc == 0)
        rc = pack_input_check(&in, e);
    pack_input_close(&in);
    return rc;
}

/* Headers, the bytes piece by piece, what follows. */
static int write_large(struct packing *p, struct pack_item *item, struct fb_error *e)
{
    struct copying c = {checksum_open(), checksum_open(), malloc(PIECE), p->shard.position};
    int rc = c.data && c.record && c.piece ? 0 : error_set(e, FB_E_NOMEM, "pack", "no memory to copy a large file");
    if (rc == 0)
        rc = file_write_all_at(p->shard.fd, item->record.data, item->record.length, c.at, e);
    if (rc == 0) {
        checksum_add(c.record, item->record.data, item->record.length);
        c.at += item->record.length;
        rc = copy_large(p, &c, item, e);
    }
    if (rc == 0)
        rc = file_write_all_at(p->shard.fd, item->tail.data, item->tail.length, c.at, e);
    if (rc == 0) {
        checksum_add(c.record, item->tail.data, item->tail.length);
        item->checksum = checksum_value(c.data);
        item->record_checksum = checksum_value(c.record);
    }
    checksum_close(c.data);
    checksum_close(c.record);
    free(c.piece);
    return rc;
}

int packing_write(struct packing *p, struct pack_item *item, struct fb_error *e)
{
    uint64_t length = item->record.length + (item->is_large ? item->size + item->tail.length : 0);
    FB_TRY(packing_turn(p, length, e));
    struct pack_shard *s = &p->shard;
    if (item->is_large)
        FB_TRY(write_large(p, item, e));
    else
        FB_TRY(file_write_all_at(s->fd, item->record.data, item->record.length, s->position, e));
    struct pack_entry entry = {
        .sample = item->sample,
        .shard = s->number,
        .start = s->position,
        .length = length,
        .data_offset = s->position + item->data_at,
        .data_length = item->size,
        .source_length = item->source_size,
        .mtime_ns = item->mtime_ns,
        .checksum = item->checksum,
        .record_checksum = item->record_checksum,
    };
    FB_TRY(packing_add(p, &entry, item->is_renamed ? item->name.data : NULL, e));
    write_back(s);
    return pack_files_note(&p->files, &entry, e);
}
