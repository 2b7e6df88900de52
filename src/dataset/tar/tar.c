/* Tar archives: packs, WebDataset shards, and any tar with images in it; one, or several by a name with braces or wildcards.
 *
 * A single pack is opened by its own index and needs no kept catalog. Everything else is walked once, from header to header, and its
 * catalog kept; it is trusted while every archive has the size and time it had then. Keys are the names of the image members (of packs: the
 * paths they were packed from), so that a folder and the archive of it are the same data set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "dataset/catalog_keep.h"
#include "dataset/location.h"
#include "dataset/pack/pack_learnt.h"
#include "dataset/pack/pack_merge.h"
#include "dataset/pack/shards.h"
#include "dataset/tar/tar_compressed.h"
#include "dataset/tar/tar_labels.h"

struct tar_source {
    struct archive *archive;
    uint32_t count;
    bool is_all_packs;
};

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    if (r->paths || !r->source || !shards_is_name(r->source))
        return false;
    return st ? S_ISREG(st->st_mode) : shards_is_several(r->source);
}

/* ---- which archives ---- */

static int failed_at(const char *path, struct fb_error *e, int rc)
{
    error_at(e, path, -1);
    return rc;
}

static int refuse_compressed(const char *path, enum tar_squeeze how, struct fb_error *e)
{
    error_set(e, FB_E_UNSUPPORTED, "dataset", "the archive is compressed with %s, so its samples cannot be read in any order",
              tar_squeeze_name(how));
    error_remedy(e, "unpack it into a plain .tar: images are compressed already, it will hardly grow");
    return failed_at(path, e, FB_E_UNSUPPORTED);
}

static int open_archive(const char *path, struct stat *st, struct fb_error *e)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ENOENT)
        return location_missing(path, e);
    int rc = fd < 0 || fstat(fd, st) < 0 ? error_set_errno(e, "dataset", errno, "open the archive")
             : !S_ISREG(st->st_mode)     ? error_set(e, FB_E_DATA, "dataset", "it is not a file")
                                         : 0;
    if (rc == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return failed_at(path, e, rc);
}

/* A compressed archive is replaced by its plain form: another descriptor, and a place of its own. */
static int unpack(struct dataset_job *job, struct archive *a, int fd, struct stat *st, struct fb_error *e)
{
    uint8_t first[8];
    enum tar_squeeze how = tar_squeeze_of(first, file_read_all_at(fd, first, sizeof(first), 0));
    if (how == TAR_PLAIN)
        return fd;
    int rc =
        how == TAR_GZIP || how == TAR_ZSTD ? tar_squeezed_unpack(job, fd, a->path, how, &a->place, e) : refuse_compressed(a->path, how, e);
    close(fd);
    if (rc < 0)
        return failed_at(a->path, e, rc);
    free(a->object);
    a->object = strdup(a->place);
    return a->object ? open_archive(a->place, st, e) : dataset_no_memory(e);
}

static int look_at_index(struct archive *a, int fd, struct fb_error *e)
{
    struct pack_index x;
    int rc = pack_index_open(&x, fd, a->size, a->path, e);
    a->is_pack = rc == 1;
    if (rc == 1)
        rc = pack_index_belongs(&x, fd, a->path, e);
    return rc < 0 ? rc : 0;
}

/* Fills size, time and whether it is a pack. */
static int look_at(struct dataset_job *job, struct archive *a, struct fb_error *e)
{
    struct stat st;
    int fd = open_archive(a->path, &st, e);
    if (fd >= 0)
        fd = unpack(job, a, fd, &st, e);
    if (fd < 0)
        return fd;
    a->size = (uint64_t)st.st_size;
    a->mtime_ns = keep_mtime_ns(&st);
    int rc = look_at_index(a, fd, e);
    close(fd);
    return rc;
}

/* Archives beside the first are named by their last part; others by their whole path. */
static int name_archive(struct dataset_job *job, struct archive *a, const char *path, struct fb_error *e)
{
    FB_TRY(location_canonical(path, &a->path, e));
    const char *slash = strrchr(a->path, '/');
    size_t n = slash == a->path ? 1 : (size_t)(slash - a->path);
    if (!job->root && !(job->root = strndup(a->path, n)))
        return dataset_no_memory(e);
    bool is_beside = strlen(job->root) == n && strncmp(job->root, a->path, n) == 0;
    a->object = strdup(is_beside ? slash + 1 : a->path);
    return a->object ? 0 : dataset_no_memory(e);
}

