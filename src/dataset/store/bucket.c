/* A prefix of a bucket: like a folder of images, so that both have the same fingerprint. Class = first part of a key below the prefix. As
 * in a folder: where there are no images, sound is looked for, and where there is none either, arrays. A URL that ends like the name of a
 * recording or an array is that one object.
 *
 * Kept listings are trusted for an hour (see store_url.h): a bucket has no directories whose times would tell. Each object is still
 * compared with its listing when it is read. Keys whose name does not say what they are are looked into, many at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "dataset/data_names.h"
#include "dataset/image_names.h"
#include "dataset/folder/skipped_files.h"
#include "dataset/store/store_url.h"

enum { LOOK_AT_ONCE = 256, KEY_MOST = 4096 };

struct s3_source {
    const struct store_ops *ops;
    struct store *store;
    char *single; /* the only object, relative to the root; NULL: all below it */
};

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    (void)st;
    return !r->paths && s3_url_is(r->source);
}

/* "s3://bucket/a/train.npy": the object train.npy of s3://bucket/a. */
static int split_single(struct dataset_job *job, struct s3_source *s, struct fb_error *e)
{
    char *slash = strrchr(job->root, '/');
    if (slash < job->root + strlen("s3://x") || (data_name_family(slash + 1) == FAMILY_IMAGE && !data_name_may_be_array(slash + 1)))
        return 0;
    s->single = strdup(slash + 1);
    *slash = 0;
    return s->single ? 0 : dataset_no_memory(e);
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    struct s3_source *s = calloc(1, sizeof(*s));
    size_t length = strlen(job->request->source);
    job->own = s;
    job->root = strdup(job->request->source);
    if (!s || !job->root)
        return dataset_no_memory(e);
    if (length && job->root[length - 1] != '/')
        FB_TRY(split_single(job, s, e));
    for (size_t n = strlen(job->root); n > strlen("s3://x") && job->root[n - 1] == '/'; n--)
        job->root[n - 1] = 0;
    FB_TRY(s3_url_open(job, job->root, &s->ops, &s->store, e));
    if (asprintf(&job->identity, "%s%s%s", s->ops->name(s->store), s->single ? " " : "", s->single ? s->single : "") < 0) {
        job->identity = NULL;
        return dataset_no_memory(e);
    }
    return s3_url_set_io(job, e);
}

static void release(struct dataset_job *job)
{
    struct s3_source *s = job->own;
    if (s && s->store)
        s->ops->close(s->store);
    if (s)
        free(s->single);
    free(s);
}

static bool is_unchanged(struct dataset_job *job, const struct catalog *kept)
{
    return s3_url_is_young(job, kept);
}

/* ---- objects ---- */

/* An object that is put aside. */
struct aside {
    uint64_t key; /* where it starts in `keys` */
    uint64_t size;
    int64_t mtime_ns;
};

struct heap {
    struct text keys, all; /* all: struct aside each */
};

struct scanning {
    struct dataset_job *job;
    uint64_t seen, images;
    bool has_classes;
    char first[256]; /* image, for the message when others lie elsewhere */
    struct skipped_files left_out;
    uint64_t not_decoded;
    struct heap unsure;   /* must be looked into */
    struct heap other[3]; /* by family: what there is if there are no images */
};

/* As a folder's scan has it; "." and ".." are ordinary parts of a key. */
static bool is_hidden(const char *key)
{
    for (const char *part = key; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL) {
        size_t n = strcspn(part, "/");
        if (part[0] == '.' && n > 1 && !(n == 2 && part[1] == '.'))
            return true;
    }
    return false;
}

static int refuse_mixed(struct scanning *s, const char *key, struct fb_error *e)
{
    char a[100], b[100];
    const char *outside = s->has_classes ? key : s->first, *inside = s->has_classes ? s->first : key;
    error_set(e, FB_E_DATA, "dataset", "some images lie directly below the prefix ('%s'), others in class folders ('%s')",
              text_escape(outside, a, sizeof(a)), text_escape(inside, b, sizeof(b)));
    error_remedy(e, "open the class folders' own prefix");
    error_at(e, s->job->root, -1);
    return FB_E_DATA;
}

