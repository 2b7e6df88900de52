#include "dataset/tar/tar_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/text.h"
#include "dataset/image_names.h"
#include "dataset/pack/pack_format.h"

#define MOST_BYTES ((size_t)1 << 40)

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "dataset", "no memory for the members of an archive");
}

void tar_table_init(struct tar_table *t)
{
    memset(t, 0, sizeof(*t));
    t->images.limit = t->keys.limit = t->groups.limit = MOST_BYTES;
}

void tar_table_free(struct tar_table *t)
{
    text_free(&t->images);
    text_free(&t->keys);
    text_free(&t->groups);
    name_table_free(&t->group_names);
}

/* ---- names ---- */

/* A member's name as a key: no "./", no doubled or leading slash. */
static void tidy(const char *name, char *out)
{
    while (*name) {
        while (*name == '/' || (name[0] == '.' && (name[1] == '/' || !name[1])))
            name++;
        const char *slash = strchr(name, '/');
        size_t n = slash ? (size_t)(slash - name) + 1 : strlen(name);
        memcpy(out, name, n);
        out += n;
        name += n;
    }
    *out = 0;
}

/* What a scan of the same folder would leave out: names that begin with a dot, in any part. */
static bool is_hidden(const char *key)
{
    for (const char *part = key; part; part = strchr(part, '/') ? strchr(part, '/') + 1 : NULL)
        if (part[0] == '.' && strncmp(part, "../", 3) != 0)
            return true;
    return false;
}

/* WebDataset's own: "__name__" and all below such a folder. */
static bool is_meta(const char *key)
{
    const char *slash = strchr(key, '/');
    size_t n = slash ? (size_t)(slash - key) : strlen(key);
    return n >= 4 && strncmp(key, "__", 2) == 0 && strncmp(key + n - 2, "__", 2) == 0;
}

/* ---- members ---- */

/* The number of the member's group, made if it is new. */
static int64_t group_of(struct tar_table *t, uint32_t archive, const char *key, const char *dot)
{
    char name[TAR_MAX_LONG_NAME + 32];
    snprintf(name, sizeof(name), "%u:%.*s", archive, (int)(dot - key), key);
    bool is_new;
    int64_t number = name_table_add(&t->group_names, name, &is_new);
    struct tar_group none;
    for (int i = 0; i < SIDE_KINDS; i++)
        none.side[i] = (struct tar_side){0, UINT64_MAX};
    if (number >= 0 && is_new)
        text_append(&t->groups, (const char *)&none, sizeof(none));
    return t->groups.failed ? -1 : number;
}

static int add_image(struct tar_table *t, const struct tar_member *m, uint32_t archive, const char *key, struct fb_error *e)
{
    const char *last = text_last_part(key), *dot = strchr(last, '.');
    int64_t group = group_of(t, archive, key, dot ? dot : key + strlen(key));
    struct tar_image image = {t->keys.length, m->offset, m->size, archive, (uint32_t)group};
    text_append(&t->keys, key, strlen(key) + 1);
    text_append(&t->images, (const char *)&image, sizeof(image));
    return group < 0 || t->keys.failed || t->images.failed ? no_memory(e) : 0;
}

/* 1: it is a label. */
static int add_side(struct tar_table *t, const struct tar_member *m, uint32_t archive, const char *key, struct fb_error *e)
{
    static const char *const extensions[SIDE_KINDS] = {"cls", "json", "txt"};
    const char *dot = strchr(text_last_part(key), '.');
    for (int i = 0; dot && dot > text_last_part(key) && i < SIDE_KINDS; i++) {
        if (strcasecmp(dot + 1, extensions[i]) != 0)
            continue;
        int64_t group = group_of(t, archive, key, dot);
        if (group < 0)
            return no_memory(e);
        ((struct tar_group *)(void *)t->groups.data)[group].side[i] = (struct tar_side){m->offset, m->size};
        t->has_sides = true;
        return 1;
    }
    return 0;
}

static int is_image(struct tar_table *t, struct tar_window *w, const struct tar_member *m, const char *key, struct fb_error *e)
{
    enum image_name kind = image_name_kind(text_last_part(key));
    if (kind == IMAGE_NAME_YES || kind == IMAGE_NAME_NO)
        return kind == IMAGE_NAME_YES;
    uint8_t first[IMAGE_SNIFF_BYTES];
    size_t n = m->size < sizeof(first) ? (size_t)m->size : sizeof(first);
    FB_TRY(tar_window_read(w, m->offset, first, n, e));
    if (image_sniff(first, n))
        return 1;
    t->not_decoded += kind == IMAGE_NAME_OTHER;
    return 0;
}

