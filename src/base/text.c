#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool reserve(struct text *t, size_t more)
{
    if (t->failed)
        return false;
    if (more > t->limit || t->length > t->limit - more)
        return !(t->failed = true);
    if (t->length + more < t->capacity)
        return true;
    size_t capacity = t->capacity ? t->capacity : 128;
    while (capacity <= t->length + more)
        capacity *= 2;
    char *data = realloc(t->data, capacity);
    if (!data)
        return !(t->failed = true);
    t->data = data;
    t->capacity = capacity;
    return true;
}

void text_append(struct text *t, const char *bytes, size_t n)
{
    if (!reserve(t, n))
        return;
    memcpy(t->data + t->length, bytes, n);
    t->length += n;
    t->data[t->length] = 0;
}

void text_printf(struct text *t, const char *format, ...)
{
    va_list ap, again;
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n >= 0 && reserve(t, (size_t)n)) {
        vsnprintf(t->data + t->length, (size_t)n + 1, format, again);
        t->length += (size_t)n;
    }
    va_end(again);
}

int text_utf8_length(const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    if (n == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    int length = p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : p[0] >= 0xE0 && p[0] < 0xF0 ? 3 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4 : 0;
    if (length == 0 || (size_t)length > n)
        return 0;
    for (int i = 1; i < length; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    if ((p[0] == 0xE0 && p[1] < 0xA0) || (p[0] == 0xED && p[1] > 0x9F) || (p[0] == 0xF0 && p[1] < 0x90) || (p[0] == 0xF4 && p[1] > 0x8F))
        return 0;
    return length;
}

void text_json_string(struct text *t, const char *s)
{
    text_append(t, "\"", 1);
    for (size_t n = strlen(s); n > 0;) {
        unsigned char c = (unsigned char)*s;
        int length = text_utf8_length(s, n);
        if (length == 0)
            text_printf(t, "\\udc%02x", c);
        else if (c == '"' || c == '\\')
            text_printf(t, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            text_printf(t, "\\u%04x", c);
        else
            text_append(t, s, (size_t)length);
        size_t step = length ? (size_t)length : 1;
        s += step;
        n -= step;
    }
    text_append(t, "\"", 1);
}

void text_free(struct text *t)
{
    free(t->data);
    t->data = NULL;
    t->length = t->capacity = 0;
}

char *text_escape(const char *s, char *out, size_t out_size)
{
    size_t used = 0;
    for (size_t n = strlen(s); n > 0;) {
        int length = text_utf8_length(s, n);
        char piece[8];
        /* 0x80-0x9F (C1 controls) arrive as C2 80..9F and steer terminals too */
        bool is_control = length == 1 ? (unsigned char)*s < 0x20 || *s == 0x7F
                                      : length == 2 && (unsigned char)s[0] == 0xC2 && (unsigned char)s[1] < 0xA0;
        size_t step = length ? (size_t)length : 1;
        if (length == 0 || is_control) {
            step = 1;
            snprintf(piece, sizeof(piece), "\\x%02x", (unsigned char)*s);
        } else {
            memcpy(piece, s, step);
            piece[step] = 0;
        }
        size_t piece_length = strlen(piece);
        if (used + piece_length + 4 > out_size) {
            if (out_size >= 4) {
                memcpy(out + used, "...", 3);
                used += 3;
            }
            break;
        }
        memcpy(out + used, piece, piece_length);
        used += piece_length;
        s += step;
        n -= step;
    }
    if (out_size)
        out[used] = 0;
    return out;
}

const char *text_errno(int sys_errno, char *out, size_t out_size)
{
    return strerror_r(sys_errno, out, out_size); /* GNU's: never fails, may return static text */
}

bool text_parse_size(const char *s, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    char *end;
    errno = 0;
    double value = strtod(s, &end);
    if (end == s || errno || !(value >= 0))
        return false;
    while (*end == ' ')
        end++;
    double factor = 1;
    const char *unit = *end ? strchr(units, *end & ~0x20) : NULL;
    if (unit) {
        double base = strcasecmp(end + 1, "B") == 0 ? 1000 : 1024;
        if (end[1] && strcasecmp(end + 1, "B") != 0 && strcasecmp(end + 1, "iB") != 0)
            return false;
        factor = pow(base, (double)(unit - units + 1));
    } else if (*end && strcasecmp(end, "B") != 0) {
        return false;
    }
    if (value * factor >= 9.2e18)
        return false;
    *bytes = (uint64_t)(value * factor);
    return true;
}

char *text_size(uint64_t bytes, char *out, size_t out_size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t u = 0;
    while (value >= 1024 && u + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1024;
        u++;
    }
    snprintf(out, out_size, u ? "%.1f %s" : "%.0f %s", value, units[u]);
    return out;
}
