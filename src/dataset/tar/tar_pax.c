/* pax records: "LENGTH KEY=VALUE\n", the length counting itself. Keys that say nothing about place or name are passed over. */
#include <string.h>

#include "dataset/tar/tar_reader.h"

static bool parse_decimal(const char *s, size_t n, uint64_t *out)
{
    *out = 0;
    if (n == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || *out > (UINT64_MAX >> 1) / 10 - 1)
            return false;
        *out = *out * 10 + (uint64_t)(s[i] - '0');
    }
    return true;
}

static bool is_key(const char *key, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(key, name, n) == 0;
}

/* An empty value takes back what a header before said. */
static bool set_path(struct tar_override *o, const char *value, size_t n)
{
    o->path.length = 0;
    o->has_path = n > 0;
    if (n > TAR_MAX_LONG_NAME || memchr(value, 0, n))
        return true; /* an empty path: cannot be used, and is said so by the caller */
    text_append(&o->path, value, n);
    return !o->path.failed;
}

static bool apply(struct tar_override *o, const char *key, size_t key_length, const char *value, size_t n)
{
    if (is_key(key, key_length, "path") || is_key(key, key_length, "GNU.sparse.name"))
        return set_path(o, value, n);
    if (is_key(key, key_length, "size")) {
        o->has_size = n > 0;
        return n == 0 || parse_decimal(value, n, &o->size);
    }
    if (key_length > 11 && memcmp(key, "GNU.sparse.", 11) == 0)
        o->is_sparse = true;
    return true;
}

bool tar_parse_pax(const char *bytes, size_t n, struct tar_override *o)
{
    while (n > 0) {
        const char *space = memchr(bytes, ' ', n < 21 ? n : 21);
        uint64_t length;
        if (!space || !parse_decimal(bytes, (size_t)(space - bytes), &length) || length > n || length < (uint64_t)(space - bytes) + 4)
            return false;
        const char *key = space + 1, *end = bytes + length - 1, *equals = memchr(key, '=', (size_t)(end - key));
        if (*end != '\n' || !equals || equals == key || !apply(o, key, (size_t)(equals - key), equals + 1, (size_t)(end - equals - 1)))
            return false;
        bytes += length;
        n -= length;
    }
    return true;
}