static int first_image(struct scanning *s, const char *key, struct fb_error *e)
{
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true};
    snprintf(s->first, sizeof(s->first), "%s", key);
    s->has_classes = strchr(key, '/') != NULL;
    return s->has_classes ? catalog_add_field(s->job->w, &label, e) : 0;
}

static int add_image(struct scanning *s, const char *key, uint64_t size, int64_t mtime_ns, struct fb_error *e)
{
    struct catalog_sample sample = {.key = key, .length = size, .object_size = size, .mtime_ns = mtime_ns};
    const char *slash = strchr(key, '/');
    if (s->images++ == 0)
        FB_TRY(first_image(s, key, e));
    if (s->has_classes != (slash != NULL))
        return refuse_mixed(s, key, e);
    if (!slash)
        return catalog_add_sample(s->job->w, &sample, NULL, e);
    char class[KEY_MOST];
    snprintf(class, sizeof(class), "%.*s", (int)(slash - key), key);
    int64_t label = catalog_add_class(s->job->w, class, e);
    return label < 0 ? (int)label : catalog_add_sample(s->job->w, &sample, (const void *const[]){&label}, e);
}

static int put_aside(struct heap *h, const struct store_object *o, struct fb_error *e)
{
    struct aside u = {h->keys.length, o->size, o->mtime_ns};
    h->keys.limit = h->all.limit = SIZE_MAX / 2;
    text_append(&h->keys, o->key, strlen(o->key) + 1);
    text_append(&h->all, (const char *)&u, sizeof(u));
    return h->keys.failed || h->all.failed ? dataset_no_memory(e) : 0;
}

static void free_heap(struct heap *h)
{
    text_free(&h->keys);
    text_free(&h->all);
}

/* Sound and arrays count for nothing once there is an image. */
static int meet_other(struct scanning *s, const struct store_object *o, const char *name, struct fb_error *e)
{
    enum data_family family = data_name_family(name);
    if (family != FAMILY_IMAGE && !s->images)
        return put_aside(&s->other[family], o, e);
    skipped_files_add_file(&s->left_out, name);
    return 0;
}

static int meet(void *ctx, const struct store_object *o, struct fb_error *e)
{
    struct scanning *s = ctx;
    const char *name = text_last_part(o->key);
    s->seen++;
    FB_TRY(scan_progress_report(&s->job->progress, s->seen, 0, e));
    if (!*name || strlen(o->key) >= KEY_MOST)
        return 0; /* the mark of an empty folder */
    if (is_hidden(o->key)) {
        skipped_files_add(&s->left_out, "hidden");
        return 0;
    }
    enum image_name kind = image_name_kind(name);
    if (kind == IMAGE_NAME_YES)
        return add_image(s, o->key, o->size, o->mtime_ns, e);
    return kind == IMAGE_NAME_NO ? meet_other(s, o, name, e) : put_aside(&s->unsure, o, e);
}

static int wait_on(void *ctx, struct fb_error *e)
{
    struct scanning *s = ctx;
    return s3_url_beat(s->job, s->seen, e);
}

/* ---- those that must be looked into ---- */

static int conclude_unsure(struct scanning *s, const struct aside *u, const struct store_range *r, struct fb_error *e)
{
    const char *key = s->unsure.keys.data + u->key;
    if (r->status == 0 && image_sniff(r->out, r->got))
        return add_image(s, key, u->size, u->mtime_ns, e);
    if (r->status < 0 && r->status != FB_E_NOT_FOUND)
        return r->status; /* `e` has the words */
    s->not_decoded += image_name_kind(text_last_part(key)) == IMAGE_NAME_OTHER;
    skipped_files_add_file(&s->left_out, text_last_part(key));
    return 0;
}

static int look_at_some(struct scanning *s, const struct aside *u, uint32_t count, struct fb_error *e)
{
    struct s3_source *source = s->job->own;
    struct store_range range[LOOK_AT_ONCE];
    uint8_t head[LOOK_AT_ONCE][IMAGE_SNIFF_BYTES];
    struct fb_error why;
    error_clear(&why);
    for (uint32_t i = 0; i < count; i++)
        range[i] = (struct store_range){.key = s->unsure.keys.data + u[i].key, .length = IMAGE_SNIFF_BYTES, .out = head[i]};
    int rc = source->ops->read(source->store, range, count, wait_on, s, &why);
    for (uint32_t i = 0; i < count && rc == 0; i++)
        rc = conclude_unsure(s, &u[i], &range[i], e);
    if (rc < 0 && e && e->code == 0)
        *e = why;
    return rc;
}

