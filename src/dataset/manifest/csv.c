/* CSV and TSV by RFC 4180: cells may be quoted, quotes doubled inside, line ends inside quotes. Lines end in LF or CRLF; empty lines are
 * skipped; the first record names the columns. Spaces belong to the cell, as the RFC says. */
#include <string.h>

#include "dataset/manifest/table.h"

/* A cell of the record at hand: where its text starts in t->text. */
struct csv_record {
    size_t start[TABLE_MAX_COLUMNS + 1];
    int cells;
};

static bool is_at_line_end(const struct table *t)
{
    const char *s = t->bytes + t->at;
    size_t left = t->size - t->at;
    return left == 0 || s[0] == '\n' || (s[0] == '\r' && (left == 1 || s[1] == '\n'));
}

static void skip_line_end(struct table *t)
{
    if (t->at < t->size && t->bytes[t->at] == '\r')
        t->at++;
    if (t->at < t->size && t->bytes[t->at] == '\n')
        t->at++;
    t->line++;
}

static int read_quoted(struct table *t, char separator, struct fb_error *e)
{
    uint64_t opened = t->line;
    t->at++;
    for (;;) {
        const char *s = t->bytes + t->at, *quote = memchr(s, '"', t->size - t->at);
        if (!quote || (size_t)(quote - s) > TABLE_MAX_RECORD)
            return table_refuse(t, opened, e, "a quoted cell has no end");
        for (const char *p = s; (p = memchr(p, '\n', (size_t)(quote - p))); p++)
            t->line++;
        text_append(&t->text, s, (size_t)(quote - s));
        t->at += (size_t)(quote - s) + 1;
        if (t->at == t->size || t->bytes[t->at] != '"')
            break;
        text_append(&t->text, "\"", 1);
        t->at++;
    }
    if (is_at_line_end(t) || t->bytes[t->at] == separator)
        return 0;
    return table_refuse(t, t->line, e, "there is text after the closing quote of a cell");
}

static void read_plain(struct table *t, char separator)
{
    size_t start = t->at;
    while (!is_at_line_end(t) && t->bytes[t->at] != separator)
        t->at++;
    text_append(&t->text, t->bytes + start, t->at - start);
}

/* The record is longer than it may be, or there was no memory for it. */
static int refuse_record(struct table *t, size_t bytes, struct fb_error *e)
{
    if (bytes <= TABLE_MAX_RECORD && t->text.length + bytes < t->text.limit)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for line %llu", (unsigned long long)t->row_line);
    return table_refuse(t, t->row_line, e, "the record is longer than %d bytes", TABLE_MAX_RECORD);
}

static int read_cell(struct table *t, char separator, struct csv_record *r, struct fb_error *e)
{
    if (r->cells == TABLE_MAX_COLUMNS)
        return table_refuse(t, t->line, e, "more than %d columns", TABLE_MAX_COLUMNS);
    size_t start = t->text.length, began = t->at;
    if (t->at < t->size && t->bytes[t->at] == '"')
        FB_TRY(read_quoted(t, separator, e));
    else
        read_plain(t, separator);
    if (t->text.failed || t->at - began > TABLE_MAX_RECORD)
        return refuse_record(t, t->at - began, e);
    if (t->text.data && memchr(t->text.data + start, 0, t->text.length - start))
        return table_refuse(t, t->row_line, e, "there is a NUL byte; this is not text");
    text_append(&t->text, "", 1);
    r->start[r->cells++] = start;
    return 0;
}

/* 1: a record. 0: the end. */
static int read_record(struct table *t, char separator, struct csv_record *r, struct fb_error *e)
{
    while (t->at < t->size && is_at_line_end(t))
        skip_line_end(t);
    if (t->at == t->size)
        return 0;
    r->cells = 0;
    t->text.length = 0;
    t->row_line = t->line;
    size_t began = t->at;
    for (;;) {
        FB_TRY(read_cell(t, separator, r, e));
        if (t->text.failed || t->at - began > TABLE_MAX_RECORD)
            return refuse_record(t, t->at - began, e);
        if (is_at_line_end(t))
            break;
        t->at++; /* the separator */
    }
    skip_line_end(t);
    r->start[r->cells] = t->text.length;
    return 1;
}

/* People write "path, label"; a column's name has no spaces around it. */
static int add_column(struct table *t, const char *name, struct fb_error *e)
{
    name += strspn(name, " \t");
    size_t length = strlen(name);
    while (length && (name[length - 1] == ' ' || name[length - 1] == '\t'))
        length--;
    return table_add_column(t, name, length, e);
}

static int open_with(struct table *t, char separator, struct fb_error *e)
{
    struct csv_record r;
    int rc = read_record(t, separator, &r, e);
    if (rc < 0)
        return rc;
    if (rc == 0)
        return table_refuse(t, 1, e, "the file is empty; its first line should name the columns");
    for (int i = 0; i < r.cells; i++)
        FB_TRY(add_column(t, t->text.data + r.start[i], e));
    t->first_row = t->at;
    t->first_row_line = t->line;
    return 0;
}

static int next_with(struct table *t, char separator, struct fb_error *e)
{
    struct csv_record r;
    int rc = read_record(t, separator, &r, e);
    if (rc <= 0)
        return rc;
    if (r.cells != t->columns)
        return table_refuse(t, t->row_line, e, "%d cell%s, but there are %d columns", r.cells, r.cells == 1 ? "" : "s", t->columns);
    for (int i = 0; i < r.cells; i++) {
        t->vector_start[i] = t->floats.length;
        if (!cell_parse(&t->cell[i], t->text.data + r.start[i], r.start[i + 1] - r.start[i] - 1, &t->floats))
            return table_refuse(t, t->row_line, e, "too many numbers, or no memory for them");
    }
    table_point_vectors(t);
    return 1;
}

static int open_csv(struct table *t, struct fb_error *e)
{
    return open_with(t, ',', e);
}

static int next_csv(struct table *t, struct fb_error *e)
{
    return next_with(t, ',', e);
}

static int open_tsv(struct table *t, struct fb_error *e)
{
    return open_with(t, '\t', e);
}

static int next_tsv(struct table *t, struct fb_error *e)
{
    return next_with(t, '\t', e);
}

const struct table_format table_csv = {.name = "CSV", .extension = ".csv", .open = open_csv, .next = next_csv};
const struct table_format table_tsv = {.name = "TSV", .extension = ".tsv", .open = open_tsv, .next = next_tsv};
