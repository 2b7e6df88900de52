#include "base/text/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_LEVELS = 64 };

/* The code point of a valid character. */
static unsigned code_point(const char *s, int length)
{
    static const unsigned char lead_mask[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    unsigned code = (unsigned char)s[0] & lead_mask[length];
    for (int i = 1; i < length; i++)
        code = code << 6 | ((unsigned char)s[i] & 0x3F);
    return code;
}

static void put_string(struct text *t, const char *s)
{
    text_append(t, "\"", 1);
    for (size_t n = strlen(s); n > 0;) {
        unsigned char c = (unsigned char)*s;
        int length = text_utf8_length(s, n);
        if (length == 0)
            text_printf(t, "\\udc%02x", c);
        else if (c == '"' || c == '\\')
            text_printf(t, "\\%c", c);
        else if (text_is_steering(s, length))
            text_printf(t, "\\u%04x", code_point(s, length));
        else
            text_append(t, s, (size_t)length);
        size_t step = length ? (size_t)length : 1;
        s += step;
        n -= step;
    }
    text_append(t, "\"", 1);
}

static void break_line(struct json_writer *w)
{
    if (w->wants_line)
        text_append(w->out, "\n", 1);
    w->wants_line = false;
}

static void begin_item(struct json_writer *w, const char *key)
{
    assert(!key == (w->depth == 0 || (w->arrays & 1)));
    if (w->has_items)
        text_append(w->out, ",", 1);
    break_line(w);
    w->has_items = true;
    if (!key)
        return;
    put_string(w->out, key);
    text_append(w->out, ":", 1);
}

void json_begin(struct json_writer *w, const char *key, bool is_array)
{
    begin_item(w, key);
    text_append(w->out, is_array ? "[" : "{", 1);
    w->arrays = w->arrays << 1 | is_array;
    w->has_items = false;
    if (++w->depth > MOST_LEVELS)
        w->out->failed = true;
}

void json_end(struct json_writer *w)
{
    assert(w->depth > 0);
    break_line(w);
    text_append(w->out, w->arrays & 1 ? "]" : "}", 1);
    w->arrays >>= 1;
    w->has_items = true;
    w->depth--;
}

void json_line(struct json_writer *w)
{
    w->wants_line = true;
}

struct json_pair json_of_text(const char *key, const char *value)
{
    return (struct json_pair){key, JSON_TEXT, 0, {.text = value}};
}

struct json_pair json_of_i64(const char *key, int64_t value)
{
    return (struct json_pair){key, JSON_I64, 0, {.whole = (uint64_t)value}};
}

struct json_pair json_of_u64(const char *key, uint64_t value)
{
    return (struct json_pair){key, JSON_U64, 0, {.whole = value}};
}

static void put_value(struct text *t, const struct json_pair *p)
{
    switch (p->kind) {
    case JSON_TEXT: p->text ? put_string(t, p->text) : text_append(t, "null", 4); break;
    case JSON_BOOL: text_append(t, p->whole ? "true" : "false", p->whole ? 4 : 5); break;
    case JSON_I64: text_printf(t, "%" PRId64, (int64_t)p->whole); break;
    case JSON_U64: text_printf(t, "%" PRIu64, p->whole); break;
    case JSON_QUOTED: text_printf(t, "\"%" PRIu64 "\"", p->whole); break;
    case JSON_HEX: text_printf(t, "\"%016" PRIx64 "\"", p->whole); break;
    default: isfinite(p->real) ? text_printf(t, p->kind == JSON_FIXED ? "%.*f" : "%.*g", p->count, p->real) : text_append(t, "null", 4);
    }
}

void json_put_pairs(struct json_writer *w, const struct json_pair *pair, int count)
{
    for (const struct json_pair *p = pair; p < pair + count; p++) {
        if (p->kind < JSON_MAP) {
            begin_item(w, p->key);
            put_value(w->out, p);
            continue;
        }
        json_begin(w, p->key, p->kind == JSON_LIST);
        json_put_pairs(w, p->pair, p->count);
        json_end(w);
    }
}
