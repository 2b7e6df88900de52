#include "jobs/output/pack_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/file/safe_path.h"
#include "base/text/text.h"

enum { MOST_EXTENSION = 16 };

static bool is_meta(const char *key)
{
    size_t n = strcspn(key, "/");
    return n >= 4 && strncmp(key, "__", 2) == 0 && strncmp(key + n - 2, "__", 2) == 0;
}

static bool is_part(const char *part, size_t n, const char *what)
{
    return strlen(what) == n && strncmp(part, what, n) == 0;
}

static bool is_safe(const char *key)
{
    return safe_path_is_clean(key) && !is_meta(key);
}

const char *pack_names_extension(const char *key)
{
    static const char *const labels[] = {"cls", "json", "txt", NULL};
    const char *last = text_last_part(key), *dot = strrchr(last, '.');
    if (!dot || !dot[1] || strlen(dot + 1) > MOST_EXTENSION)
        return "";
    for (int i = 0; labels[i]; i++)
        if (strcasecmp(labels[i], dot + 1) == 0)
            return ""; /* an image in disguise */
    return dot + 1;
}

/* The length of the name before its only dot, or 0: it cannot stay as it is. */
static size_t plain_stem(const char *key)
{
    const char *last = text_last_part(key), *dot = strchr(last, '.');
    if (!dot || dot == last || strchr(dot + 1, '.') || !pack_names_extension(key)[0] || !is_safe(key))
        return 0;
    return (size_t)(dot - key);
}

/* ---- is a name in use? ---- */

/* The first sample whose key is not below `name`. */
static uint64_t lower_bound(const struct catalog *c, const char *name, struct fb_error *e)
{
    uint64_t low = 0, high = catalog_count(c);
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const char *key = catalog_key(c, middle, e);
        if (!key)
            return UINT64_MAX;
        if (strcmp(key, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* 1: a sample keeps this name, or another one got it. */
static int is_taken(const struct pack_names *n, const char *stem, struct text *with_dot, struct fb_error *e)
{
    if (name_table_find(&n->safe, stem) >= 0)
        return 1;
    with_dot->length = 0;
    text_printf(with_dot, "%s.", stem);
    if (with_dot->failed)
        return error_set(e, FB_E_NOMEM, "pack", "no memory for names");
    for (uint64_t i = lower_bound(n->catalog, with_dot->data, e); i < catalog_count(n->catalog); i++) {
        const char *key = catalog_key(n->catalog, i, e);
        if (!key)
            return FB_E_DATA;
        if (strncmp(key, with_dot->data, with_dot->length) != 0)
            return 0;
        if (plain_stem(key))
            return 1;
    }
    return 0;
}

/* ---- safe names ---- */

static void append_part(struct text *out, const char *part, size_t n, bool is_last)
{
    for (size_t i = 0; i < n; i++)
        text_append(out, is_last && part[i] == '.' ? "_" : part + i, 1);
    if (!is_last)
        text_append(out, "/", 1);
}

static void make_safe(const char *key, struct text *out)
{
    const char *extension = pack_names_extension(key);
    size_t end = extension[0] ? (size_t)(extension - key) - 1 : strlen(key);
    out->length = 0;
    text_append(out, "", 0);
    while (*key == '/')
        key++, end--;
    if (is_meta(key))
        text_append(out, "x", 1);
    for (size_t at = 0; at < end;) {
        size_t n = strcspn(key + at, "/");
        bool is_last = at + n >= end;
        if (is_last)
            n = end - at;
        if (is_part(key + at, n, ".."))
            append_part(out, "up", 2, is_last);
        else if (n && !is_part(key + at, n, "."))
            append_part(out, key + at, n, is_last);
        at += n + 1;
    }
    if (!out->length || out->data[out->length - 1] == '/')
        text_append(out, "_", 1);
}

static int add_safe(struct pack_names *n, uint64_t sample, const char *key, struct text *name, struct text *scratch, struct fb_error *e)
{
    make_safe(key, name);
    size_t base = name->length;
    bool is_again = n->last.length == base && base && memcmp(n->last.data, name->data, base) == 0;
    if (!is_again) {
        n->last.length = 0;
        text_append(&n->last, name->data, base);
        n->last_try = 2;
    }
    for (int try = n->last_try;; try++) {
        int rc = name->failed ? error_set(e, FB_E_NOMEM, "pack", "no memory for names") : is_taken(n, name->data, scratch, e);
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        name->length = base;
        text_printf(name, "-%d", try);
        n->last_try = try;
    }
    int64_t number = name_table_add(&n->safe, name->data, NULL);
    struct pack_renamed r = {sample, (uint32_t)number};
    text_append(&n->renamed, (const char *)&r, sizeof(r));
    return number < 0 || n->renamed.failed ? error_set(e, FB_E_NOMEM, "pack", "no memory for names") : 0;
}

static int build(struct pack_names *n, struct text *before, struct text *name, struct text *scratch, struct fb_error *e)
{
    for (uint64_t i = 0; i < catalog_count(n->catalog); i++) {
        const char *key = catalog_key(n->catalog, i, e);
        if (!key)
            return FB_E_DATA;
        size_t stem = plain_stem(key);
        bool is_second = stem && before->length == stem && memcmp(before->data, key, stem) == 0; /* such keys are neighbours */
        if (!stem || is_second) {
            FB_TRY(add_safe(n, i, key, name, scratch, e));
            continue;
        }
        before->length = 0;
        text_append(before, key, stem);
    }
    return 0;
}

int pack_names_open(struct pack_names *n, const struct catalog *c, struct fb_error *e)
{
    *n = (struct pack_names){.catalog = c, .renamed = {.limit = (size_t)1 << 40}, .last = {.limit = 1 << 20}};
    struct text before = {.limit = 1 << 20}, name = {.limit = 1 << 20}, scratch = {.limit = 1 << 20};
    int rc = build(n, &before, &name, &scratch, e);
    text_free(&before);
    text_free(&name);
    text_free(&scratch);
    if (rc < 0)
        pack_names_close(n);
    return rc;
}

void pack_names_close(struct pack_names *n)
{
    name_table_free(&n->safe);
    text_free(&n->renamed);
    text_free(&n->last);
}

static int by_sample(const void *a, const void *b)
{
    uint64_t x = ((const struct pack_renamed *)a)->sample, y = ((const struct pack_renamed *)b)->sample;
    return x < y ? -1 : x > y;
}

bool pack_names_stem(const struct pack_names *n, uint64_t sample, const char *key, struct text *out)
{
    struct pack_renamed wanted = {.sample = sample};
    size_t count = n->renamed.length / sizeof(wanted);
    const struct pack_renamed *r = count ? bsearch(&wanted, n->renamed.data, count, sizeof(wanted), by_sample) : NULL;
    const char *stem = r ? name_table_name(&n->safe, r->name) : key;
    text_append(out, stem, r ? strlen(stem) : plain_stem(key));
    return r != NULL;
}
