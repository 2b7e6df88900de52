#include "dataset/manifest/columns.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "dataset/data_names.h"
#include "dataset/image_names.h"

enum { ROWS_LOOKED_AT = 16 };

/* What was seen in a column: one bit per kind, and where first. */
struct seen {
    uint32_t kinds;
    uint64_t line[CELL_KINDS];
    uint32_t vector_length;
    bool is_other, is_there; /* a cell does not name an image; a file of the first rows exists */
};

static const char *shown_name(const struct table *t, int column, char *out, size_t out_size)
{
    return text_escape(t->name[column], out, out_size);
}

/* ---- the column of paths ---- */

static int named_path_column(const struct table *t)
{
    static const char *const names[] = {"path", "file", "filename", "file_name", "image", "image_path", "filepath"};
    for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++)
        for (int i = 0; i < t->columns; i++)
            if (strcasecmp(t->name[i], names[n]) == 0)
                return i;
    return -1;
}

static bool looks_like_path(const char *text)
{
    return image_name_kind(text) == IMAGE_NAME_YES || image_name_kind(text) == IMAGE_NAME_OTHER || data_name_family(text) != FAMILY_IMAGE ||
           data_name_may_be_array(text) || strchr(text, '/');
}

/* 1: the first column's first values look like paths. 0: they do not, or there are no rows. */
static int first_column_has_paths(struct table *t, struct fb_error *e)
{
    int rc = 0, looked_at = 0;
    while (looked_at < ROWS_LOOKED_AT && (rc = table_next(t, e)) == 1) {
        if (t->cell[0].kind != CELL_TEXT || !looks_like_path(t->cell[0].text))
            return 0;
        looked_at++;
    }
    return rc < 0 ? rc : looked_at > 0;
}

static void name_columns(const struct table *t, char *list, size_t list_size)
{
    char shown[40];
    list[0] = 0;
    for (int i = 0; i < t->columns && strlen(list) + 48 < list_size; i++) {
        strcat(list, i ? ", " : "");
        strcat(list, shown_name(t, i, shown, sizeof(shown)));
    }
}

static int refuse_pathless(const struct table *t, struct fb_error *e)
{
    char list[300];
    name_columns(t, list, sizeof(list));
    if (!t->format->is_typed && looks_like_path(t->name[0]))
        return error_advise(e, error_set(e, FB_E_DATA, "dataset", "the first line holds data, not the names of the columns: %s", list),
                            "put a line such as path,label in front");
    return error_advise(e, error_set(e, FB_E_DATA, "dataset", "no column holds the paths of the files; the columns are: %s", list),
                        "call that column 'path'");
}

static int find_path_column(struct table *t, struct fb_error *e)
{
    int column = named_path_column(t);
    if (column >= 0)
        return column;
    if (t->columns > 0 && !(t->format->is_typed ? false : looks_like_path(t->name[0]))) {
        int rc = first_column_has_paths(t, e);
        table_rewind(t);
        if (rc != 0)
            return rc < 0 ? rc : 0;
    }
    return refuse_pathless(t, e);
}

/* ---- the column of groups ---- */

static int find_group_column(const struct table *t, const char *name, int path, struct fb_error *e)
{
    for (int i = 0; name && i < t->columns; i++)
        if (strcmp(t->name[i], name) == 0 && i != path)
            return i;
    if (!name)
        return -1;
    char list[300], shown[80];
    name_columns(t, list, sizeof(list));
    return error_advise(e,
                        error_set(e, FB_E_USAGE, "dataset", "group_by= names '%s', which is not a column that rows can be grouped by",
                                  text_escape(name, shown, sizeof(shown))),
                        "the columns are: %s", list);
}

/* ---- the types of the others ---- */

