/* Labels of recordings: what the source knows (folders are classes; columns of a manifest), or a table of paths and labels. A table becomes
 * a catalog of its own, in memory, and each recording finds its row by its key. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/manifest/columns.h"
#include "jobs/build/build_internal.h"

enum { TABLE_MOST = 1 << 30 };
#define NO_ROW UINT32_MAX

struct build_labels {
    const struct catalog *catalog; /* that has the values */
    struct catalog *own;
    const struct catalog *samples; /* the source's */
    uint32_t *row;                 /* sample -> sample of `own`; NULL: the same */
    int count;
    struct build_field field[FB_MAX_FIELDS];
    char table[1024];
};

/* ---- a table ---- */

static int read_text(const char *path, char **out, size_t *n, struct fb_error *e)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        int code = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(e, "build", code, "open the labels");
    }
    int rc = !S_ISREG(st.st_mode) || st.st_size > TABLE_MOST ? error_set(e, FB_E_DATA, "build", "it is not a table of at most 1 GiB") : 0;
    *out = rc == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    if (rc == 0 && !*out)
        rc = error_set(e, FB_E_NOMEM, "build", "no memory for the labels");
    *n = rc == 0 ? file_read_all(fd, *out, (size_t)st.st_size) : 0;
    if (rc == 0 && *n < (size_t)st.st_size && errno)
        rc = error_set_errno(e, "build", errno, "read the labels");
    close(fd);
    return rc;
}

static const char *without_dot(const char *path)
{
    while (path[0] == '.' && path[1] == '/')
        path += 2;
    return path;
}

static int add_rows(struct table *t, const struct columns *c, struct catalog_writer *w, struct fb_error *e)
{
    int rc;
    for (int i = 0; i < c->count; i++)
        FB_TRY(catalog_add_field(w, &c->field[i], e));
    table_rewind(t);
    while ((rc = table_next(t, e)) == 1) {
        struct columns_row row;
        FB_TRY(columns_read(c, t, &row, w, e));
        if (!t->cell[c->path].text || !t->cell[c->path].text[0])
            return table_refuse(t, t->row_line, e, "there is no path in it");
        struct catalog_sample s = {.key = without_dot(t->cell[c->path].text)};
        s.object = s.key;
        FB_TRY(catalog_add_sample(w, &s, row.value, e));
    }
    return rc;
}

static int read_table(struct build_labels *l, const char *bytes, size_t n, struct fb_error *e)
{
    struct table t;
    struct columns c;
    struct catalog_writer *w;
    FB_TRY(table_open(&t, table_format_of(l->table), bytes, n, e));
    int rc = columns_find(&c, &t, NULL, -1, NULL, e);
    if (rc >= 0 && c.count == 0)
        rc = error_set(e, FB_E_DATA, "build", "it has paths but no labels");
    if (rc >= 0 && (rc = catalog_writer_open(&w, e)) >= 0) {
        rc = add_rows(&t, &c, w, e);
        if (rc >= 0)
            rc = catalog_finish(w, NULL, &l->own, e);
        else
            catalog_writer_discard(w);
    }
    table_close(&t);
    return rc < 0 ? rc : 0;
}

/* Both are in the order of their keys. */
static int match(struct build_labels *l, struct fb_error *e)
{
    uint64_t n = catalog_count(l->samples), rows = catalog_count(l->own), at = 0;
    l->row = malloc((n + 1) * sizeof(*l->row));
    if (!l->row)
        return error_set(e, FB_E_NOMEM, "build", "no memory for the labels");
    for (uint64_t i = 0; i < n; i++) {
        const char *key = catalog_key(l->samples, i, e), *other = NULL;
        int order = -1;
        while (key && at < rows && (other = catalog_key(l->own, at, e)) && (order = strcmp(other, key)) < 0)
            at++;
        if (!key || (at < rows && !other))
            return FB_E_DATA;
        l->row[i] = at < rows && order == 0 ? (uint32_t)at : NO_ROW;
    }
    return 0;
}

static int open_table(struct build_labels *l, const char *path, struct fb_error *e)
{
    char *bytes = NULL;
    size_t n = 0;
    snprintf(l->table, sizeof(l->table), "%s", path);
    if (!table_format_of(path))
        return error_advise(e, error_set(e, FB_E_USAGE, "build", "labels come from .csv, .tsv or .jsonl files"),
                            "--labels folder takes the names of the folders, --labels none leaves them out");
    int rc = read_text(path, &bytes, &n, e);
    if (rc == 0)
        rc = read_table(l, bytes, n, e);
    free(bytes);
    if (rc == 0)
        rc = match(l, e);
    l->catalog = l->own;
    return rc;
}

