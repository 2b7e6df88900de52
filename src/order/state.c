#include "order/state.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { VERSION = 1, MAX_TEXT = 4096 };

/* A seed above INT64_MAX is written as a string of digits: many JSON readers have no larger integers. */
int state_write(const struct state *s, char *out, size_t out_size)
{
    const char *quote = s->seed > INT64_MAX ? "\"" : "";
    return snprintf(out, out_size,
                    "{\"version\":%d,\"seed\":%s%" PRIu64 "%s,\"epoch\":%" PRIu64 ",\"position\":%" PRIu64
                    ",\"fingerprint\":\"%016" PRIx64 "\"}",
                    VERSION, quote, s->seed, quote, s->epoch, s->position, s->fingerprint);
}

static int refuse(struct fb_error *e, const char *field, const char *what)
{
    error_set(e, FB_E_STATE, "order", "the state's %s %s", field, what);
    error_remedy(e, "pass what state_dict() gave, unchanged");
    return FB_E_STATE;
}

static int read_number(const json_t *root, const char *field, uint64_t *out, struct fb_error *e)
{
    const json_t *v = json_object_get(root, field);
    if (!v)
        return refuse(e, field, "is missing");
    if (!json_is_integer(v))
        return refuse(e, field, "is not a whole number");
    if (json_integer_value(v) < 0)
        return refuse(e, field, "is negative");
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

/* Digits of base 10 or 16 and nothing else. */
static bool parse_digits(const char *text, int base, uint64_t *out)
{
    static const char alphabet[] = "0123456789abcdef";
    uint64_t value = 0;
    for (; *text; text++) {
        const char *digit = memchr(alphabet, *text, (size_t)base);
        if (!digit || __builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)(digit - alphabet), &value))
            return false;
    }
    *out = value;
    return true;
}

static int read_seed(const json_t *root, uint64_t *out, struct fb_error *e)
{
    const json_t *v = json_object_get(root, "seed");
    if (!json_is_string(v))
        return read_number(root, "seed", out, e);
    if (json_string_length(v) == 0 || strlen(json_string_value(v)) != json_string_length(v) || !parse_digits(json_string_value(v), 10, out))
        return refuse(e, "seed", "is not a whole number");
    return 0;
}

static int read_fingerprint(const json_t *root, uint64_t *out, struct fb_error *e)
{
    const json_t *v = json_object_get(root, "fingerprint");
    if (!v)
        return refuse(e, "fingerprint", "is missing");
    if (!json_is_string(v) || json_string_length(v) != 16 || strlen(json_string_value(v)) != 16 ||
        !parse_digits(json_string_value(v), 16, out))
        return refuse(e, "fingerprint", "is not a string of 16 hex digits");
    return 0;
}

static int check_version(const json_t *root, struct fb_error *e)
{
    uint64_t version;
    FB_TRY(read_number(root, "version", &version, e));
    if (version == VERSION)
        return 0;
    error_set(e, FB_E_STATE, "order", "the state has version %" PRIu64 ", this fullbore knows version %d", version, VERSION);
    error_remedy(e, "use the fullbore that saved it, or a newer one");
    return FB_E_STATE;
}

static int read_fields(struct state *s, const json_t *root, struct fb_error *e)
{
    if (!json_is_object(root))
        return refuse(e, "JSON", "is not an object");
    FB_TRY(check_version(root, e));
    FB_TRY(read_seed(root, &s->seed, e));
    FB_TRY(read_number(root, "epoch", &s->epoch, e));
    FB_TRY(read_number(root, "position", &s->position, e));
    return read_fingerprint(root, &s->fingerprint, e);
}

int state_read(struct state *s, const char *json, struct fb_error *e)
{
    struct state read = {0};
    size_t length = strnlen(json, MAX_TEXT + 1);
    if (length > MAX_TEXT)
        return refuse(e, "JSON", "is longer than 4096 bytes");
    json_error_t why;
    json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        char shown[JSON_ERROR_TEXT_LENGTH];
        error_set(e, FB_E_STATE, "order", "the state is not JSON: %s (line %d, column %d)",
                  text_escape(why.text, shown, sizeof(shown)), why.line, why.column);
        error_remedy(e, "pass what state_dict() gave, unchanged");
        return FB_E_STATE;
    }
    int rc = read_fields(&read, root, e);
    json_decref(root);
    if (rc == 0)
        *s = read;
    return rc;
}