static int look_at_cell(struct seen *s, const struct table *t, int column, struct fb_error *e)
{
    const struct cell *c = &t->cell[column];
    char shown[80];
    shown_name(t, column, shown, sizeof(shown));
    if (c->kind == CELL_EMPTY)
        return table_refuse(t, t->row_line, e, "column '%s' is empty", shown);
    if (c->kind == CELL_VECTOR && !s->vector_length)
        s->vector_length = c->vector_length;
    if (!(s->kinds & 1u << c->kind))
        s->line[c->kind] = t->row_line;
    s->kinds |= 1u << c->kind;
    bool is_text = !t->format->is_typed && s->kinds & 1u << CELL_TEXT;
    if (c->kind == CELL_VECTOR && c->vector_length != s->vector_length && !is_text)
        return table_refuse(t, t->row_line, e, "column '%s' has %u numbers, but %u at line %llu", shown, c->vector_length, s->vector_length,
                            (unsigned long long)s->line[CELL_VECTOR]);
    return 0;
}

/* Could this column name further files? */
static void look_for_file(struct seen *s, const struct cell *c, bool is_early, int root_fd)
{
    s->is_other |= c->kind != CELL_TEXT || image_name_kind(c->text) != IMAGE_NAME_YES;
    if (is_early && !s->is_other && !s->is_there)
        s->is_there = faccessat(root_fd, c->text, F_OK, 0) == 0;
}

static int examine_rows(struct columns *out, struct table *t, struct seen *seen, int root_fd, struct scan_progress *progress,
                        struct fb_error *e)
{
    int rc;
    while ((rc = table_next(t, e)) == 1) {
        out->rows++;
        if (progress)
            FB_TRY(scan_progress_report(progress, out->rows, 0, e));
        if (t->cell[out->path].kind == CELL_EMPTY || !t->cell[out->path].text)
            return table_refuse(t, t->row_line, e, "there is no path");
        for (int i = 0; i < out->count; i++) {
            FB_TRY(look_at_cell(&seen[i], t, out->source[i], e));
            if (root_fd >= 0)
                look_for_file(&seen[i], &t->cell[out->source[i]], out->rows <= ROWS_LOOKED_AT, root_fd);
        }
    }
    return rc;
}

static int refuse_mix(const struct table *t, int column, const struct seen *s, struct fb_error *e)
{
    int kind[2] = {0, 0};
    for (int k = 0, n = 0; k < CELL_KINDS && n < 2; k++)
        if (s->kinds >> k & 1)
            kind[n++] = k;
    char shown[80];
    return error_advise(e,
                        error_set(e, FB_E_DATA, "dataset", "column '%s' holds %s at line %llu and %s at line %llu",
                                  shown_name(t, column, shown, sizeof(shown)), cell_kind_name(kind[0]),
                                  (unsigned long long)s->line[kind[0]], cell_kind_name(kind[1]), (unsigned long long)s->line[kind[1]]),
                        "a column holds one kind of label");
}

static int settle_type(struct catalog_field *f, const struct table *t, int column, const struct seen *s, struct fb_error *e)
{
    const uint32_t text = 1u << CELL_TEXT, vector = 1u << CELL_VECTOR, whole = 1u << CELL_INTEGER, huge = 1u << CELL_HUGE;
    char shown[80];
    f->dtype = FB_FLOAT32;
    if (s->kinds & text) {
        f->dtype = FB_INT64;
        f->is_class = true;
        return t->format->is_typed && s->kinds != text ? refuse_mix(t, column, s, e) : 0;
    }
    if (s->kinds & huge)
        return table_refuse(t, s->line[CELL_HUGE], e, "column '%s' holds a number that is too large (int64, float32)",
                            shown_name(t, column, shown, sizeof(shown)));
    if (s->kinds & vector) {
        f->ndim = 1;
        f->shape[0] = s->vector_length;
        return s->kinds != vector ? refuse_mix(t, column, s, e) : 0;
    }
    if (s->kinds == whole)
        f->dtype = FB_INT64;
    return 0;
}