static int meet_file(struct tar_table *t, struct tar_window *w, const struct tar_member *m, uint32_t archive, const char *key,
                     struct fb_error *e)
{
    int rc = is_image(t, w, m, key, e);
    if (rc == 1)
        return add_image(t, m, archive, key, e);
    if (rc == 0)
        rc = add_side(t, m, archive, key, e);
    if (rc == 0)
        skipped_files_add_file(&t->left_out, text_last_part(key));
    return rc < 0 ? rc : 0;
}

static int meet(struct tar_table *t, struct tar_window *w, const struct tar_member *m, uint32_t archive, struct fb_error *e)
{
    static const char *const kinds[] = {"", "folder", "link", "not a file", "sparse", "not a file"};
    char key[TAR_MAX_LONG_NAME + 2];
    if (m->kind == TAR_FOLDER)
        return 0;
    if (m->kind != TAR_FILE) {
        skipped_files_add(&t->left_out, kinds[m->kind]);
        return 0;
    }
    tidy(m->name, key);
    bool is_usable = key[0] && key[strlen(key) - 1] != '/';
    if (!is_usable || is_hidden(key) || is_meta(key)) {
        if (strcmp(key, PACK_INDEX_NAME) != 0)
            skipped_files_add(&t->left_out, is_usable ? "hidden" : "no usable name");
        return 0;
    }
    return meet_file(t, w, m, archive, key, e);
}

/* ---- one archive ---- */

/* A pack has a foot, which was not found: it is not whole. */
static int refuse_cut_pack(const struct archive *a, struct fb_error *e)
{
    error_set(e, FB_E_DATA, "dataset", "the pack is cut off, or was changed by another program: its index is not at its end");
    error_remedy(e, "fetch it again or pack it anew");
    error_at(e, a->path, (int64_t)a->size);
    return FB_E_DATA;
}

static int walk(struct tar_table *t, struct dataset_job *job, struct tar_window *w, uint32_t number, struct tar_reader *r,
                struct fb_error *e)
{
    struct tar_member m;
    int rc;
    while ((rc = tar_next(r, &m, e)) == 1) {
        FB_TRY(scan_progress_report(&job->progress, tar_table_count(t), 0, e));
        FB_TRY(meet(t, w, &m, number, e));
    }
    return rc;
}

static void warn_end(struct dataset_job *job, struct tar_reader *r, const char *path)
{
    uint64_t more = r->has_end ? tar_leftover(r) : 0;
    if (!r->has_end)
        log_line(&job->request->log, LOG_WARN, "%s has no end mark: it may be cut off between two members", path);
    if (more)
        log_line(&job->request->log, LOG_WARN, "%s continues after its end, at byte %llu; the rest is not read", path,
                 (unsigned long long)more);
}

int tar_table_read(struct tar_table *t, struct dataset_job *job, const struct archive *a, uint32_t number, struct fb_error *e)
{
    struct tar_window w;
    struct tar_reader r;
    FB_TRY(tar_window_open(&w, a, e));
    tar_open(&r, &(struct tar_bytes){tar_window_read, &w, w.size});
    int rc = walk(t, job, &w, number, &r, e);
    if (rc == 0 && r.is_pack && !a->is_pack)
        rc = refuse_cut_pack(a, e);
    if (rc == 0)
        warn_end(job, &r, a->path);
    tar_close(&r);
    tar_window_close(&w);
    if (rc < 0)
        error_at(e, a->path, -1);
    return rc;
}

/* ---- order ---- */

static int by_key(const void *a, const void *b, void *table)
{
    const struct tar_image *x = a, *y = b;
    int key = strcmp(tar_table_key(table, x), tar_table_key(table, y));
    if (key)
        return key;
    if (x->archive != y->archive)
        return x->archive < y->archive ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

int tar_table_sort(struct tar_table *t, struct fb_error *e)
{
    (void)e;
    uint64_t n = tar_table_count(t), kept = 0;
    if (n == 0)
        return 0;
    qsort_r(t->images.data, n, sizeof(struct tar_image), by_key, t);
    for (uint64_t i = 0; i < n; i++) {
        const struct tar_image *image = tar_table_image(t, i), *next = i + 1 < n ? image + 1 : NULL;
        bool is_same = next && strcmp(tar_table_key(t, image), tar_table_key(t, next)) == 0;
        t->has_clashes |= is_same && next->archive != image->archive;
        if (is_same && next->archive == image->archive)
            skipped_files_add(&t->left_out, "replaced");
        else
            *tar_table_image(t, kept++) = *image;
    }
    t->images.length = kept * sizeof(struct tar_image);
    return 0;
}
