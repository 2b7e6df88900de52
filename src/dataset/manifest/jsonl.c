/* JSONL: one object per line, all with the same keys; the first line's keys name the columns. Values are text, numbers, true and false
 * (1 and 0) or arrays of numbers. jansson parses a line at a time and bounds the nesting. */
#include <jansson.h>
#include <string.h>

#include "dataset/manifest/table.h"

static bool is_blank(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strchr(" \t\r", s[i]) || !s[i])
            return false;
    return true;
}

/* 1: *out is the next line's object. 0: the end. */
static int read_object(struct table *t, json_t **out, struct fb_error *e)
{
    const char *s;
    size_t n;
    do {
        if (t->at >= t->size)
            return 0;
        s = t->bytes + t->at;
        const char *end = memchr(s, '\n', t->size - t->at);
        n = end ? (size_t)(end - s) : t->size - t->at;
        t->row_line = t->line++;
        t->at += n + (end ? 1 : 0);
    } while (is_blank(s, n));
    if (n > TABLE_MAX_RECORD)
        return table_refuse(t, t->row_line, e, "longer than %d bytes", TABLE_MAX_RECORD);
    json_error_t why;
    *out = json_loadb(s, n, JSON_REJECT_DUPLICATES, &why);
    if (!*out) {
        char shown[160];
        return table_refuse(t, t->row_line, e, "not JSON at column %d: %s", why.column, text_escape(why.text, shown, sizeof(shown)));
    }
    if (json_is_object(*out))
        return 1;
    json_decref(*out);
    *out = NULL;
    return table_refuse(t, t->row_line, e, "not a JSON object");
}

static void drop_line(struct table *t)
{
    json_decref(t->own);
    t->own = NULL;
}

static int open_jsonl(struct table *t, struct fb_error *e)
{
    t->first_row = t->at;
    t->first_row_line = t->line;
    json_t *object = NULL;
    int rc = read_object(t, &object, e);
    if (rc == 0)
        return table_refuse(t, 1, e, "the file is empty; each line should be a JSON object");
    if (rc < 0)
        return rc;
    t->own = object;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) FB_TRY(table_add_column(t, key, strlen(key), e));
    table_rewind(t);
    return 0;
}

static bool read_vector(struct table *t, int column, const json_t *array)
{
    struct cell *c = &t->cell[column];
    size_t i;
    json_t *element;
    bool is_huge = false;
    t->vector_start[column] = t->floats.length;
    json_array_foreach(array, i, element)
    {
        if (!json_is_number(element))
            return false;
        cell_add_float(&t->floats, json_number_value(element), &is_huge);
    }
    c->kind = is_huge ? CELL_HUGE : json_array_size(array) ? CELL_VECTOR : CELL_EMPTY;
    c->vector_length = (uint32_t)json_array_size(array);
    return !t->floats.failed;
}

/* False: a kind of value that cannot be a label. */
static bool read_value(struct table *t, int column, const json_t *value)
{
    struct cell *c = &t->cell[column];
    *c = (struct cell){.kind = CELL_EMPTY};
    switch (json_typeof(value)) {
    case JSON_STRING:
        c->text = json_string_value(value);
        c->length = json_string_length(value);
        c->kind = c->length ? CELL_TEXT : CELL_EMPTY;
        return true;
    case JSON_INTEGER:
    case JSON_TRUE:
    case JSON_FALSE:
        c->kind = CELL_INTEGER;
        c->integer = json_is_integer(value) ? json_integer_value(value) : json_is_true(value);
        c->number = (double)c->integer;
        return true;
    case JSON_REAL:
        c->kind = CELL_NUMBER;
        c->number = json_real_value(value);
        return true;
    case JSON_NULL: return true;
    case JSON_ARRAY: return read_vector(t, column, value);
    default: return false;
    }
}

static int read_columns(struct table *t, const json_t *object, struct fb_error *e)
{
    char shown[80];
    for (int i = 0; i < t->columns; i++) {
        const json_t *value = json_object_get(object, t->name[i]);
        text_escape(t->name[i], shown, sizeof(shown));
        if (!value)
            return table_refuse(t, t->row_line, e, "has no '%s'", shown);
        bool is_read = read_value(t, i, value);
        if (t->floats.failed) /* its limit is more than a record can have */
            return error_set(e, FB_E_NOMEM, "dataset", "no memory for line %llu", (unsigned long long)t->row_line);
        if (!is_read)
            return table_refuse(t, t->row_line, e, "'%s' is neither text, a number nor a list of numbers", shown);
    }
    if ((int)json_object_size(object) != t->columns)
        return table_refuse(t, t->row_line, e, "has keys that the first line does not have");
    table_point_vectors(t);
    return 0;
}

static int next_jsonl(struct table *t, struct fb_error *e)
{
    drop_line(t);
    json_t *object = NULL;
    int rc = read_object(t, &object, e);
    if (rc <= 0)
        return rc;
    t->own = object;
    FB_TRY(read_columns(t, object, e));
    return 1;
}

const struct table_format table_jsonl = {
    .name = "JSONL", .extension = ".jsonl", .is_typed = true, .open = open_jsonl, .next = next_jsonl, .close = drop_line};
