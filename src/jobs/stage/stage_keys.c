/* The keys that are wanted (--keys): each once, however often it is written. Parts take those that are theirs; what nobody took is
 * missing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/compare.h"
#include "jobs/stage/stage_internal.h"

enum { KEYS_MOST_BYTES = 1 << 30 };

/* Lines without their ends, empty ones left out. */
static int read_lines(struct stage_keys *k, FILE *f, struct fb_error *e)
{
    char *line = NULL;
    size_t capacity = 0;
    k->lines.limit = KEYS_MOST_BYTES;
    for (ssize_t n; (n = getline(&line, &capacity, f)) >= 0;) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = 0;
        if (n > 0)
            text_append(&k->lines, line, strlen(line) + 1);
        k->count += n > 0;
    }
    int why = errno;
    free(line);
    if (ferror(f))
        return error_set_errno(e, "stage", why, "read the list of keys");
    return k->lines.failed ? error_set(e, FB_E_NOMEM, "stage", "no memory for the list of keys") : 0;
}

/* Keys of a catalog are sorted, too, so what is read lies in a row. */
static int sort(struct stage_keys *k, struct fb_error *e)
{
    uint64_t count = 0;
    k->key = calloc(k->count + 1, sizeof(*k->key));
    k->is_taken = calloc(k->count + 1, 1);
    if (!k->key || !k->is_taken)
        return error_set(e, FB_E_NOMEM, "stage", "no memory for the list of keys");
    const char *at = k->lines.data;
    for (uint64_t i = 0; i < k->count; i++, at += strlen(at) + 1)
        k->key[i] = at;
    qsort(k->key, k->count, sizeof(*k->key), compare_text);
    for (uint64_t i = 0; i < k->count; i++)
        if (count == 0 || strcmp(k->key[count - 1], k->key[i]) != 0)
            k->key[count++] = k->key[i];
    k->count = count;
    return 0;
}

int stage_keys_open(struct stage_keys *k, const char *path, struct fb_error *e)
{
    FILE *f = fopen(path, "re");
    int rc = f ? read_lines(k, f, e) : error_set_errno(e, "stage", errno, "open the list of keys");
    if (f)
        fclose(f);
    if (rc == 0)
        rc = sort(k, e);
    if (rc < 0)
        error_at(e, path, -1);
    return rc;
}

void stage_keys_free(struct stage_keys *k)
{
    text_free(&k->lines);
    free(k->key);
    free(k->is_taken);
    *k = (struct stage_keys){0};
}

const char *stage_keys_take(struct stage_keys *k, uint64_t i, const char *part)
{
    size_t n = strlen(part);
    const char *key = k->key[i];
    if (n > 0 && (strncmp(key, part, n) != 0 || key[n] != '/'))
        return NULL;
    k->is_taken[i] = 1;
    return n > 0 ? key + n + 1 : key;
}

const char *stage_keys_left(const struct stage_keys *k)
{
    for (uint64_t i = 0; i < k->count; i++)
        if (!k->is_taken[i])
            return k->key[i];
    return NULL;
}
