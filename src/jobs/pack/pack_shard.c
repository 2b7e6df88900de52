#include "jobs/pack/pack_shard.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/round_up.h"
#include "dataset/pack/pack_index.h"
#include "dataset/tar/tar_header.h"
#include "jobs/output/pack_record.h"
#include "model/catalog/catalog_format.h"
#include "model/catalog/catalog_writer.h"

#define MOST_BYTES ((size_t)1 << 40)

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "pack", "no memory for the index of the pack");
}

/* ---- records ---- */

/* Fields and classes as in the source, so that labels have the same numbers in every shard. */
static int start_catalog(struct pack_shard *s, const struct catalog *source, struct fb_error *e)
{
    FB_TRY(catalog_writer_open(&s->catalog, e));
    s->catalog->made_ns = 0; /* equal data gives equal packs */
    FB_TRY(catalog_add_note(s->catalog, "kind", "pack", e));
    return catalog_add_fields_of(s->catalog, source, e);
}

int pack_shard_open(struct pack_shard *s, int fd, uint32_t number, const struct catalog *source, struct fb_error *e)
{
    *s = (struct pack_shard){.fd = fd, .number = number};
    s->records.limit = s->names.limit = s->name_texts.limit = s->origins.limit = MOST_BYTES;
    return start_catalog(s, source, e);
}

void pack_shard_close(struct pack_shard *s)
{
    catalog_writer_discard(s->catalog);
    text_free(&s->records);
    text_free(&s->names);
    text_free(&s->name_texts);
    text_free(&s->origins);
    if (s->fd >= 0)
        close(s->fd);
    *s = (struct pack_shard){.fd = -1};
}

static int add_to_catalog(struct pack_shard *s, const struct catalog *source, const struct pack_entry *entry, struct fb_error *e)
{
    const void *values[FB_MAX_FIELDS];
    for (int i = 0; i < catalog_field_count(source); i++)
        if (!(values[i] = catalog_value(source, entry->sample, i, e)))
            return FB_E_DATA;
    const char *key = catalog_key(source, entry->sample, e);
    if (!key)
        return FB_E_DATA;
    struct catalog_sample sample = {key, "pack", entry->data_offset, entry->data_length, INT64_MAX, 0};
    return catalog_add_sample(s->catalog, &sample, values, e);
}

int pack_shard_add(struct pack_shard *s, const struct catalog *source, const struct pack_entry *entry, const char *name, struct fb_error *e)
{
    FB_TRY(add_to_catalog(s, source, entry, e));
    struct pack_record r = {entry->start, entry->checksum, entry->record_checksum, entry->mtime_ns};
    text_append(&s->records, (const char *)&r, sizeof(r));
    text_append(&s->origins, (const char *)&entry->sample, sizeof(entry->sample));
    if (name) {
        struct pack_name n = {s->samples, s->name_texts.length, strlen(name)};
        text_append(&s->names, (const char *)&n, sizeof(n));
        text_append(&s->name_texts, name, n.length);
    }
    s->position = entry->start + entry->length;
    s->samples++;
    bool has_failed = s->records.failed || s->origins.failed || s->names.failed || s->name_texts.failed;
    return has_failed ? no_memory(e) : 0;
}

/* ---- the index ---- */

struct index_out {
    int fd;
    uint64_t start, at; /* of the index; where the next byte goes */
    struct pack_head head;
};

static int put_bytes(struct index_out *o, const void *bytes, size_t n, struct fb_error *e)
{
    FB_TRY(file_write_all_at(o->fd, bytes, n, o->at, e));
    o->at += n;
    return 0;
}

static int put_zeros(struct index_out *o, uint64_t up_to, struct fb_error *e)
{
    static const char zeros[TAR_BLOCK];
    while (o->at < up_to)
        FB_TRY(put_bytes(o, zeros, up_to - o->at < sizeof(zeros) ? (size_t)(up_to - o->at) : sizeof(zeros), e));
    return 0;
}

/* Starts a section at the next multiple of 8. */
static int start_section(struct index_out *o, enum pack_section_id id, struct fb_error *e)
{
    FB_TRY(put_zeros(o, o->start + round_up(o->at - o->start, 8), e));
    o->head.section[id].offset = o->at - o->start;
    return 0;
}

static int put_section(struct index_out *o, enum pack_section_id id, const void *bytes, size_t n, struct fb_error *e)
{
    FB_TRY(start_section(o, id, e));
    FB_TRY(put_bytes(o, bytes, n, e));
    o->head.section[id].length = n;
    o->head.section[id].checksum = checksum_of(bytes, n);
    return 0;
}

static int put_catalog(struct pack_shard *s, struct index_out *o, struct fb_error *e)
{
    struct catalog *c;
    size_t n;
    int rc = catalog_finish(s->catalog, NULL, &c, e);
    s->catalog = NULL;
    FB_TRY(rc);
    const void *bytes = catalog_bytes(c, &n);
    rc = put_section(o, PACK_CATALOG, bytes, n, e);
    catalog_close(c);
    return rc;
}

static int put_names(struct pack_shard *s, struct index_out *o, struct fb_error *e)
{
    struct pack_name *name = (void *)s->names.data;
    for (size_t i = 0; i < s->names.length / sizeof(*name); i++)
        name[i].text += s->names.length;
    text_append(&s->names, s->name_texts.data ? s->name_texts.data : "", s->name_texts.length);
    return s->names.failed ? no_memory(e) : put_section(o, PACK_NAMES, s->names.data, s->names.length, e);
}

