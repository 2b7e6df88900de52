#include "dataset/manifest/path_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "dataset/catalog_keep.h"
#include "dataset/folder/skipped_files.h"
#include "dataset/location.h"
#include "model/catalog/catalog_save.h"

enum { NAMED = 3 };

void path_table_start(struct path_table *l, struct dataset_job *job, const char *place_word)
{
    *l = (struct path_table){.job = job, .place_word = place_word};
    l->path.limit = l->dir.limit = 1 << 20;
    l->places.limit = (size_t)1 << 40;
}

void path_table_end(struct path_table *l)
{
    text_free(&l->places);
    text_free(&l->path);
    text_free(&l->dir);
    name_table_free(&l->dirs);
}

static void remember_missing(struct path_table *l, const char *path, uint64_t place, const char *why)
{
    if (l->missing++ >= NAMED)
        return;
    char shown[80];
    size_t used = strlen(l->first_missing);
    snprintf(l->first_missing + used, sizeof(l->first_missing) - used, "%s%s (%s %llu%s)", used ? ", " : "",
             text_escape(path, shown, sizeof(shown)), l->place_word, (unsigned long long)place, why);
}

/* A directory enters with the mtime it had when first met: what happens in it afterwards is a change. */
static int note_dir(struct path_table *l, struct fb_error *e)
{
    const char *slash = strrchr(l->path.data, '/');
    l->dir.length = 0;
    text_append(&l->dir, l->path.data, slash ? (size_t)(slash - l->path.data) + (slash == l->path.data) : 0);
    bool is_new;
    if (l->dir.failed || name_table_add(&l->dirs, l->dir.data, &is_new) < 0)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for the directories");
    struct stat st;
    if (!is_new || fstatat(l->job->root_fd, l->dir.length ? l->dir.data : ".", &st, 0) < 0)
        return 0;
    return catalog_add_dir(l->job->w, l->dir.data, keep_mtime_ns(&st), e);
}

static int add_found(struct path_table *l, const struct stat *st, uint64_t place, const void *const *values, struct fb_error *e)
{
    struct catalog_sample s = {
        .key = l->path.data, .length = (uint64_t)st->st_size, .object_size = (uint64_t)st->st_size, .mtime_ns = keep_mtime_ns(st)};
    text_append(&l->places, (const char *)&place, sizeof(place));
    if (l->places.failed)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for the list");
    return catalog_add_sample(l->job->w, &s, values, e);
}

/* Into l->path, as keys are. */
static int take_path(struct path_table *l, const char *path, size_t path_length, uint64_t place, struct fb_error *e)
{
    if (path_length == 0 || path_length >= 4096 || memchr(path, 0, path_length))
        return error_set(e, FB_E_DATA, "dataset", "%s %llu: the path is empty, too long or not text", l->place_word,
                         (unsigned long long)place);
    l->path.length = 0;
    text_append(&l->path, path, path_length);
    if (l->path.failed)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for the list");
    location_shorten(l->path.data, l->job->root);
    l->path.length = strlen(l->path.data);
    return note_dir(l, e);
}

int path_table_file(struct path_table *l, const char *path, size_t path_length, uint64_t place, int64_t *number, struct fb_error *e)
{
    struct stat st;
    FB_TRY(take_path(l, path, path_length, place, e));
    bool is_there = fstatat(l->job->root_fd, l->path.data, &st, 0) == 0 && S_ISREG(st.st_mode);
    *number = catalog_add_file(l->job->w, l->path.data, is_there ? (uint64_t)st.st_size : 0, is_there ? keep_mtime_ns(&st) : 0, e);
    return *number < 0 ? (int)*number : 0;
}

int path_table_find(struct path_table *l, const char *path, size_t path_length, uint64_t place, struct stat *st, struct fb_error *e)
{
    FB_TRY(take_path(l, path, path_length, place, e));
    if (fstatat(l->job->root_fd, l->path.data, st, 0) < 0) {
        if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP && errno != ENAMETOOLONG) {
            int rc = error_set_errno(e, "dataset", errno, "stat a file");
            error_at(e, l->path.data, -1);
            return rc;
        }
        remember_missing(l, l->path.data, place, "");
        return 0;
    }
    if (!S_ISREG(st->st_mode)) {
        remember_missing(l, l->path.data, place, ", not a file");
        return 0;
    }
    return 1;
}

int path_table_add(struct path_table *l, const char *path, size_t path_length, uint64_t place, const void *const *values,
                   struct fb_error *e)
{
    struct stat st;
    int rc = path_table_find(l, path, path_length, place, &st, e);
    return rc == 1 ? add_found(l, &st, place, values, e) : rc;
}

static int refuse_missing(const struct path_table *l, struct fb_error *e)
{
    char number[32];
    error_set(e, FB_E_DATA, "dataset", "%s of the files named %s missing: %s%s", skipped_files_number(l->missing, number, sizeof(number)),
              l->missing == 1 ? "is" : "are", l->first_missing, l->missing > NAMED ? ", ..." : "");
    error_remedy(e, "paths are relative to %.300s, or absolute", l->job->root);
    error_at(e, l->job->request->source, -1);
    return FB_E_DATA;
}

int path_table_finish(struct path_table *l, struct fb_error *e)
{
    if (l->missing)
        return refuse_missing(l, e);
    uint64_t first, second, a, b;
    FB_TRY(catalog_writer_sort(l->job->w, &first, &second, e));
    if (first == second)
        return 0;
    memcpy(&a, l->places.data + first * sizeof(a), sizeof(a));
    memcpy(&b, l->places.data + second * sizeof(b), sizeof(b));
    error_set(e, FB_E_DATA, "dataset", "a file is named twice, at %s %llu and %llu", l->place_word, (unsigned long long)a,
              (unsigned long long)b);
    error_remedy(e, "remove one of them; to see a sample more often, give it a weight");
    error_at(e, catalog_writer_key(l->job->w, first), -1);
    return FB_E_DATA;
}
