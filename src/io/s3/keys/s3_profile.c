#include "io/s3/keys/s3_profile.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/s3/keys/s3_secret.h"

struct span {
    const char *at;
    size_t n;
};

static struct span trimmed(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t' || *from == '\r'))
        from++;
    while (from < to && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
        to--;
    return (struct span){from, (size_t)(to - from)};
}

static bool is_word(struct span s, const char *word, size_t n)
{
    return s.n == n && memcmp(s.at, word, n) == 0;
}

/* "[profile  x]" is "profile x". */
static bool is_section(struct span line, const char *name)
{
    if (line.n < 2 || line.at[0] != '[')
        return false;
    const char *close = memchr(line.at, ']', line.n);
    struct span inside = close ? trimmed(line.at + 1, close) : (struct span){line.at, 0};
    const char *space = strchr(name, ' ');
    if (!space)
        return is_word(inside, name, strlen(name));
    size_t first = (size_t)(space - name);
    if (inside.n <= first || memcmp(inside.at, name, first) != 0 || (inside.at[first] != ' ' && inside.at[first] != '\t'))
        return false;
    return is_word(trimmed(inside.at + first, inside.at + inside.n), space + 1, strlen(space + 1));
}

/* A comment behind a value begins with " #" or " ;". */
static struct span without_comment(struct span v)
{
    for (size_t i = 1; i < v.n; i++)
        if ((v.at[i] == '#' || v.at[i] == ';') && (v.at[i - 1] == ' ' || v.at[i - 1] == '\t'))
            return trimmed(v.at, v.at + i);
    return v;
}

static bool copy(struct span v, char *out, size_t out_size)
{
    if (v.n >= out_size || memchr(v.at, 0, v.n))
        return false;
    memcpy(out, v.at, v.n);
    out[v.n] = 0;
    return true;
}

struct profile_search {
    const char *key, *inner; /* inner: what follows the dot, or NULL */
    size_t key_length;
    bool is_inside, is_below; /* in the section; below the outer key */
    char *out;
    size_t out_size;
    bool is_found;
};

static void search_line(struct profile_search *l, struct span raw)
{
    struct span line = trimmed(raw.at, raw.at + raw.n);
    if (line.n == 0 || line.at[0] == '#' || line.at[0] == ';')
        return;
    bool is_indented = raw.at[0] == ' ' || raw.at[0] == '\t';
    const char *equals = memchr(line.at, '=', line.n);
    if (!l->is_inside || !equals)
        return;
    struct span name = trimmed(line.at, equals), value = without_comment(trimmed(equals + 1, line.at + line.n));
    if (!is_indented)
        l->is_below = l->inner && value.n == 0 && is_word(name, l->key, l->key_length);
    bool is_ours = l->inner ? is_indented && l->is_below && is_word(name, l->inner, strlen(l->inner))
                            : !is_indented && is_word(name, l->key, l->key_length);
    if (is_ours && value.n > 0)
        l->is_found = copy(value, l->out, l->out_size);
}

static struct span next_line(const char **at, const char *end)
{
    const char *from = *at, *newline = memchr(from, '\n', (size_t)(end - from));
    *at = newline ? newline + 1 : end;
    return (struct span){from, (size_t)((newline ? newline : end) - from)};
}

bool s3_profile_find(const char *text, size_t n, const char *section, const char *key, char *out, size_t out_size)
{
    const char *dot = strchr(key, '.'), *at = text, *end = text + n;
    struct profile_search l = {
        .key = key, .inner = dot ? dot + 1 : NULL, .key_length = dot ? (size_t)(dot - key) : strlen(key), .out = out, .out_size = out_size};
    while (at < end) {
        struct span raw = next_line(&at, end), line = trimmed(raw.at, raw.at + raw.n);
        if (line.n > 0 && line.at[0] == '[') {
            l.is_inside = is_section(line, section);
            l.is_below = false;
        } else {
            search_line(&l, raw);
        }
    }
    return l.is_found;
}

/* ---- this user's ---- */

static bool choose_path(const char *variable, const char *home, const char *name, char *out, size_t size)
{
    const char *given = getenv(variable);
    int n = given && *given ? snprintf(out, size, "%s", given) : home ? snprintf(out, size, "%s/.aws/%s", home, name) : -1;
    if (n < 0 || (size_t)n >= size)
        out[0] = 0;
    return out[0] != 0;
}

bool s3_profile_paths(char *config, char *credentials, size_t size)
{
    const char *home = getenv("HOME");
    bool has_config = choose_path("AWS_CONFIG_FILE", home, "config", config, size);
    return choose_path("AWS_SHARED_CREDENTIALS_FILE", home, "credentials", credentials, size) || has_config;
}

const char *s3_profile_name(void)
{
    const char *name = getenv("AWS_PROFILE");
    return name && *name ? name : "default";
}

void s3_profile_config_section(char *out, size_t out_size)
{
    const char *name = s3_profile_name();
    snprintf(out, out_size, "%s%s", strcmp(name, "default") == 0 ? "" : "profile ", name);
}

bool s3_profile_setting(const char *key, char *out, size_t out_size)
{
    char config[4096], credentials[4096], section[256];
    size_t n, mapped;
    if (!s3_profile_paths(config, credentials, sizeof(config)) || !config[0])
        return false;
    char *text = s3_secret_read_file(config, &n, &mapped);
    if (!text)
        return false;
    s3_profile_config_section(section, sizeof(section));
    bool is_found = s3_profile_find(text, n, section, key, out, out_size);
    s3_secret_unmap(text, mapped);
    return is_found;
}
