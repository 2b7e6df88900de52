/* What is to be staged: the files themselves where everything is wanted, the chosen samples where a part is. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compare.h"
#include "base/text/text.h"
#include "dataset/inner_folder.h"
#include "dataset/store/bucket_mount.h"
#include "dataset/pack/shards.h"
#include "feed/source_io.h"
#include "io/io.h"
#include "jobs/stage/stage_internal.h"
#include "order/subset/subset.h"

int stage_list_add(struct stage_list *l, const char *part, const char *name, const char *object, const struct stage_item *item,
                   struct fb_error *e)
{
    struct stage_item x = *item;
    x.name = l->names.length;
    if (part[0]) {
        text_append(&l->names, part, strlen(part));
        text_append(&l->names, "/", 1);
    }
    x.object = object ? 0 : l->names.length;
    text_append(&l->names, name, strlen(name) + 1);
    if (object) {
        x.object = l->names.length;
        text_append(&l->names, object, strlen(object) + 1);
    }
    text_append(&l->items, (const char *)&x, sizeof(x));
    if (l->names.failed || l->items.failed)
        return error_set(e, FB_E_NOMEM, "stage", "no memory for the list of files");
    l->count++;
    l->bytes += x.size;
    return 0;
}

/* ---- sources ---- */

static int open_io(struct stage_source *s, const struct stage_request *q, struct fb_error *e)
{
    struct log log = {q->log, q->ctx};
    uint32_t depth;
    return source_io_open_for(&s->io, &depth, s->dataset.io, q->io, &log, e);
}

/* A folder whose files are taken as they are. */
static int open_plain(struct stage_list *l, const char *folder, const struct stage_request *q, struct fb_error *e)
{
    struct stage_source *s = &l->source[l->sources++];
    s->dataset.root_fd = -1;
    s->root_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root_fd < 0) {
        int rc = error_set_errno(e, "stage", errno, "open the source");
        error_at(e, folder, -1);
        return rc;
    }
    char *real = realpath(folder, NULL);
    s3_mount_offer(s->root_fd, real ? real : folder, &(struct log){q->log, q->ctx});
    free(real);
    return open_io(s, q, e);
}

static struct dataset_request request_for(const char *source, const struct stage_request *q)
{
    return (struct dataset_request){.source = source,
                                    .catalog_dir = q->catalog_dir,
                                    .progress = q->found,
                                    .interrupted = q->interrupted,
                                    .ctx = q->ctx,
                                    .log = {q->log, q->ctx},
                                    .stores = io_stores};
}

static int open_samples(struct stage_list *l, const char *source, const struct stage_request *q, struct fb_error *e)
{
    struct stage_source *s = &l->source[l->sources++];
    struct dataset_request r = request_for(source, q);
    s->root_fd = -1;
    FB_TRY(dataset_open(&s->dataset, &r, e));
    FB_TRY(dataset_refuse_files(&s->dataset, "stage", e));
    return open_io(s, q, e);
}

static int dir_of(const struct stage_source *s)
{
    return s->root_fd >= 0 ? s->root_fd : s->dataset.root_fd;
}

void stage_list_free(struct stage_list *l)
{
    for (int i = 0; i < l->sources; i++) {
        struct stage_source *s = &l->source[i];
        if (s->io)
            s->io->ops->close(s->io, 100000000);
        if (s->root_fd >= 0)
            close(s->root_fd);
        dataset_close(&s->dataset);
    }
    stage_keys_free(&l->keys);
    text_free(&l->names);
    text_free(&l->items);
}

/* ---- samples ---- */

/* Which classes have a sample in the part; is_met has one byte for each of the catalog's, or is NULL. */
static int meet_class(const struct catalog *c, uint64_t i, uint8_t *is_met, struct fb_error *e)
{
    int field = catalog_class_field(c);
    if (field < 0 || !is_met)
        return 0;
    int64_t label;
    const void *value = catalog_value(c, i, field, e);
    if (!value)
        return FB_E_DATA;
    memcpy(&label, value, sizeof(label));
    if (label >= 0 && label < catalog_class_count(c))
        is_met[label] = 1;
    return 0;
}

static int lost_classes(const struct catalog *c, const uint8_t *is_met)
{
    int lost = 0;
    for (int i = 0; is_met && i < catalog_class_count(c); i++)
        lost += !is_met[i];
    return lost;
}

static int add_sample(struct stage_list *l, const char *part, uint64_t i, uint8_t *is_met, struct fb_error *e)
{
    uint32_t source = (uint32_t)l->sources - 1;
    struct catalog_sample s;
    FB_TRY(catalog_sample(l->source[source].dataset.catalog, i, &s, e));
    FB_TRY(meet_class(l->source[source].dataset.catalog, i, is_met, e));
    bool is_whole = s.offset == 0 && s.length == s.object_size;
    struct stage_item item = {.offset = s.offset,
                              .length = is_whole ? IO_WHOLE : s.length,
                              .size = s.length,
                              .object_size = s.object_size,
                              .mtime_ns = s.mtime_ns,
                              .source = source};
    return stage_list_add(l, part, s.key, strcmp(s.key, s.object) == 0 ? NULL : s.object, &item, e);
}