static int look_at_unsure(struct scanning *s, struct fb_error *e)
{
    const struct aside *u = (const struct aside *)(const void *)s->unsure.all.data;
    uint64_t count = s->unsure.all.length / sizeof(*u);
    for (uint64_t i = 0; i < count; i += LOOK_AT_ONCE)
        FB_TRY(look_at_some(s, u + i, (uint32_t)(count - i < LOOK_AT_ONCE ? count - i : LOOK_AT_ONCE), e));
    return 0;
}

/* ---- no images: sound, else arrays ---- */

/* Those of the family are samples, or left out. */
static int settle_family(struct scanning *s, enum data_family family, bool is_wanted, struct fb_error *e)
{
    const struct heap *h = &s->other[family];
    const struct aside *u = (const struct aside *)(const void *)h->all.data;
    uint64_t count = h->all.length / sizeof(*u);
    for (uint64_t i = 0; i < count; i++) {
        const char *key = h->keys.data + u[i].key;
        FB_TRY(scan_progress_report(&s->job->progress, s->seen, 0, e));
        if (is_wanted)
            FB_TRY(add_image(s, key, u[i].size, u[i].mtime_ns, e));
        else
            skipped_files_add_file(&s->left_out, text_last_part(key));
    }
    return 0;
}

static int settle_others(struct scanning *s, struct fb_error *e)
{
    FB_TRY(settle_family(s, FAMILY_SOUND, s->images == 0, e));
    return settle_family(s, FAMILY_ARRAY, s->images == 0, e);
}

static int scan_single(struct dataset_job *job, struct fb_error *e)
{
    struct s3_source *source = job->own;
    uint8_t byte;
    struct store_range r = {.key = source->single, .length = 1, .out = &byte};
    struct scanning s = {.job = job};
    FB_TRY(source->ops->read(source->store, &r, 1, wait_on, &s, e));
    if (r.status < 0)
        return r.status;
    struct catalog_sample sample = {.key = source->single, .length = r.object_size, .object_size = r.object_size, .mtime_ns = r.mtime_ns};
    return catalog_add_sample(job->w, &sample, NULL, e);
}

/* ---- what came of it ---- */

static int refuse_empty(struct scanning *s, struct fb_error *e)
{
    char number[32], kinds[256];
    skipped_files_number(s->left_out.total, number, sizeof(number));
    skipped_files_say(&s->left_out, 6, kinds, sizeof(kinds));
    if (s->left_out.total)
        error_set(e, FB_E_DATA, "dataset", "%s object%s, none an image, sound or an array: %s", number, s->left_out.total == 1 ? "" : "s",
                  kinds);
    else
        error_set(e, FB_E_NOT_FOUND, "dataset", "there are no objects below this prefix");
    error_remedy(e, "check the prefix: it is taken as a folder, so 'train' means keys that begin with 'train/'");
    error_at(e, s->job->root, -1);
    return s->left_out.total ? FB_E_DATA : FB_E_NOT_FOUND;
}

static int conclude(struct scanning *s, struct fb_error *e)
{
    return s->images ? skipped_files_conclude(&s->left_out, s->not_decoded, s->job, e) : refuse_empty(s, e);
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    struct s3_source *source = job->own;
    struct scanning s = {.job = job};
    if (source->single)
        return scan_single(job, e);
    int rc = source->ops->list(source->store, meet, wait_on, &s, e);
    if (rc == 0)
        rc = look_at_unsure(&s, e);
    if (rc == 0)
        rc = settle_others(&s, e);
    if (rc == 0)
        rc = conclude(&s, e);
    if (rc < 0)
        error_at(e, job->root, -1);
    free_heap(&s.unsure);
    for (int i = 0; i < 3; i++)
        free_heap(&s.other[i]);
    return rc;
}

const struct dataset_ops dataset_s3 = {.name = "s3",
                                       .has_no_folder = true,
                                       .claims = claims,
                                       .locate = locate,
                                       .is_unchanged = is_unchanged,
                                       .scan = scan,
                                       .release = release};
