#include "order/state/state.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"

enum { VERSION = 2, VERSION_WITHOUT_ORIGIN = 1, MAX_TEXT = 4096 };

/* ---- writing ---- */

void skips_json(const struct skips *s, struct json_writer *w)
{
    json_begin_array(w, "skip");
    for (uint32_t i = 0; i < s->count; i++)
        json_put(w, J_ARRAY(NULL, J(NULL, s->range[i].first), J(NULL, s->range[i].last)));
    json_end(w);
}

/* All but the check and what ends the object. A seed above INT64_MAX is a string of digits: many JSON readers have no larger integers. */
static void put_body(struct json_writer *w, const struct state *s)
{
    const struct data_identity *o = &s->origin;
    json_begin_object(w, NULL);
    json_put(w, J("version", VERSION), s->seed > INT64_MAX ? J_QUOTED("seed", s->seed) : J("seed", s->seed), J("epoch", s->epoch),
             J("position", s->position), J_HEX("fingerprint", o->fingerprint), J("samples", o->samples), J_HEX("data", o->data_fingerprint),
             J("data_samples", o->data_samples), J_HEX("keys", o->keys), J_HEX("labels", o->labels), J("order", order_kind_name(o->order)));
    if (o->order == ORDER_WINDOW)
        json_put(w, J_ARRAY("window", J(NULL, o->block), J(NULL, o->window)));
    if (s->skips.count)
        skips_json(&s->skips, w);
}

static uint64_t check_of(const struct state *s)
{
    char line[STATE_MOST_BYTES];
    struct text t = TEXT_OVER(line);
    put_body(&(struct json_writer){.out = &t}, s);
    return checksum_of(t.data, t.length);
}

/* Written for every batch: no memory of its own. The largest state has 720 bytes. */
int state_write(const struct state *s, char *out, size_t out_size)
{
    char line[STATE_MOST_BYTES];
    struct text t = TEXT_OVER(line);
    struct json_writer w = {.out = &t};
    put_body(&w, s);
    json_put(&w, J_HEX("check", checksum_of(t.data, t.length)));
    json_end(&w);
    return snprintf(out, out_size, "%s", line);
}

/* ---- reading ---- */

static int refuse(struct fb_error *e, const char *field, const char *what)
{
    return error_advise(e, error_set(e, FB_E_STATE, "order", "the state's %s %s", field, what),
                        "pass the value that state_dict() returned, unchanged");
}

static int take_number(const json_t *v, const char *field, uint64_t *out, struct fb_error *e)
{
    if (!v)
        return refuse(e, field, "is missing");
    if (!json_is_integer(v))
        return refuse(e, field, "is not a whole number");
    if (json_integer_value(v) < 0)
        return refuse(e, field, "is negative");
    *out = (uint64_t)json_integer_value(v);
    return 0;
}

static int read_number(const json_t *root, const char *field, uint64_t *out, struct fb_error *e)
{
    return take_number(json_object_get(root, field), field, out, e);
}

/* Without bytes that C would not see. */
static bool is_text(const json_t *v)
{
    return json_is_string(v) && json_string_length(v) > 0 && strlen(json_string_value(v)) == json_string_length(v);
}

static int read_seed(const json_t *root, uint64_t *out, struct fb_error *e)
{
    const json_t *v = json_object_get(root, "seed");
    if (!json_is_string(v))
        return read_number(root, "seed", out, e);
    if (!is_text(v) || !text_parse_digits(json_string_value(v), 10, out))
        return refuse(e, "seed", "is not a whole number");
    return 0;
}

static int read_digest(const json_t *root, const char *field, uint64_t *out, struct fb_error *e)
{
    const json_t *v = json_object_get(root, field);
    if (!v)
        return refuse(e, field, "is missing");
    if (!is_text(v) || json_string_length(v) != 16 || !text_parse_digits(json_string_value(v), 16, out))
        return refuse(e, field, "is not a string of 16 hex digits");
    return 0;
}

static int read_order(const json_t *root, enum order_kind *out, struct fb_error *e)
{
    const json_t *v = json_object_get(root, "order");
    if (!v)
        return refuse(e, "order", "is missing");
    *out = is_text(v) ? order_kind_named(json_string_value(v)) : ORDER_KINDS;
    return *out == ORDER_KINDS ? refuse(e, "order", "is none of plain, shuffled, weighted, given, window") : 0;
}

