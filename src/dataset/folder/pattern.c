#include "dataset/folder/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

bool pattern_is_one(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

static int add_part(struct pattern *p, const char *part, struct fb_error *e)
{
    if (strcmp(part, "..") == 0 || p->parts == PATTERN_MAX_PARTS)
        return error_set(e, FB_E_USAGE, "dataset", "a glob cannot have '..' after its first wildcard, nor more than %d parts",
                         PATTERN_MAX_PARTS);
    p->part[p->parts++] = part;
    return 0;
}

int pattern_open(struct pattern *p, const char *text, struct fb_error *e)
{
    *p = (struct pattern){.text = strdup(text)};
    if (!p->text)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for a pattern");
    char *save = NULL;
    int rc = 0;
    for (char *part = strtok_r(p->text, "/", &save); part && rc == 0; part = strtok_r(NULL, "/", &save))
        if (strcmp(part, ".") != 0)
            rc = add_part(p, part, e);
    if (rc == 0 && p->parts > 0 && strcmp(p->part[p->parts - 1], "**") == 0)
        rc = add_part(p, "*", e); /* at the end it means everything inside, not the thing itself */
    if (rc < 0)
        pattern_close(p);
    return rc;
}

void pattern_close(struct pattern *p)
{
    free(p->text);
    p->text = NULL;
}

/* ---- one name ---- */

/* Matches c against the set that starts after '['. Returns where it ends, or NULL: there is no ']' and '[' is an ordinary character. */
static const char *match_set(const char *set, unsigned char c, bool *is_in)
{
    bool is_negated = *set == '!' || *set == '^', found = false;
    const char *s = set + is_negated;
    for (const char *first = s; *s && (*s != ']' || s == first); s++) {
        unsigned char low = (unsigned char)*s, high = low;
        if (s[1] == '-' && s[2] && s[2] != ']') {
            high = (unsigned char)s[2];
            s += 2;
        }
        found |= c >= low && c <= high;
    }
    *is_in = found != is_negated;
    return *s ? s + 1 : NULL;
}

/* One pattern element against the name's start: the bytes of the name it takes, or 0. *rest is the pattern after it. */
static size_t match_one(const char *pattern, const char *name, const char **rest)
{
    *rest = pattern + 1;
    if (*pattern == '?') {
        int n = text_utf8_length(name, strlen(name));
        return n > 0 ? (size_t)n : *name ? 1 : 0;
    }
    if (*pattern == '[' && *name) {
        bool is_in;
        const char *end = match_set(pattern + 1, (unsigned char)*name, &is_in);
        if (end) {
            *rest = end;
            return is_in;
        }
    }
    return *name && *pattern == *name;
}

/* A star first takes nothing, then one byte more each time the rest fails; only the last star need be reconsidered. */
static bool match_name(const char *pattern, const char *name)
{
    const char *star = NULL, *star_name = NULL, *rest;
    while (*name) {
        size_t taken;
        if (*pattern == '*') {
            star = ++pattern;
            star_name = name;
        } else if (*pattern && (taken = match_one(pattern, name, &rest)) > 0) {
            pattern = rest;
            name += taken;
        } else if (star) {
            pattern = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == 0;
}

/* ---- paths ---- */

static bool is_any_depth(const struct pattern *p, int part)
{
    return part < p->parts && strcmp(p->part[part], "**") == 0;
}

/* Bit i: parts before i are matched. A `**` may match nothing, so its position brings the next one along. */
static uint64_t with_position(const struct pattern *p, uint64_t set, int part)
{
    set |= UINT64_C(1) << part;
    while (is_any_depth(p, part))
        set |= UINT64_C(1) << ++part;
    return set;
}

uint64_t pattern_start(const struct pattern *p)
{
    return with_position(p, 0, 0);
}

uint64_t pattern_step(const struct pattern *p, uint64_t set, const char *name)
{
    uint64_t next = 0;
    for (int i = 0; i < p->parts; i++) {
        if (!(set >> i & 1))
            continue;
        if (is_any_depth(p, i))
            next = with_position(p, next, i);
        else if (match_name(p->part[i], name))
            next = with_position(p, next, i + 1);
    }
    return next;
}

bool pattern_is_matched(const struct pattern *p, uint64_t set)
{
    return set >> p->parts & 1;
}
