/* Going on after an interruption: the journal says which records were written; each is read back and its checksum compared, and its source
 * must be as it was then. From the first that fails on everything is packed again. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "dataset/pack/pack_index.h"
#include "dataset/tar/tar_reader.h"
#include "jobs/pack/pack_input.h"
#include "jobs/pack/pack_internal.h"

enum { PIECE = 1 << 20 };

static bool is_whole(int fd, const struct pack_entry *entry, char *piece)
{
    struct checksum *sum = checksum_open();
    uint64_t done = 0;
    while (sum && done < entry->length) {
        uint64_t left = entry->length - done;
        size_t got = file_read_all_at(fd, piece, left < PIECE ? (size_t)left : PIECE, entry->start + done);
        if (got == 0)
            break;
        checksum_add(sum, piece, got);
        done += got;
    }
    bool is_right = sum && done == entry->length && checksum_value(sum) == entry->record_checksum;
    checksum_close(sum);
    return is_right;
}

static bool is_source_same(struct packing *p, const struct pack_entry *entry)
{
    struct pack_item item = {.sample = entry->sample};
    struct pack_input in;
    if (entry->sample >= catalog_count(p->dataset.catalog) || catalog_sample(p->dataset.catalog, entry->sample, &item.where, NULL) < 0)
        return false;
    if (pack_input_open(&in, &p->source, &item, NULL) < 0)
        return false;
    pack_input_close(&in);
    return item.source_size == entry->source_length && item.mtime_ns == entry->mtime_ns;
}

static bool is_in_place(const struct packing *p, const struct pack_entry *entry)
{
    const struct pack_shard *s = &p->shard;
    return entry->sample >= p->next && entry->shard == s->number && entry->start == s->position && entry->length >= 2 * TAR_BLOCK &&
           entry->length % TAR_BLOCK == 0 && entry->data_offset > entry->start && entry->data_offset < entry->start + entry->length &&
           entry->data_length <= entry->start + entry->length - entry->data_offset;
}

static int read_file(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    return pack_read_at(*(int *)ctx, offset, out, n, NULL, e);
}

/* The name its member has in the shard, or NULL if that is the key. */
static const char *member_name(struct packing *p, const struct pack_entry *entry, struct tar_reader *r, struct tar_member *m)
{
    const char *key = catalog_key(p->dataset.catalog, entry->sample, NULL);
    tar_open(r, &(struct tar_bytes){read_file, &p->shard.fd, entry->start + entry->length});
    r->at = entry->start;
    if (!key || tar_next(r, m, NULL) != 1)
        return NULL;
    return strcmp(m->name, key) == 0 ? NULL : m->name;
}

static int take_over(struct packing *p, const struct pack_entry *entry, struct fb_error *e)
{
    struct tar_reader r;
    struct tar_member m;
    const char *name = member_name(p, entry, &r, &m);
    int rc = packing_add(p, entry, name, e);
    tar_close(&r);
    p->out->resumed++;
    return rc;
}

/* Returns how many entries hold, or a negative code. */
static int64_t replay(struct packing *p, const struct pack_entry *entries, uint64_t count, struct fb_error *e)
{
    char *piece = malloc(PIECE);
    int rc = piece ? 0 : error_set(e, FB_E_NOMEM, "pack", "no memory to read back what was written");
    uint64_t i = 0;
    for (; rc == 0 && i < count; i++) {
        rc = packing_turn(p, entries[i].length, e);
        if (rc < 0 || !is_in_place(p, &entries[i]) || !is_source_same(p, &entries[i]) || !is_whole(p->shard.fd, &entries[i], piece))
            break;
        rc = take_over(p, &entries[i], e);
        if (rc == 0 && p->q->options.interrupted && p->q->options.interrupted(p->q->options.ctx))
            rc = error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
    }
    free(piece);
    return rc < 0 ? rc : (int64_t)i;
}

int packing_begin(struct packing *p, struct fb_error *e)
{
    struct pack_question question = {.fingerprint = p->out->fingerprint,
                                     .samples = catalog_count(p->dataset.catalog),
                                     .shard_bytes = p->q->shard_bytes,
                                     .skips_bad = p->q->skips_bad,
                                     .shorter = (uint64_t)p->q->shorter,
                                     .quality = (uint64_t)p->q->quality};
    struct pack_entry *entries = NULL;
    uint64_t count = 0;
    int rc = p->q->resumes ? pack_files_resume(&p->files, &question, &entries, &count, e) : 0;
    if (rc == 1) {
        int64_t kept = replay(p, entries, count, e);
        rc = kept < 0 ? (int)kept : pack_files_cut(&p->files, (uint64_t)kept, e);
        free(entries);
        return rc;
    }
    return rc < 0 ? rc : pack_files_start(&p->files, &question, e);
}