/* Takes the columns of further files out of those of labels. */
static void take_files(struct columns *out, struct seen *seen)
{
    int labels = 0;
    for (int i = 0; i < out->count; i++) {
        if (seen[i].is_there && !seen[i].is_other) {
            out->file_source[out->file_count++] = out->source[i];
            continue;
        }
        seen[labels] = seen[i];
        out->source[labels++] = out->source[i];
    }
    out->count = labels;
}

static int settle_types(struct columns *out, const struct table *t, const struct seen *seen, struct fb_error *e)
{
    int class_field = -1;
    for (int i = 0; i < out->count; i++) {
        struct catalog_field *f = &out->field[i];
        strcpy(f->name, t->name[out->source[i]]); /* both hold 63 bytes and a NUL */
        FB_TRY(settle_type(f, t, out->source[i], &seen[i], e));
        if (f->is_class && class_field >= 0) {
            char a[80], b[80];
            return error_advise(e,
                                error_set(e, FB_E_DATA, "dataset", "columns '%s' and '%s' both hold text; one can be the class",
                                          shown_name(t, out->source[class_field], a, sizeof(a)),
                                          shown_name(t, out->source[i], b, sizeof(b))),
                                "remove one of them, or write it as numbers");
        }
        if (f->is_class)
            class_field = i;
    }
    return 0;
}

static int choose_fields(struct columns *out, const struct table *t, struct fb_error *e)
{
    for (int i = 0; i < t->columns; i++) {
        if (i == out->path || i == out->group ||
            (i == 0 && !t->name[i][0])) /* a nameless first column is the row number that pandas writes */
            continue;
        if (!t->name[i][0])
            return table_refuse(t, 1, e, "column %d has no name", i + 1);
        if (strcmp(t->name[i], "image") == 0)
            return table_refuse(t, 1, e, "a label cannot be called 'image': that is the picture itself");
        out->source[out->count++] = i;
    }
    return 0;
}

int columns_find(struct columns *out, struct table *t, const char *group, int root_fd, struct scan_progress *progress, struct fb_error *e)
{
    *out = (struct columns){0};
    struct seen seen[TABLE_MAX_COLUMNS] = {0};
    FB_TRY(out->path = find_path_column(t, e));
    out->group = find_group_column(t, group, out->path, e);
    if (group && out->group < 0)
        return out->group;
    FB_TRY(choose_fields(out, t, e));
    FB_TRY(examine_rows(out, t, seen, root_fd, progress, e));
    table_rewind(t);
    if (out->rows == 0) {
        error_set(e, FB_E_DATA, "dataset", "the manifest names no files");
        return FB_E_DATA;
    }
    if (root_fd >= 0)
        take_files(out, seen);
    return settle_types(out, t, seen, e);
}

/* ---- values ---- */

static int read_float(const struct table *t, int column, double number, float *out, struct fb_error *e)
{
    *out = (float)number;
    if (isinf(*out) && !isinf(number)) {
        char shown[80];
        shown_name(t, column, shown, sizeof(shown));
        return table_refuse(t, t->row_line, e, "column '%s': %g is too large for float32", shown, number);
    }
    return 0;
}

int columns_read(const struct columns *c, const struct table *t, struct columns_row *row, struct catalog_writer *w, struct fb_error *e)
{
    for (int i = 0; i < c->count; i++) {
        const struct cell *cell = &t->cell[c->source[i]];
        row->value[i] = &row->integer[i];
        if (c->field[i].is_class) {
            int label = catalog_add_class(w, cell->text, e);
            FB_TRY(label);
            row->integer[i] = label;
        } else if (c->field[i].ndim == 1) {
            row->value[i] = cell->vector;
        } else if (c->field[i].dtype == FB_INT64) {
            row->integer[i] = cell->integer;
        } else {
            FB_TRY(read_float(t, c->source[i], cell->number, &row->number[i], e));
            row->value[i] = &row->number[i];
        }
    }
    return 0;
}
