/* Going on with decoded pictures after an interruption: the journal says which rows were written. Each is read back and its checksum
 * compared, and its picture must be as the catalog of that run had it. From the first that fails on, rounded down to a whole batch,
 * everything is decoded again: rows of one batch were decoded together. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "jobs/decode/decode_internal.h"

int decode_note(struct decoding *d, uint64_t sample, const void *row, struct fb_error *e)
{
    struct catalog_sample s;
    FB_TRY(catalog_sample(d->dataset.catalog, sample, &s, e));
    struct pack_entry entry = {
        .sample = sample,
        .start = decode_row_at(d, d->rows),
        .length = d->row_bytes,
        .source_length = s.object_size,
        .mtime_ns = s.mtime_ns,
        .checksum = checksum_of(row, d->row_bytes),
    };
    return pack_files_note(&d->files, &entry, e);
}

static bool is_whole(const struct decoding *d, const struct pack_entry *entry, char *row)
{
    return file_read_all_at(d->fd, row, d->row_bytes, entry->start) == d->row_bytes && checksum_of(row, d->row_bytes) == entry->checksum;
}

/* A catalog that is still in use may be older than the file; an object of a store is looked at when the catalog is opened. */
static bool is_source_same(const struct decoding *d, const struct pack_entry *entry)
{
    struct catalog_sample s;
    struct stat st;
    if (entry->sample >= catalog_count(d->dataset.catalog) || catalog_sample(d->dataset.catalog, entry->sample, &s, NULL) < 0)
        return false;
    if (s.object_size != entry->source_length || s.mtime_ns != entry->mtime_ns)
        return false;
    if (d->dataset.root_fd < 0)
        return true;
    return fstatat(d->dataset.root_fd, s.object, &st, 0) == 0 && (uint64_t)st.st_size == s.object_size &&
           (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec == s.mtime_ns;
}

/* Returns how many entries hold, or a negative code. */
static int64_t find_whole(struct decoding *d, const struct pack_entry *entries, uint64_t count, struct fb_error *e)
{
    char *row = malloc(d->row_bytes);
    const fb_options *o = &d->q->options;
    uint64_t i = 0, next = 0;
    if (!row)
        return error_set(e, FB_E_NOMEM, "pack", "no memory to read back what was written");
    for (; i < count; i++) {
        const struct pack_entry *entry = &entries[i];
        if (entry->sample < next || entry->start != decode_row_at(d, i) || entry->length != d->row_bytes || !is_source_same(d, entry) ||
            !is_whole(d, entry, row))
            break;
        next = entry->sample + 1;
        if (o->interrupted && o->interrupted(o->ctx)) {
            free(row);
            return error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
        }
    }
    free(row);
    return (int64_t)i;
}

/* The rows of whole batches: the last one may lack some of its rows. */
static int take_over(struct decoding *d, const struct pack_entry *entries, uint64_t count, struct fb_error *e)
{
    uint64_t reached = count ? entries[count - 1].sample + 1 : 0, i = 0;
    d->next = reached / DECODE_BATCH * DECODE_BATCH;
    for (uint64_t sample = 0; sample < d->next; sample++) {
        if (entries[i].sample != sample) { /* the last one reaches as far as `next` */
            FB_TRY(decode_leave_out(d, sample, e));
            continue;
        }
        FB_TRY(decode_table_add(d, sample, e));
        d->out->resumed++;
        i++;
    }
    return 0;
}

static int go_on(struct decoding *d, const struct pack_entry *entries, uint64_t count, struct fb_error *e)
{
    int64_t whole = find_whole(d, entries, count, e);
    if (whole < 0)
        return (int)whole;
    FB_TRY(take_over(d, entries, (uint64_t)whole, e));
    return pack_files_cut(&d->files, d->rows, e);
}

int decode_begin(struct decoding *d, struct fb_error *e)
{
    struct pack_question question = {.fingerprint = d->out->fingerprint,
                                     .samples = catalog_count(d->dataset.catalog),
                                     .skips_bad = d->q->skips_bad,
                                     .height = d->q->height,
                                     .width = d->q->width,
                                     .fit = (uint64_t)d->q->fit};
    struct pack_entry *entries = NULL;
    uint64_t count = 0;
    int found = d->q->resumes ? pack_files_resume(&d->files, &question, &entries, &count, e) : 0;
    int rc = found < 0 ? found : found ? 0 : pack_files_start(&d->files, &question, e);
    if (rc == 0)
        rc = d->fd = pack_files_shard(&d->files, 0, e);
    if (rc >= 0)
        rc = found ? go_on(d, entries, count, e) : 0;
    free(entries);
    return rc;
}
