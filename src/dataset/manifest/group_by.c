#include "dataset/manifest/group_by.h"

#include <stdio.h>
#include <string.h>

#include "dataset/catalog_keep.h"

#define NO_PART UINT64_MAX

struct group {
    uint64_t line;        /* where it was met first */
    uint64_t first, last; /* of its parts */
};

struct part {
    uint64_t next, line, size; /* next: of the group, or NO_PART */
    int64_t mtime_ns;
};

static struct group *group_at(const struct group_by *g, uint64_t i)
{
    return (struct group *)(void *)g->groups.data + i;
}

static struct part *part_at(const struct group_by *g, uint64_t i)
{
    return (struct part *)(void *)g->parts.data + i;
}

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "dataset", "no memory for the groups of a manifest");
}

void group_by_start(struct group_by *g, struct path_table *list, const struct columns *c, const char *column_name)
{
    *g = (struct group_by){.list = list, .columns = c, .column_name = column_name};
    g->groups.limit = g->parts.limit = g->values.limit = (size_t)1 << 40;
    for (int i = 0; i < c->count; i++)
        g->value_bytes += catalog_field_bytes(&c->field[i]);
}

void group_by_end(struct group_by *g)
{
    name_table_free(&g->names);
    name_table_free(&g->paths);
    text_free(&g->groups);
    text_free(&g->parts);
    text_free(&g->values);
}

/* ---- rows ---- */

static int name_of(const struct group_by *g, const struct table *t, char *number, size_t number_size, const char **out, struct fb_error *e)
{
    const struct cell *c = &t->cell[g->columns->group];
    *out = c->text;
    if (!c->text && c->kind == CELL_INTEGER) {
        snprintf(number, number_size, "%lld", (long long)c->integer);
        *out = number;
    }
    if (*out && (*out)[0])
        return 0;
    char shown[80];
    return table_refuse(t, t->row_line, e, "column '%s' groups the rows, so it must hold text or whole numbers, and not be empty",
                        text_escape(g->column_name, shown, sizeof(shown)));
}

/* A new group gets the row's labels; one that was met must have them. */
static int check_labels(struct group_by *g, uint64_t group, const struct table *t, const struct columns_row *row, struct fb_error *e)
{
    size_t at = group * g->value_bytes;
    for (int i = 0; i < g->columns->count; i++) {
        size_t n = catalog_field_bytes(&g->columns->field[i]);
        if (g->values.length < (group + 1) * g->value_bytes) {
            text_append(&g->values, row->value[i], n);
            if (g->values.failed)
                return no_memory(e);
        } else if (memcmp(g->values.data + at, row->value[i], n) != 0) {
            char shown[80];
            text_escape(name_table_name(&g->names, (uint32_t)group), shown, sizeof(shown));
            table_refuse(t, t->row_line, e, "the %s of '%s' differs from the one at line %llu", g->columns->field[i].name, shown,
                         (unsigned long long)group_at(g, group)->line);
            error_remedy(e, "all rows of one %s must have the same labels; leave out the column that differs", g->column_name);
            return FB_E_DATA;
        }
        at += n;
    }
    return 0;
}

static int find_group(struct group_by *g, const char *name, const struct table *t, const struct columns_row *row, int64_t *out,
                      struct fb_error *e)
{
    bool is_new;
    *out = name_table_add(&g->names, name, &is_new);
    if (*out < 0)
        return no_memory(e);
    if (is_new)
        text_append(&g->groups, (const char *)&(struct group){t->row_line, NO_PART, NO_PART}, sizeof(struct group));
    return g->groups.failed ? no_memory(e) : check_labels(g, (uint64_t)*out, t, row, e);
}

static int add_part(struct group_by *g, uint64_t group, const struct stat *st, const struct table *t, struct fb_error *e)
{
    bool is_new;
    int64_t number = name_table_add(&g->paths, g->list->path.data, &is_new);
    if (number < 0)
        return no_memory(e);
    if (!is_new) {
        table_refuse(t, t->row_line, e, "it names the same file as line %llu", (unsigned long long)part_at(g, (uint64_t)number)->line);
        error_remedy(e, "a file can belong to one %s only", g->column_name);
        return FB_E_DATA;
    }
    struct part p = {NO_PART, t->row_line, (uint64_t)st->st_size, keep_mtime_ns(st)};
    text_append(&g->parts, (const char *)&p, sizeof(p));
    if (g->parts.failed)
        return no_memory(e);
    struct group *to = group_at(g, group);
    *(to->first == NO_PART ? &to->first : &part_at(g, to->last)->next) = (uint64_t)number;
    to->last = (uint64_t)number;
    return 0;
}

int group_by_add(struct group_by *g, const struct table *t, const struct columns_row *row, struct fb_error *e)
{
    char number[24];
    const char *name;
    int64_t group;
    struct stat st;
    const struct cell *path = &t->cell[g->columns->path];
    FB_TRY(name_of(g, t, number, sizeof(number), &name, e));
    FB_TRY(find_group(g, name, t, row, &group, e));
    int rc = path_table_find(g->list, path->text, path->length, t->row_line, &st, e);
    return rc == 1 ? add_part(g, (uint64_t)group, &st, t, e) : rc;
}

/* ---- samples ---- */

static int add_sample(struct group_by *g, uint64_t group, struct fb_error *e)
{
    const struct group *from = group_at(g, group);
    const struct part *first = part_at(g, from->first);
    const void *values[TABLE_MAX_COLUMNS + 1];
    struct catalog_writer *w = g->list->job->w;
    int64_t count = 0;
    for (uint64_t i = from->first; i != NO_PART; i = part_at(g, i)->next, count++) {
        const struct part *p = part_at(g, i);
        int64_t object = catalog_add_file(w, name_table_name(&g->paths, (uint32_t)i), p->size, p->mtime_ns, e);
        if (object < 0)
            return (int)object;
    }
    size_t at = group * g->value_bytes;
    for (int i = 0; i < g->columns->count; i++) {
        values[i] = g->values.data + at;
        at += catalog_field_bytes(&g->columns->field[i]);
    }
    values[g->columns->count] = &count;
    struct catalog_sample s = {.key = name_table_name(&g->names, (uint32_t)group),
                               .object = name_table_name(&g->paths, (uint32_t)from->first),
                               .length = first->size,
                               .object_size = first->size,
                               .mtime_ns = first->mtime_ns};
    return catalog_add_sample(w, &s, values, e);
}

int group_by_finish(struct group_by *g, struct fb_error *e)
{
    if (g->list->missing)
        return path_table_finish(g->list, e);
    for (uint64_t i = 0; i < g->names.count; i++)
        FB_TRY(add_sample(g, i, e));
    return 0;
}
