/* JSON, written from front to back into a text. The writer knows commas, brackets, escapes and how numbers look; callers say what there is:
 *
 *     struct json_writer w = {.out = &text};
 *     json_begin_object(&w, NULL);
 *     json_put(&w, J("name", name), J("files", files), J_FIXED("seconds", 3, seconds));
 *     json_put(&w, J_OBJECT("bytes", J("read", read), J("written", written)));
 *     json_end(&w);
 *
 * gives {"name":"...","files":3,"seconds":0.250,"bytes":{"read":7,"written":0}}. Items of arrays and the outermost value have the key NULL.
 *
 * Limits: 64 levels; the text's own maximum. Beyond either the text is marked as failed, as without memory: check it once, at the end. A
 * text over a caller's array (TEXT_OVER) makes no allocation. That keys differ and brackets match is the caller's part.
 *
 * Safety: keys and strings may hold any bytes. Those that are not UTF-8 become \udcNN as Python's surrogateescape has them, and whatever
 * steers a terminal becomes \uNNNN. Numbers have a point in any locale; NaN and infinities become null. The writer owns nothing: between
 * two calls the text may be printed and emptied, or given white space. One thread at a time.
 */
#ifndef FB_BASE_TEXT_JSON_WRITER_H
#define FB_BASE_TEXT_JSON_WRITER_H

#include "base/text/text.h"

struct json_writer {
    struct text *out;
    uint64_t arrays; /* bit 0: the innermost level is an array, bit 1: the one around it, ... */
    unsigned depth;
    bool has_items, wants_line;
};

struct json_pair {
    const char *key;
    enum json_kind { JSON_TEXT, JSON_BOOL, JSON_I64, JSON_U64, JSON_QUOTED, JSON_HEX, JSON_FIXED, JSON_DIGITS, JSON_MAP, JSON_LIST } kind;
    int count; /* digits of a real, pairs of a level */
    union {
        const char *text; /* NULL: null */
        uint64_t whole;   /* a signed one, too */
        double real;
        const struct json_pair *pair;
    };
};

/* Whole numbers and strings. Reals say how many decimals (%.6f), or how many digits count (%.6g): and NaN is null. Numbers as strings,
 * of decimal digits or of 16 hexadecimal ones: many readers of JSON have no integers above 2^53. */
#define J(KEY, VALUE)               \
    _Generic((VALUE),               \
        char *: json_of_text,       \
        const char *: json_of_text, \
        int: json_of_i64,           \
        long: json_of_i64,          \
        long long: json_of_i64,     \
        unsigned: json_of_u64,      \
        unsigned long: json_of_u64, \
        unsigned long long: json_of_u64)(KEY, VALUE)
#define J_NULL(KEY) J(KEY, (const char *)NULL)
#define J_BOOL(KEY, VALUE) ((struct json_pair){KEY, JSON_BOOL, 0, {.whole = (VALUE) ? 1 : 0}})
#define J_QUOTED(KEY, VALUE) ((struct json_pair){KEY, JSON_QUOTED, 0, {.whole = (VALUE)}})
#define J_HEX(KEY, VALUE) ((struct json_pair){KEY, JSON_HEX, 0, {.whole = (VALUE)}})
#define J_FIXED(KEY, DECIMALS, VALUE) ((struct json_pair){KEY, JSON_FIXED, DECIMALS, {.real = (VALUE)}})
#define J_DIGITS(KEY, DIGITS, VALUE) ((struct json_pair){KEY, JSON_DIGITS, DIGITS, {.real = (VALUE)}})

/* A level that holds these and nothing else. */
#define J_OBJECT(KEY, ...) ((struct json_pair){KEY, JSON_MAP, JSON_COUNT(__VA_ARGS__), {.pair = JSON_PAIRS(__VA_ARGS__)}})
#define J_ARRAY(KEY, ...) ((struct json_pair){KEY, JSON_LIST, JSON_COUNT(__VA_ARGS__), {.pair = JSON_PAIRS(__VA_ARGS__)}})

/* One J... or several. */
#define json_put(W, ...) json_put_pairs(W, JSON_PAIRS(__VA_ARGS__), JSON_COUNT(__VA_ARGS__))
/* Levels that are filled call by call. */
#define json_begin_object(W, KEY) json_begin(W, KEY, false)
#define json_begin_array(W, KEY) json_begin(W, KEY, true)
void json_end(struct json_writer *w);
/* The next item, or the bracket that ends the level, begins a new line. */
void json_line(struct json_writer *w);

/* ---- what the macros call ---- */

#define JSON_PAIRS(...) ((const struct json_pair[]){__VA_ARGS__})
#define JSON_COUNT(...) ((int)(sizeof(JSON_PAIRS(__VA_ARGS__)) / sizeof(struct json_pair)))
void json_begin(struct json_writer *w, const char *key, bool is_array);
void json_put_pairs(struct json_writer *w, const struct json_pair *pair, int count);
struct json_pair json_of_text(const char *key, const char *value);
struct json_pair json_of_i64(const char *key, int64_t value);
struct json_pair json_of_u64(const char *key, uint64_t value);

#endif