/* ---- fields ---- */

static bool is_taken(const char *name, bool has_labels)
{
    static const char *const taken[] = {"features", "keys", "segment", "split", "classes", NULL};
    for (int i = 0; taken[i]; i++)
        if (strcmp(name, taken[i]) == 0)
            return true;
    return has_labels && strcmp(name, "labels") == 0;
}

/* The class, or the only field, is `labels`. Others keep their names; "label_" stands before one that is taken. */
static void name_field(const struct catalog_field *f, int all, bool has_labels, char *out)
{
    if (all == 1 || f->is_class)
        snprintf(out, 64, "labels");
    else
        snprintf(out, 64, "%s%.57s", is_taken(f->name, has_labels) ? "label_" : "", f->name);
}

/* A dataset's name is no path, and there are not two of one name. Said before hours of work, not after. */
static int check_name(const struct build_labels *l, int field, const char *column, struct fb_error *e)
{
    const char *name = l->field[field].name, *why = NULL;
    if (!name[0] || strchr(name, '/') || strcmp(name, ".") == 0)
        why = "not a name that a dataset can have";
    for (int i = 0; i < field && !why; i++)
        if (strcmp(l->field[i].name, name) == 0)
            why = "the name of two datasets";
    if (!why)
        return 0;
    char shown[300];
    return error_advise(
        e, error_set(e, FB_E_USAGE, "build", "the column '%s' of the labels: that is %s", text_escape(column, shown, sizeof(shown)), why),
        "give it another name, without a slash; --labels none leaves labels out");
}

static int list_fields(struct build_labels *l, struct fb_error *e)
{
    int all = catalog_field_count(l->catalog);
    bool has_labels = all == 1 || catalog_class_field(l->catalog) >= 0;
    for (int i = 0; i < all && l->count < FB_MAX_FIELDS; i++) {
        const struct catalog_field *f = catalog_field(l->catalog, i);
        struct build_field *mine = &l->field[l->count];
        name_field(f, all, has_labels, mine->name);
        mine->dtype = f->dtype;
        mine->width = f->ndim ? f->shape[0] : 0;
        mine->bytes = catalog_field_bytes(f);
        FB_TRY(check_name(l, l->count++, f->name, e));
    }
    return 0;
}

int build_labels_open(struct build_labels **out, const struct dataset *d, const char *table, struct fb_error *e)
{
    struct build_labels *l = *out = calloc(1, sizeof(*l));
    if (!l)
        return error_set(e, FB_E_NOMEM, "build", "no memory for the labels");
    l->catalog = l->samples = d->catalog;
    if (table && strcmp(table, "none") == 0)
        return 0;
    if (table && strcmp(table, "folder") == 0 && catalog_class_field(d->catalog) < 0)
        return error_set(e, FB_E_USAGE, "build", "the source has no folders that could be classes");
    int rc = table && strcmp(table, "folder") != 0 ? open_table(l, table, e) : 0;
    if (rc == 0)
        rc = list_fields(l, e);
    if (rc < 0 && table)
        error_at(e, table, -1);
    return rc;
}

void build_labels_close(struct build_labels *l)
{
    if (!l)
        return;
    if (l->own)
        catalog_close(l->own);
    free(l->row);
    free(l);
}

int build_labels_count(const struct build_labels *l)
{
    return l->count;
}

const struct build_field *build_labels_field(const struct build_labels *l, int i)
{
    return &l->field[i];
}

int build_labels_check(const struct build_labels *l, uint64_t sample, struct fb_error *e)
{
    if (!l->row || l->row[sample] != NO_ROW)
        return 0;
    char shown[600];
    return error_set(e, FB_E_DATA, "build", "%s has no row for it", text_escape(l->table, shown, sizeof(shown)));
}

int build_labels_get(const struct build_labels *l, int field, uint64_t sample, void *out, struct fb_error *e)
{
    FB_TRY(build_labels_check(l, sample, e));
    const void *value = catalog_value(l->catalog, l->row ? l->row[sample] : sample, field, e);
    if (!value)
        return FB_E_DATA;
    memcpy(out, value, l->field[field].bytes);
    return 0;
}

int build_labels_classes(const struct build_labels *l)
{
    return l->count && catalog_class_field(l->catalog) >= 0 ? catalog_class_count(l->catalog) : 0;
}

const char *build_labels_class(const struct build_labels *l, int i)
{
    return catalog_class_name(l->catalog, i);
}