static int locate_all(struct dataset_job *job, struct tar_source *s, const struct shards *names, struct fb_error *e)
{
    s->archive = calloc(names->count, sizeof(*s->archive));
    if (!s->archive)
        return dataset_no_memory(e);
    s->is_all_packs = true;
    for (uint32_t i = 0; i < names->count; i++) {
        s->count++;
        FB_TRY(name_archive(job, &s->archive[i], names->path[i], e));
        FB_TRY(look_at(job, &s->archive[i], e));
        s->is_all_packs &= s->archive[i].is_pack;
    }
    const char *last = strrchr(job->request->source, '/');
    int n = s->count == 1 ? asprintf(&job->identity, "%s", s->archive[0].path)
                          : asprintf(&job->identity, "%s/%s (%u archives)", job->root, last ? last + 1 : job->request->source, s->count);
    if (n < 0)
        job->identity = NULL;
    return n < 0 ? dataset_no_memory(e) : 0;
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    struct stat st;
    struct shards names = {0};
    job->own = calloc(1, sizeof(struct tar_source));
    if (!job->own)
        return dataset_no_memory(e);
    bool is_file = stat(job->request->source, &st) == 0; /* a name with braces that exists is taken as it is */
    int rc = is_file ? 0 : shards_expand(&names, job->request->source, e);
    char *one[1] = {(char *)job->request->source};
    if (rc == 0)
        rc = locate_all(job, job->own, is_file ? &(struct shards){one, 1, 1} : &names, e);
    shards_free(&names);
    return failed_at(job->request->source, e, rc);
}

static void release(struct dataset_job *job)
{
    struct tar_source *s = job->own;
    for (uint32_t i = 0; s && i < s->count; i++) {
        free(s->archive[i].path);
        free(s->archive[i].object);
        free(s->archive[i].place);
    }
    free(s ? s->archive : NULL);
    free(s);
}

/* ---- kept catalogs ---- */

/* A hash over what must not change. */
static int describe(const struct tar_source *s, char *out, size_t out_size)
{
    struct checksum *sum = checksum_open();
    if (!sum)
        return -1;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct archive *a = &s->archive[i];
        checksum_add(sum, a->path, strlen(a->path) + 1);
        checksum_add(sum, &a->size, sizeof(a->size));
        checksum_add(sum, &a->mtime_ns, sizeof(a->mtime_ns));
    }
    snprintf(out, out_size, "%u archives, %016llx", s->count, (unsigned long long)checksum_value(sum));
    checksum_close(sum);
    return 0;
}

static bool is_unchanged(struct dataset_job *job, const struct catalog *kept)
{
    const struct tar_source *s = job->own;
    const char *then = catalog_note(kept, "archives");
    char now[64];
    if (!then || describe(s, now, sizeof(now)) < 0 || strcmp(then, now) != 0)
        return false;
    for (uint32_t i = 0; i < s->count; i++)
        if (s->archive[i].mtime_ns > catalog_made_ns(kept) - KEEP_SLACK_NS)
            return false;
    return true;
}

/* ---- packs ---- */

static int open_pack(struct dataset_job *job, struct catalog **out, struct fb_error *e)
{
    const struct tar_source *s = job->own;
    if (s->count != 1 || !s->is_all_packs)
        return 0;
    FB_TRY(pack_open_catalog(&s->archive[0], out, e));
    char *learnt_dir = keep_learnt_dir(job, "tar");
    if (learnt_dir)
        pack_learnt_import(&s->archive[0], *out, learnt_dir, &job->request->log);
    free(learnt_dir);
    return 1;
}

/* ---- samples ---- */

static int refuse_empty(struct dataset_job *job, struct tar_table *t, struct fb_error *e)
{
    char number[32], kinds[256];
    skipped_files_number(t->left_out.total, number, sizeof(number));
    skipped_files_say(&t->left_out, 6, kinds, sizeof(kinds));
    if (t->left_out.total)
        error_set(e, FB_E_DATA, "dataset", "%s member%s, none an image: %s", number, t->left_out.total == 1 ? "" : "s", kinds);
    else
        error_set(e, FB_E_DATA, "dataset", "the archive holds no images");
    error_remedy(e, "JPEG, PNG and WebP files are images, whatever their extension");
    return failed_at(job->request->source, e, FB_E_DATA);
}