static int add_chosen(struct stage_list *l, const struct stage_request *q, struct stage_part *p, struct fb_error *e)
{
    const struct catalog *c = l->source[l->sources - 1].dataset.catalog;
    struct subset_request r = {.classes = q->classes,
                               .class_count = q->class_count,
                               .class_seed = q->class_seed,
                               .per_class = q->per_class,
                               .fraction = q->fraction};
    struct subset s = {0};
    int rc = subset_choose(&s, c, &r, e);
    /* chosen classes are numbered anew by a loader of the source, too */
    uint8_t *is_met = s.class_new ? NULL : calloc((size_t)catalog_class_count(c) + 1, 1);
    for (uint64_t i = 0; rc == 0 && i < s.count; i++)
        rc = add_sample(l, p->name, s.sample ? s.sample[i] : i, is_met, e);
    p->samples = s.count;
    p->classes = s.class_count;
    p->lost_classes = lost_classes(c, is_met);
    p->fingerprint = s.fingerprint;
    free(is_met);
    subset_free(&s);
    return rc;
}

/* ---- by key ---- */

static int find_key(const struct catalog *c, const char *key, uint64_t *at, struct fb_error *e)
{
    uint64_t low = 0, high = catalog_count(c);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const char *k = catalog_key(c, middle, e);
        if (!k)
            return FB_E_DATA;
        int order = strcmp(k, key);
        if (order == 0) {
            *at = middle;
            return 1;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static int missing_key(const char *key, const struct stage_request *q, struct fb_error *e)
{
    char shown[300];
    error_set(e, FB_E_NOT_FOUND, "stage", "there is no sample '%s' in the source", text_escape(key, shown, sizeof(shown)));
    error_remedy(e, "keys are paths relative to the source, one per line, as Batch.sample_keys has them");
    error_at(e, q->keys, -1);
    return FB_E_NOT_FOUND;
}

static int add_keys(struct stage_list *l, const struct stage_request *q, struct stage_part *p, struct fb_error *e)
{
    const struct catalog *c = l->source[l->sources - 1].dataset.catalog;
    uint8_t *is_met = calloc((size_t)catalog_class_count(c) + 1, 1);
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < l->keys.count; i++) {
        const char *key = stage_keys_take(&l->keys, i, p->name);
        uint64_t at;
        if (!key)
            continue;
        rc = find_key(c, key, &at, e);
        rc = rc == 1 ? add_sample(l, p->name, at, is_met, e) : rc == 0 ? missing_key(l->keys.key[i], q, e) : rc;
        p->samples += rc == 0;
    }
    p->classes = catalog_class_count(c);
    p->lost_classes = lost_classes(c, is_met);
    free(is_met);
    return rc;
}

/* ---- what kind of source ---- */

static bool has_choice(const struct stage_request *q)
{
    return q->classes || q->class_count || q->per_class || q->fraction < 1 || q->keys;
}

static const char *extension(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot ? dot : "";
}

static bool is_manifest(const char *path)
{
    const char *x = extension(path);
    return strcmp(x, ".csv") == 0 || strcmp(x, ".tsv") == 0 || strcmp(x, ".jsonl") == 0;
}

static struct stage_part *new_part(struct stage_result *out, const char *name)
{
    struct stage_part *p = &out->part[out->parts++];
    snprintf(p->name, sizeof(p->name), "%s", name);
    return p;
}

/* One file as it is, under its own name. The first one's folder is the source; files of others are read by their whole path. */
static int add_file(struct stage_list *l, const char *path, const struct stage_request *q, struct fb_error *e)
{
    struct stat st;
    char *real = realpath(path, NULL), *copy = strdup(path);
    const char *name = text_last_part(path);
    int rc = !copy ? error_set(e, FB_E_NOMEM, "stage", "no memory") : real ? 0 : error_set_errno(e, "stage", errno, "look at the file");
    if (rc == 0 && l->sources == 0)
        rc = open_plain(l, dirname(copy), q, e);
    if (rc == 0 && stat(real, &st) < 0)
        rc = error_set_errno(e, "stage", errno, "look at the file");
    if (rc == 0) {
        struct stage_item item = {.length = IO_WHOLE,
                                  .size = (uint64_t)st.st_size,
                                  .object_size = (uint64_t)st.st_size,
                                  .mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec};
        rc = stage_list_add(l, "", name, real, &item, e);
    }
    if (rc < 0)
        error_at(e, path, -1);
    free(real);
    free(copy);
    return rc;
}

/* Packs of several folders come into one. */
static int refuse_same_names(const struct stage_list *l, struct fb_error *e)
{
    const char **name = calloc(l->count + 1, sizeof(*name));
    int rc = name ? 0 : error_set(e, FB_E_NOMEM, "stage", "no memory");
    for (uint64_t i = 0; name && i < l->count; i++)
        name[i] = stage_name(l, stage_item(l, i)->name);
    if (name)
        qsort(name, l->count, sizeof(*name), compare_text);
    for (uint64_t i = 1; rc == 0 && i < l->count; i++)
        if (strcmp(name[i - 1], name[i]) == 0) {
            rc = error_set(e, FB_E_USAGE, "stage", "two of the files have the same name, but the copy is one folder");
            error_remedy(e, "stage them one by one, into folders of their own");
            error_at(e, name[i], -1);
        }
    free(name);
    return rc;
}

static int list_files(struct stage_list *l, const char *const *path, uint32_t count, const struct stage_request *q,
                      struct stage_result *out, struct fb_error *e)
{
    new_part(out, "");
    for (uint32_t i = 0; i < count; i++)
        FB_TRY(add_file(l, path[i], q, e));
    return refuse_same_names(l, e);
}

static int list_samples(struct stage_list *l, const char *source, const char *name, const struct stage_request *q, struct stage_result *out,
                        struct fb_error *e)
{
    struct stage_part *p = new_part(out, name);
    uint64_t files = l->count, bytes = l->bytes;
    FB_TRY(open_samples(l, source, q, e));
    FB_TRY(q->keys ? add_keys(l, q, p, e) : add_chosen(l, q, p, e));
    p->files = l->count - files;
    p->bytes = l->bytes - bytes;
    return 0;
}

/* train/ and val/ beside each other, in a folder or a bucket: each by itself. */
static int list_parts(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    static const char *const names[] = {"train", "val", "valid", "validation", "test"};
    struct dataset_request r = request_for(q->source, q);
    for (int i = 0; i < 5; i++) {
        char *inner;
        int rc = inner_find(&r, names[i], &inner, e);
        if (rc == 0 && i == 0)
            return list_samples(l, q->source, "", q, out, e);
        rc = rc == 1 ? list_samples(l, inner, names[i], q, out, e) : rc;
        free(inner);
        FB_TRY(rc);
    }
    const char *left = stage_keys_left(&l->keys);
    return left ? missing_key(left, q, e) : 0;
}

static int list_manifest(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    if (has_choice(q)) {
        error_set(e, FB_E_UNSUPPORTED, "stage", "a part of a manifest cannot be staged: the copy would list files that are not there");
        error_remedy(e, "write a manifest of the part, or pack it");
        return FB_E_UNSUPPORTED;
    }
    FB_TRY(add_file(l, q->source, q, e));
    return list_samples(l, q->source, "", q, out, e);
}

static int list_all_files(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    new_part(out, "");
    FB_TRY(open_plain(l, q->source, q, e));
    return stage_walk(l, 0, "", q, e);
}

static int list_shards(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    struct shards s = {0};
    FB_TRY(shards_expand(&s, q->source, e));
    int rc = list_files(l, (const char *const *)s.path, s.count, q, out, e);
    shards_free(&s);
    return rc;
}

static int list_by_kind(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    struct stat st;
    bool is_there = stat(q->source, &st) == 0;
    if (strstr(q->source, "://"))
        return has_choice(q) ? list_parts(l, q, out, e) : list_samples(l, q->source, "", q, out, e);
    if (is_there && S_ISDIR(st.st_mode))
        return has_choice(q) ? list_parts(l, q, out, e) : list_all_files(l, q, out, e);
    if (is_there && is_manifest(q->source))
        return list_manifest(l, q, out, e);
    if (is_there && S_ISREG(st.st_mode) && !has_choice(q))
        return list_files(l, &q->source, 1, q, out, e);
    if (!is_there && shards_is_several(q->source) && !has_choice(q) && strcmp(extension(q->source), ".tar") == 0)
        return list_shards(l, q, out, e);
    return list_samples(l, q->source, "", q, out, e);
}

int stage_list_make(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    *l = (struct stage_list){.names = {.limit = SIZE_MAX / 2}, .items = {.limit = SIZE_MAX / 2}};
    if (q->keys)
        FB_TRY(stage_keys_open(&l->keys, q->keys, e));
    FB_TRY(list_by_kind(l, q, out, e));
    if (out->parts == 1) {
        out->part[0].files = l->count;
        out->part[0].bytes = l->bytes;
    }
    if (l->count == 0) {
        error_set(e, FB_E_NOT_FOUND, "stage", "there is nothing to stage");
        error_at(e, q->source, -1);
        return FB_E_NOT_FOUND;
    }
    for (int i = 0; i < l->sources; i++)
        l->source[i].root_fd = l->source[i].root_fd >= 0 ? l->source[i].root_fd : fcntl(dir_of(&l->source[i]), F_DUPFD_CLOEXEC, 3);
    return 0;
}