static int put_learnt_of(struct pack_shard *s, uint64_t i, const struct catalog *source, struct learnt *learnt, struct scratch *scratch,
                         struct checksum *sum, struct index_out *o, struct fb_error *e)
{
    struct catalog_sample where;
    uint64_t origin = ((const uint64_t *)(const void *)s->origins.data)[i];
    const struct pack_record *r = (const struct pack_record *)(const void *)s->records.data + i;
    FB_TRY(catalog_sample(source, origin, &where, e));
    struct learnt_identity id = {where.length, r->mtime_ns};
    static const char zeros[8];
    struct pack_learnt head = {i, learnt_get(learnt, learnt_key(where.key), &id, scratch)};
    if (head.length == 0)
        return 0;
    const struct {
        const void *bytes;
        size_t n;
    } part[] = {{&head, sizeof(head)}, {scratch->data, head.length}, {zeros, -head.length & 7}};
    for (int k = 0; k < 3; k++) {
        checksum_add(sum, part[k].bytes, part[k].n);
        FB_TRY(put_bytes(o, part[k].bytes, part[k].n, e));
    }
    return 0;
}

/* Straight from the store to the file: what was learnt can be larger than memory. */
static int put_learnt(struct pack_shard *s, const struct catalog *source, struct learnt *learnt, struct index_out *o, struct fb_error *e)
{
    FB_TRY(start_section(o, PACK_LEARNT, e));
    struct checksum *sum = checksum_open();
    struct scratch scratch = {0};
    int rc = sum ? 0 : no_memory(e);
    for (uint64_t i = 0; rc == 0 && learnt && i < s->samples; i++)
        rc = put_learnt_of(s, i, source, learnt, &scratch, sum, o, e);
    struct pack_section *section = &o->head.section[PACK_LEARNT];
    section->length = o->at - o->start - section->offset;
    section->checksum = sum ? checksum_value(sum) : 0;
    checksum_close(sum);
    scratch_free(&scratch);
    return rc;
}

static int edge(int fd, uint64_t start, uint64_t *checksum, struct fb_error *e)
{
    uint8_t bytes[PACK_EDGE_BYTES];
    FB_TRY(pack_read_at(fd, start, bytes, sizeof(bytes), NULL, e));
    *checksum = checksum_of(bytes, sizeof(bytes));
    return 0;
}

static int put_head(struct pack_shard *s, struct index_out *o, bool is_last, struct fb_error *e)
{
    struct pack_head *h = &o->head;
    const struct pack_record *last = (const struct pack_record *)(const void *)s->records.data + s->samples - 1;
    h->magic = PACK_HEAD_MAGIC;
    h->version = PACK_VERSION;
    h->section_count = PACK_SECTIONS;
    h->samples = s->samples;
    h->members_end = s->position;
    h->shard = s->number;
    h->is_last_shard = is_last;
    h->last_start = last->start;
    FB_TRY(edge(s->fd, 0, &h->first_edge, e));
    FB_TRY(edge(s->fd, h->last_start, &h->last_edge, e));
    return file_write_all_at(o->fd, h, sizeof(*h), o->start, e);
}

/* Padding, foot, the two blocks that end an archive, and the tar header that could be made only now. */
static int put_end(struct pack_shard *s, struct index_out *o, struct fb_error *e)
{
    uint64_t end = o->start + round_up(o->at - o->start + sizeof(struct pack_foot), TAR_BLOCK);
    FB_TRY(put_zeros(o, end - sizeof(struct pack_foot), e));
    struct pack_foot f = {
        .magic = PACK_FOOT_MAGIC, .pack_size = end + PACK_END_BYTES, .index_offset = o->start, .index_length = end - o->start};
    f.head_checksum = checksum_of(&o->head, sizeof(o->head));
    f.foot_checksum = checksum_of(&f, sizeof(f) - sizeof(f.foot_checksum));
    FB_TRY(put_bytes(o, &f, sizeof(f), e));
    FB_TRY(put_zeros(o, f.pack_size, e));
    struct text header = {.limit = 4096};
    pack_put_header(&header, PACK_INDEX_NAME, f.index_length, 0);
    int rc = header.failed ? no_memory(e) : file_write_all_at(s->fd, header.data, header.length, s->position, e);
    text_free(&header);
    return rc < 0 ? rc : ftruncate(s->fd, (off_t)f.pack_size) < 0 ? error_set(e, FB_E_IO, "pack", "cannot cut the pack to its size") : 0;
}

int pack_shard_finish(struct pack_shard *s, const struct catalog *source, struct learnt *learnt, bool is_last, struct fb_error *e)
{
    struct index_out o = {.fd = s->fd, .start = s->position + TAR_BLOCK, .at = s->position + TAR_BLOCK};
    FB_TRY(put_zeros(&o, o.start + sizeof(o.head), e));
    FB_TRY(put_catalog(s, &o, e));
    FB_TRY(put_section(&o, PACK_RECORDS, s->records.data, s->records.length, e));
    FB_TRY(put_names(s, &o, e));
    FB_TRY(put_learnt(s, source, learnt, &o, e));
    FB_TRY(put_head(s, &o, is_last, e));
    FB_TRY(put_end(s, &o, e));
    return file_sync(s->fd, e);
}