/* 1: every image lies in a folder. 0: none does. */
static int find_classes(struct dataset_job *job, const struct tar_table *t, struct fb_error *e)
{
    const char *inside = NULL, *outside = NULL;
    for (uint64_t i = 0; i < tar_table_count(t) && !(inside && outside); i++) {
        const char *key = tar_table_key(t, tar_table_image(t, i));
        if (strchr(key, '/'))
            inside = key;
        else
            outside = key;
    }
    if (!inside || !outside)
        return inside != NULL;
    char a[100], b[100];
    error_set(e, FB_E_DATA, "dataset", "some images lie in no folder ('%s'), others in class folders ('%s')",
              text_escape(outside, a, sizeof(a)), text_escape(inside, b, sizeof(b)));
    error_remedy(e, "put all of them into class folders, or labels beside them (.cls)");
    return failed_at(job->request->source, e, FB_E_DATA);
}

struct adding {
    struct dataset_job *job;
    const struct archive *archives;
    struct tar_table *table;
    struct tar_labels *labels;
    bool has_classes;
    struct text key;
};

static int add_fields(struct adding *a, struct fb_error *e)
{
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true};
    if (a->has_classes)
        return catalog_add_field(a->job->w, &label, e);
    for (int i = 0; i < a->labels->count; i++)
        FB_TRY(catalog_add_field(a->job->w, &a->labels->column[i].field, e));
    return 0;
}

static int add_image(struct adding *a, const struct tar_image *image, struct fb_error *e)
{
    const struct archive *from = &a->archives[image->archive];
    const char *key = tar_table_key(a->table, image);
    a->key.length = 0;
    if (a->table->has_clashes)
        text_printf(&a->key, "%s/%s", strrchr(from->path, '/') + 1, key);
    else
        text_append(&a->key, key, strlen(key));
    if (a->key.failed)
        return dataset_no_memory(e);
    struct catalog_sample sample = {a->key.data, from->object, image->offset, image->size, from->size, from->mtime_ns};
    if (!a->has_classes) {
        FB_TRY(a->labels->count ? tar_labels_read(a->labels, image, a->job->w, e) : 0);
        return catalog_add_sample(a->job->w, &sample, a->labels->value, e);
    }
    char class[4096];
    snprintf(class, sizeof(class), "%.*s", (int)(strchr(key, '/') - key), key);
    int64_t label = catalog_add_class(a->job->w, class, e);
    return label < 0 ? (int)label : catalog_add_sample(a->job->w, &sample, (const void *const[]){&label}, e);
}

static int add_all(struct adding *a, struct fb_error *e)
{
    FB_TRY(tar_labels_choose(a->labels, a->job, e));
    if (a->labels->count == 0) {
        int rc = find_classes(a->job, a->table, e);
        if (rc < 0)
            return rc;
        a->has_classes = rc == 1;
    }
    FB_TRY(add_fields(a, e));
    uint64_t n = tar_table_count(a->table);
    for (uint64_t i = 0; i < n; i++) {
        FB_TRY(scan_progress_report(&a->job->progress, i, n, e));
        FB_TRY(add_image(a, tar_table_image(a->table, i), e));
    }
    return 0;
}

static int add_table(struct dataset_job *job, const struct archive *archives, uint32_t count, struct tar_table *t, struct fb_error *e)
{
    for (uint32_t i = 0; i < count; i++)
        FB_TRY(tar_table_read(t, job, &archives[i], i, e));
    FB_TRY(tar_table_sort(t, e));
    if (tar_table_count(t) == 0)
        return refuse_empty(job, t, e);
    struct tar_labels *labels = malloc(sizeof(*labels));
    if (!labels)
        return dataset_no_memory(e);
    tar_labels_init(labels, t, archives);
    struct adding a = {.job = job, .archives = archives, .table = t, .labels = labels, .key = {.limit = 1 << 20}};
    int rc = add_all(&a, e);
    text_free(&a.key);
    tar_labels_free(labels);
    free(labels);
    return rc;
}

int tar_add_samples(struct dataset_job *job, const struct archive *archives, uint32_t count, struct fb_error *e)
{
    struct tar_table *t = malloc(sizeof(*t));
    if (!t)
        return dataset_no_memory(e);
    tar_table_init(t);
    int rc = add_table(job, archives, count, t, e);
    if (rc == 0)
        rc = skipped_files_conclude(&t->left_out, 0, job, e);
    tar_table_free(t);
    free(t);
    return rc;
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    const struct tar_source *s = job->own;
    char what[64];
    if (describe(s, what, sizeof(what)) < 0)
        return dataset_no_memory(e);
    FB_TRY(s->is_all_packs ? pack_merge(job, s->archive, s->count, e) : tar_add_samples(job, s->archive, s->count, e));
    return catalog_add_note(job->w, "archives", what, e);
}

const struct dataset_ops dataset_tar = {
    .name = "tar", .claims = claims, .locate = locate, .open = open_pack, .is_unchanged = is_unchanged, .scan = scan, .release = release};