static int read_window(const json_t *root, struct data_identity *o, struct fb_error *e)
{
    const json_t *pair = json_object_get(root, "window");
    if (!json_is_array(pair) || json_array_size(pair) != 2)
        return refuse(e, "window", "is not a pair of numbers");
    FB_TRY(take_number(json_array_get(pair, 0), "window", &o->block, e));
    return take_number(json_array_get(pair, 1), "window", &o->window, e);
}

static int read_skips(const json_t *root, struct skips *s, struct fb_error *e)
{
    const json_t *list = json_object_get(root, "skip");
    if (!list)
        return 0;
    if (!json_is_array(list) || json_array_size(list) > SKIPS_MOST)
        return refuse(e, "skip", "is not a list of at most 8 ranges");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *range = json_array_get(list, i);
        if (!json_is_array(range) || json_array_size(range) != 2)
            return refuse(e, "skip", "has something that is not a pair of positions");
        FB_TRY(take_number(json_array_get(range, 0), "skip", &s->range[i].first, e));
        FB_TRY(take_number(json_array_get(range, 1), "skip", &s->range[i].last, e));
        s->count++;
    }
    return skips_are_sound(s, INT64_MAX) ? 0 : refuse(e, "skip", "has ranges that are unsorted or touch");
}

static int read_origin(struct state *s, const json_t *root, struct fb_error *e)
{
    struct data_identity *o = &s->origin;
    FB_TRY(read_number(root, "samples", &o->samples, e));
    FB_TRY(read_digest(root, "data", &o->data_fingerprint, e));
    FB_TRY(read_number(root, "data_samples", &o->data_samples, e));
    FB_TRY(read_digest(root, "keys", &o->keys, e));
    FB_TRY(read_digest(root, "labels", &o->labels, e));
    FB_TRY(read_order(root, &o->order, e));
    if (o->order == ORDER_WINDOW)
        FB_TRY(read_window(root, o, e));
    return read_skips(root, &s->skips, e);
}

/* What every version has. */
static int read_basics(struct state *s, const json_t *root, struct fb_error *e)
{
    FB_TRY(read_seed(root, &s->seed, e));
    FB_TRY(read_number(root, "epoch", &s->epoch, e));
    FB_TRY(read_number(root, "position", &s->position, e));
    return read_digest(root, "fingerprint", &s->origin.fingerprint, e);
}

static int read_unknown(struct state *s, const json_t *root, uint64_t version, uint32_t *faults, struct fb_error *e)
{
    *faults = STATE_OTHER_VERSION;
    return read_basics(s, root, NULL) == 0 ? 0 : state_refuse(STATE_OTHER_VERSION, s, version, s, e);
}

static int read_fields(struct state *s, const json_t *root, uint64_t *version, uint32_t *faults, struct fb_error *e)
{
    uint64_t check;
    if (!json_is_object(root))
        return refuse(e, "JSON", "is not an object");
    FB_TRY(read_number(root, "version", version, e));
    if (*version != VERSION && *version != VERSION_WITHOUT_ORIGIN)
        return read_unknown(s, root, *version, faults, e);
    FB_TRY(read_basics(s, root, e));
    if (*version == VERSION_WITHOUT_ORIGIN) {
        *faults = json_object_get(root, "check") ? STATE_CHANGED : 0; /* version 1 had none: this was one of version 2 */
        return 0;
    }
    FB_TRY(read_origin(s, root, e));
    FB_TRY(read_digest(root, "check", &check, e));
    *faults = check == check_of(s) ? 0 : STATE_CHANGED;
    return 0;
}

int state_read(struct state *s, const char *json, uint64_t *version, uint32_t *faults, struct fb_error *e)
{
    struct state read = {0};
    size_t length = strnlen(json, MAX_TEXT + 1);
    if (length > MAX_TEXT)
        return refuse(e, "JSON", "is longer than 4096 bytes");
    json_error_t why;
    json_t *root = json_loadb(json, length, JSON_REJECT_DUPLICATES, &why);
    if (!root) {
        char shown[JSON_ERROR_TEXT_LENGTH];
        return error_advise(e,
                            error_set(e, FB_E_STATE, "order", "the state is not JSON: %s (line %d, column %d)",
                                      text_escape(why.text, shown, sizeof(shown)), why.line, why.column),
                            "pass the value that state_dict() returned, unchanged");
    }
    int rc = read_fields(&read, root, version, faults, e);
    json_decref(root);
    if (rc == 0)
        *s = read;
    return rc;
}
