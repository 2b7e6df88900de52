#include "dataset/pack/pack_merge.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int open_with_head(const struct archive *a, struct pack_head *head, struct catalog **out, struct fb_error *e)
{
    struct pack_index x;
    *out = NULL;
    int fd = open(archive_place(a), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rc = fd < 0 ? error_set_errno(e, "dataset", errno, "open the pack") : pack_index_open(&x, fd, a->size, a->path, e);
    if (rc == 0)
        rc = error_set(e, FB_E_DATA, "dataset", "the pack was changed while it was opened");
    if (rc == 1)
        rc = pack_index_catalog(&x, fd, a->mtime_ns, a->object, a->path, out, e);
    if (fd >= 0)
        close(fd);
    if (rc < 0)
        error_at(e, a->path, -1);
    else if (head)
        *head = x.head;
    return rc;
}

int pack_open_catalog(const struct archive *a, struct catalog **out, struct fb_error *e)
{
    return open_with_head(a, NULL, out, e);
}

/* ---- several ---- */

static bool is_same_field(const struct catalog_field *a, const struct catalog_field *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype && a->ndim == b->ndim && (a->ndim == 0 || a->shape[0] == b->shape[0]) &&
           a->is_class == b->is_class;
}

static int check_fields(const struct catalog *c, const struct catalog *first, const struct archive *a, struct fb_error *e)
{
    bool is_same = catalog_field_count(c) == catalog_field_count(first);
    for (int i = 0; is_same && i < catalog_field_count(c); i++)
        is_same = is_same_field(catalog_field(c, i), catalog_field(first, i));
    if (is_same)
        return 0;
    error_set(e, FB_E_DATA, "dataset", "the pack has other label fields than the first one, so they do not belong together");
    error_at(e, a->path, -1);
    return FB_E_DATA;
}

static int add_sample(struct dataset_job *job, const struct catalog *c, uint64_t i, struct fb_error *e)
{
    const void *values[FB_MAX_FIELDS];
    int64_t label;
    struct catalog_sample s;
    FB_TRY(catalog_sample(c, i, &s, e));
    for (int f = 0; f < catalog_field_count(c); f++) {
        values[f] = catalog_value(c, i, f, e);
        if (!values[f])
            return FB_E_DATA;
        if (f != catalog_class_field(c))
            continue;
        memcpy(&label, values[f], sizeof(label)); /* classes are numbered anew: not every shard has every class */
        FB_TRY((int)(label = catalog_add_class(job->w, catalog_class_name(c, (int)label), e)));
        values[f] = &label;
    }
    return catalog_add_sample(job->w, &s, values, e);
}

static int add_pack(struct dataset_job *job, const struct catalog *c, struct fb_error *e)
{
    for (uint64_t i = 0; i < catalog_count(c); i++) {
        FB_TRY(scan_progress_report(&job->progress, i, catalog_count(c), e));
        FB_TRY(add_sample(job, c, i, e));
    }
    return 0;
}

static int merge_one(struct dataset_job *job, const struct archive *a, const struct catalog *first, struct pack_head *head,
                     struct fb_error *e)
{
    struct catalog *c;
    FB_TRY(open_with_head(a, head, &c, e));
    int rc = check_fields(c, first, a, e);
    if (rc == 0)
        rc = add_pack(job, c, e);
    catalog_close(c);
    return rc;
}

int pack_merge(struct dataset_job *job, const struct archive *packs, uint32_t count, struct fb_error *e)
{
    struct catalog *first;
    struct pack_head head = {0};
    bool has_last = false;
    FB_TRY(pack_open_catalog(&packs[0], &first, e));
    int rc = catalog_add_fields_of(job->w, first, e);
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = merge_one(job, &packs[i], first, &head, e);
        has_last |= head.is_last_shard;
    }
    catalog_close(first);
    if (rc == 0 && !has_last)
        log_line(&job->request->log, LOG_WARN, "the last shard of the set is not among the %u given: samples may be missing", count);
    return rc;
}
