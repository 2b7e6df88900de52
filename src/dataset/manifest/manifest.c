/* A manifest: a table with a column of paths and any number of label columns, read twice: once for the types, once for the values. Further
 * columns of paths name further files of the sample. Rows may be grouped by a column: a sample then is all files of a group. Paths are
 * relative to the manifest's folder, or absolute. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/catalog_keep.h"
#include "dataset/location.h"
#include "dataset/manifest/columns.h"
#include "dataset/manifest/group_by.h"
#include "dataset/manifest/path_table.h"

#define MOST_BYTES ((off_t)4 << 30)

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    return st && S_ISREG(st->st_mode) && table_format_of(r->source);
}

/* `own` is its path. Grouped by a column it is a data set of its own. */
static int locate(struct dataset_job *job, struct fb_error *e)
{
    char *path;
    FB_TRY(location_canonical(job->request->source, &path, e));
    job->own = path;
    const char *slash = strrchr(path, '/'), *group = job->request->group_by;
    job->root = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    if (asprintf(&job->identity, "%s%s%s", path, group ? " by " : "", group ? group : "") < 0)
        job->identity = NULL;
    return job->root && job->identity ? 0 : error_set(e, FB_E_NOMEM, "dataset", "no memory");
}

static void release(struct dataset_job *job)
{
    free(job->own);
}

/* ---- its own size and time ---- */

static void describe(const struct stat *st, char *out, size_t out_size)
{
    snprintf(out, out_size, "%lld bytes, %lld ns, by files", (long long)st->st_size, (long long)keep_mtime_ns(st));
}

static bool is_unchanged(struct dataset_job *job, const struct catalog *kept)
{
    struct stat st;
    char now[80];
    const char *then = catalog_note(kept, "manifest");
    if (!then || stat(job->own, &st) < 0)
        return false;
    describe(&st, now, sizeof(now));
    return strcmp(now, then) == 0 && keep_mtime_ns(&st) <= catalog_made_ns(kept) - KEEP_SLACK_NS;
}

/* ---- reading ---- */

static int read_all(int fd, const struct stat *st, char **bytes, size_t *size, struct fb_error *e)
{
    if (!S_ISREG(st->st_mode) || st->st_size > MOST_BYTES)
        return error_advise(e, error_set(e, FB_E_DATA, "dataset", "a manifest is a file of at most %lld bytes", (long long)MOST_BYTES),
                            "split it, or use a folder");
    *size = 0;
    *bytes = malloc((size_t)st->st_size + 1);
    if (!*bytes)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for a manifest of %lld bytes", (long long)st->st_size);
    *size = file_read_all(fd, *bytes, (size_t)st->st_size);
    return *size < (size_t)st->st_size && errno ? error_set_errno(e, "dataset", errno, "read the manifest") : 0;
}

static int load(struct dataset_job *job, char **bytes, size_t *size, struct fb_error *e)
{
    int fd = open(job->own, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        int rc = error_set_errno(e, "dataset", errno, "open the manifest");
        if (fd >= 0)
            close(fd);
        return rc;
    }
    int rc = read_all(fd, &st, bytes, size, e);
    close(fd);
    char now[80];
    describe(&st, now, sizeof(now));
    return rc < 0 ? rc : catalog_add_note(job->w, "manifest", now, e);
}

/* ---- rows to samples ---- */

static int add_files(const struct columns *c, const struct table *t, struct path_table *list, struct columns_row *row, int64_t *number,
                     struct fb_error *e)
{
    for (int i = 0; i < c->file_count; i++) {
        const struct cell *path = &t->cell[c->file_source[i]];
        FB_TRY(path_table_file(list, path->text, path->length, t->row_line, &number[i], e));
        row->value[c->count + i] = &number[i];
    }
    return 0;
}

static int add_rows(struct dataset_job *job, const struct columns *c, struct table *t, struct path_table *list, struct fb_error *e)
{
    struct columns_row row;
    int64_t file[TABLE_MAX_COLUMNS];
    uint64_t done = 0;
    int rc;
    while ((rc = table_next(t, e)) == 1) {
        FB_TRY(scan_progress_report(&job->progress, done++, c->rows, e));
        FB_TRY(columns_read(c, t, &row, job->w, e));
        FB_TRY(add_files(c, t, list, &row, file, e));
        const struct cell *path = &t->cell[c->path];
        FB_TRY(path_table_add(list, path->text, path->length, t->row_line, row.value, e));
    }
    return rc < 0 ? rc : path_table_finish(list, e);
}

static int add_groups(struct dataset_job *job, const struct columns *c, struct table *t, struct path_table *list, struct fb_error *e)
{
    struct group_by groups;
    struct columns_row row;
    uint64_t done = 0;
    int rc;
    group_by_start(&groups, list, c, t->name[c->group]);
    while ((rc = table_next(t, e)) == 1) {
        rc = scan_progress_report(&job->progress, done++, c->rows, e);
        if (rc == 0)
            rc = columns_read(c, t, &row, job->w, e);
        if (rc == 0)
            rc = group_by_add(&groups, t, &row, e);
        if (rc < 0)
            break;
    }
    if (rc == 0)
        rc = group_by_finish(&groups, e);
    group_by_end(&groups);
    return rc;
}

static int add_table(struct dataset_job *job, struct table *t, struct fb_error *e)
{
    struct columns c;
    const char *group = job->request->group_by;
    FB_TRY(columns_find(&c, t, group, group ? -1 : job->root_fd, &job->progress, e));
    for (int i = 0; i < c.count; i++)
        FB_TRY(catalog_add_field(job->w, &c.field[i], e));
    for (int i = 0; i < c.file_count; i++)
        FB_TRY(catalog_add_file_field(job->w, t->name[c.file_source[i]], e));
    if (group)
        FB_TRY(catalog_add_parts_field(job->w, e));
    FB_TRY(catalog_add_note(job->w, "path column", t->name[c.path], e));
    struct path_table list;
    path_table_start(&list, job, "line");
    int rc = group ? add_groups(job, &c, t, &list, e) : add_rows(job, &c, t, &list, e);
    path_table_end(&list);
    return rc;
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    char *bytes = NULL;
    size_t size = 0;
    struct table *t = malloc(sizeof(*t));
    int rc = t ? load(job, &bytes, &size, e) : error_set(e, FB_E_NOMEM, "dataset", "no memory");
    if (rc == 0)
        rc = table_open(t, table_format_of(job->request->source), bytes, size, e);
    if (rc == 0) {
        rc = add_table(job, t, e);
        table_close(t);
    }
    free(t);
    free(bytes);
    if (rc < 0)
        error_at(e, job->request->source, -1);
    return rc;
}

const struct dataset_ops dataset_manifest = {
    .name = "manifest", .claims = claims, .locate = locate, .is_unchanged = is_unchanged, .scan = scan, .release = release};
