#include "dataset/manifest/table.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/text.h"

static const struct table_format *const formats[] = {&table_csv, &table_tsv, &table_jsonl, NULL};

const struct table_format *table_format_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (int i = 0; dot && formats[i]; i++)
        if (strcasecmp(dot, formats[i]->extension) == 0)
            return formats[i];
    return NULL;
}

int table_refuse(const struct table *t, uint64_t line, struct fb_error *e, const char *format, ...)
{
    char what[400];
    va_list ap;
    va_start(ap, format);
    text_vwords(what, sizeof(what), format, ap);
    va_end(ap);
    return error_advise(e, error_set(e, FB_E_DATA, "dataset", "line %llu: %s", (unsigned long long)line, what), "correct the %s file",
                        t->format->name);
}

int table_add_column(struct table *t, const char *name, size_t length, struct fb_error *e)
{
    if (t->columns == TABLE_MAX_COLUMNS)
        return table_refuse(t, t->row_line, e, "more than %d columns", TABLE_MAX_COLUMNS);
    if (length > TABLE_MAX_NAME || memchr(name, 0, length))
        return table_refuse(t, t->row_line, e, "the name of column %d is longer than %d bytes or not text", t->columns + 1, TABLE_MAX_NAME);
    char *to = t->name[t->columns];
    memcpy(to, name, length);
    to[length] = 0;
    for (int i = 0; i < t->columns; i++)
        if (strcmp(t->name[i], to) == 0) {
            char shown[80];
            return table_refuse(t, t->row_line, e, "two columns are called '%s'", text_escape(to, shown, sizeof(shown)));
        }
    t->columns++;
    return 0;
}

int table_open(struct table *t, const struct table_format *format, const char *bytes, size_t size, struct fb_error *e)
{
    *t = (struct table){.format = format, .bytes = bytes, .size = size, .line = 1};
    t->text.limit = 2 * TABLE_MAX_RECORD;
    t->floats.limit = TABLE_MAX_RECORD * sizeof(float);
    if (size >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        t->at = 3;
    int rc = format->open(t, e);
    if (rc < 0)
        table_close(t);
    return rc;
}

int table_next(struct table *t, struct fb_error *e)
{
    t->floats.length = 0;
    return t->format->next(t, e);
}

void table_rewind(struct table *t)
{
    t->at = t->first_row;
    t->line = t->first_row_line;
}

void table_close(struct table *t)
{
    if (t->format->close)
        t->format->close(t);
    text_free(&t->text);
    text_free(&t->floats);
}

void table_point_vectors(struct table *t)
{
    for (int i = 0; i < t->columns; i++)
        if (t->cell[i].kind == CELL_VECTOR)
            t->cell[i].vector = (const float *)(const void *)(t->floats.data + t->vector_start[i]);
}
