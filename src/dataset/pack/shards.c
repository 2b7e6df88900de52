/* Braces as a shell has them: {a,b,c}, {000000..000012} (as wide as its ends are written, if they begin with 0), {0..100..10}; several in
 * one name, not inside each other. Wildcards stand in the last part of a path only. */
#include "dataset/pack/shards.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/compare.h"
#include "base/text/text.h"
#include "dataset/folder/pattern.h"

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n > m && strcasecmp(s + n - m, end) == 0;
}

bool shards_is_name(const char *source)
{
    static const char *const ends[] = {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz", ".tar.lz4", NULL};
    for (int i = 0; ends[i]; i++)
        if (ends_with(source, ends[i]))
            return true;
    return false;
}

bool shards_is_several(const char *source)
{
    const char *open = strchr(source, '{');
    return (open && strchr(open, '}')) || pattern_is_one(source);
}

static int add(struct shards *s, const char *path, struct fb_error *e)
{
    if (s->count == SHARDS_MOST)
        return error_set(e, FB_E_USAGE, "dataset", "the name matches more than %d archives", SHARDS_MOST);
    if (s->count == s->capacity) {
        uint32_t capacity = s->capacity ? 2 * s->capacity : 16;
        char **grown = realloc(s->path, capacity * sizeof(*grown));
        if (!grown)
            return error_set(e, FB_E_NOMEM, "dataset", "no memory for the names of archives");
        s->path = grown;
        s->capacity = capacity;
    }
    s->path[s->count] = strdup(path);
    return s->path[s->count++] ? 0 : error_set(e, FB_E_NOMEM, "dataset", "no memory for the names of archives");
}

/* ---- wildcards ---- */

static int add_matches(struct shards *s, const char *dir, const char *shown_dir, const struct pattern *p, struct fb_error *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return error_set_errno(e, "dataset", errno, "open the folder of the archives");
    int rc = 0;
    char path[8192];
    for (const struct dirent *entry; rc == 0 && (entry = readdir(d));) {
        if (entry->d_name[0] == '.' || !pattern_is_matched(p, pattern_step(p, pattern_start(p), entry->d_name)))
            continue;
        snprintf(path, sizeof(path), "%s%s", shown_dir, entry->d_name);
        rc = add(s, path, e);
    }
    closedir(d);
    return rc;
}

static int expand_wildcard(struct shards *s, const char *name, struct fb_error *e)
{
    if (!pattern_is_one(name))
        return add(s, name, e);
    const char *last = text_last_part(name);
    char dir[4096];
    snprintf(dir, sizeof(dir), "%.*s", (int)(last - name), name);
    struct pattern p;
    uint32_t before = s->count;
    if (pattern_is_one(dir))
        return error_set(e, FB_E_USAGE, "dataset", "wildcards for archives can only be in the last part of the path");
    FB_TRY(pattern_open(&p, last, e));
    int rc = add_matches(s, dir[0] ? dir : ".", dir, &p, e);
    pattern_close(&p);
    if (rc == 0 && s->count == before)
        rc = error_set(e, FB_E_NOT_FOUND, "dataset", "no archive matches the pattern");
    if (s->count > before)
        qsort(s->path + before, s->count - before, sizeof(*s->path), compare_text);
    return rc;
}

/* ---- braces ---- */

static int expand(struct shards *s, const char *source, int depth, struct fb_error *e);

static int expand_one(struct shards *s, const char *head, int head_length, const char *middle, int middle_length, const char *tail,
                      int depth, struct fb_error *e)
{
    char *name = NULL;
    if (asprintf(&name, "%.*s%.*s%s", head_length, head, middle_length, middle, tail) < 0)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for the names of archives");
    int rc = expand(s, name, depth + 1, e);
    free(name);
    return rc;
}

struct range {
    long long first, last, step;
    int width; /* 0: as short as it is */
};

static bool parse_range(const char *open, const char *close, struct range *r)
{
    int used = 0, first_width = 0, last_width = 0;
    r->step = 1;
    if (sscanf(open + 1, "%lld%n..%n", &r->first, &first_width, &used) < 1 || used == 0)
        return false;
    const char *last = open + 1 + used;
    if (sscanf(last, "%lld%n", &r->last, &last_width) < 1)
        return false;
    if (last + last_width != close && (sscanf(last + last_width, "..%lld%n", &r->step, &used) < 1 || last + last_width + used != close))
        return false;
    bool is_padded = (open[1] == '0' && first_width > 1) || (last[0] == '0' && last_width > 1);
    r->width = !is_padded ? 0 : first_width > last_width ? first_width : last_width;
    const long long most = 1000000000000;
    if (r->step < -most || r->step > most)
        return false;
    r->step = r->step < 0 ? -r->step : r->step ? r->step : 1;
    return r->first >= 0 && r->first <= most && r->last >= 0 && r->last <= most && r->width < 20;
}

static int expand_range(struct shards *s, const char *source, const char *open, const char *close, const struct range *r, int depth,
                        struct fb_error *e)
{
    char number[40];
    bool is_down = r->last < r->first;
    for (long long i = r->first; is_down ? i >= r->last : i <= r->last; i += is_down ? -r->step : r->step) {
        int n = snprintf(number, sizeof(number), "%0*lld", r->width, i);
        FB_TRY(expand_one(s, source, (int)(open - source), number, n, close + 1, depth, e));
    }
    return 0;
}

static int expand(struct shards *s, const char *source, int depth, struct fb_error *e)
{
    const char *open = strchr(source, '{'), *close = open ? strchr(open, '}') : NULL;
    struct range r;
    if (!close || depth > 8)
        return expand_wildcard(s, source, e);
    if (parse_range(open, close, &r))
        return expand_range(s, source, open, close, &r, depth, e);
    for (const char *from = open + 1; from <= close;) {
        const char *comma = memchr(from, ',', (size_t)(close - from)), *to = comma ? comma : close;
        FB_TRY(expand_one(s, source, (int)(open - source), from, (int)(to - from), close + 1, depth, e));
        from = to + 1;
    }
    return 0;
}

int shards_expand(struct shards *s, const char *source, struct fb_error *e)
{
    *s = (struct shards){0};
    if (strlen(source) > 4000)
        return error_set(e, FB_E_USAGE, "dataset", "the name of the archives is too long");
    int rc = expand(s, source, 0, e);
    if (rc < 0)
        shards_free(s);
    return rc;
}

void shards_free(struct shards *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        free(s->path[i]);
    free(s->path);
    *s = (struct shards){0};
}
