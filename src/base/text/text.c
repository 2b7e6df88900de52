#include "base/text/text.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Numbers are written and read with a point, whatever language the host program has set. */
static locale_t plain_locale;

static void make_plain_locale(void)
{
    plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Without memory for it (0) the thread's own stays. */
static locale_t plain(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_plain_locale);
    return plain_locale;
}

/* Makes the calling thread speak C until uselocale(what it returns). printf has no version that takes a locale. */
static locale_t speak_plainly(void)
{
    return uselocale(plain());
}

static double read_double(const char *s, char **stop)
{
    return plain() ? strtod_l(s, stop, plain_locale) : strtod(s, stop);
}

double text_to_double(const char *s)
{
    return read_double(s, NULL);
}

bool text_parse_double(const char *s, double *value, const char **end)
{
    char *stop;
    double v = read_double(s, &stop);
    bool is_number = stop != s && isfinite(v); /* one too small for a double is 0, or nearly */
    *end = stop;
    if (is_number)
        *value = v;
    return is_number;
}

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
    locale_t before = speak_plainly();
    va_start(ap, format);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    if (n >= 0 && reserve(t, (size_t)n)) {
        vsnprintf(t->data + t->length, (size_t)n + 1, format, again);
        t->length += (size_t)n;
    }
    va_end(again);
    uselocale(before);
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

static bool is_between(const unsigned char *p, unsigned first, unsigned last)
{
    return p[2] >= first && p[2] <= last;
}

/* C0 and C1 controls, line separators, and the marks that turn the direction of writing (with them a name shows as another one). */
bool text_is_steering(const char *s, int length)
{
    const unsigned char *p = (const unsigned char *)s;
    if (length == 1)
        return p[0] < 0x20 || p[0] == 0x7F;
    if (length == 2)
        return (p[0] == 0xC2 && p[1] < 0xA0) || (p[0] == 0xD8 && p[1] == 0x9C);
    if (length != 3 || p[0] != 0xE2)
        return false;
    return (p[1] == 0x80 && (is_between(p, 0x8E, 0x8F) || is_between(p, 0xA8, 0xAE))) || (p[1] == 0x81 && is_between(p, 0xA6, 0xA9));
}

void text_free(struct text *t)
{
    free(t->data);
    t->data = NULL;
    t->length = t->capacity = 0;
}

/* One character of s as it will be shown: itself, or its first byte as \xNN. Returns how many bytes of s it stands for. */
static size_t shown_as(const char *s, size_t n, char piece[8])
{
    int length = text_utf8_length(s, n);
    if (length == 0 || text_is_steering(s, length)) {
        /* the rest of an escaped character is then not UTF-8 and follows the same way */
        snprintf(piece, 8, "\\x%02x", (unsigned char)*s);
        return 1;
    }
    memcpy(piece, s, (size_t)length);
    piece[length] = 0;
    return (size_t)length;
}

bool text_is_harmless(const char *s)
{
    for (size_t n = strlen(s); n > 0;) {
        int length = text_utf8_length(s, n);
        if (length == 0 || text_is_steering(s, length))
            return false;
        s += length;
        n -= (size_t)length;
    }
    return true;
}

const char *text_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

char *text_escape(const char *s, char *out, size_t out_size)
{
    size_t used = 0, cut = 0; /* `cut` is where "..." would still fit */
    if (out_size == 0)
        return out;
    for (size_t n = strlen(s); n > 0;) {
        char piece[8];
        size_t step = shown_as(s, n, piece), piece_length = strlen(piece);
        if (used + piece_length >= out_size) {
            used = cut;
            if (out_size >= 4) {
                memcpy(out + used, "...", 3);
                used += 3;
            }
            break;
        }
        memcpy(out + used, piece, piece_length);
        used += piece_length;
        if (used + 4 <= out_size)
            cut = used;
        s += step;
        n -= step;
    }
    out[used] = 0;
    return out;
}

int text_vformat(char *out, size_t out_size, const char *format, va_list ap)
{
    locale_t before = speak_plainly();
    int n = vsnprintf(out, out_size, format, ap);
    uselocale(before);
    return n;
}

int text_format(char *out, size_t out_size, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = text_vformat(out, out_size, format, ap);
    va_end(ap);
    return n;
}

/* vsnprintf cuts anywhere; what is left must be whole characters. */
static void end_between_characters(char *out, size_t length)
{
    size_t lead = length;
    while (lead > 0 && length - lead < 4 && ((unsigned char)out[--lead] & 0xC0) == 0x80)
        ;
    if ((unsigned char)out[lead] >= 0xC0 && text_utf8_length(out + lead, length - lead) != (int)(length - lead))
        out[lead] = 0;
}

void text_vwords(char *out, size_t out_size, const char *format, va_list ap)
{
    char raw[2048];
    int wanted = text_vformat(out, out_size, format, ap);
    if (wanted < 0)
        out[0] = 0;
    if (wanted >= 0 && (size_t)wanted >= out_size)
        end_between_characters(out, out_size - 1);
    if (text_is_harmless(out))
        return;
    snprintf(raw, sizeof(raw), "%s", out);
    text_escape(raw, out, out_size);
}

void text_words(char *out, size_t out_size, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    text_vwords(out, out_size, format, ap);
    va_end(ap);
}

const char *text_errno(int sys_errno, char *out, size_t out_size)
{
    return strerror_r(sys_errno, out, out_size); /* GNU's: never fails, may return static text */
}

bool text_parse_digits(const char *s, int base, uint64_t *value)
{
    static const char alphabet[] = "0123456789abcdef";
    uint64_t v = 0;
    for (const char *p = s; *p; p++) {
        const char *digit = memchr(alphabet, *p, (size_t)base);
        if (!digit || __builtin_mul_overflow(v, (uint64_t)base, &v) || __builtin_add_overflow(v, (uint64_t)(digit - alphabet), &v))
            return false;
    }
    if (*s)
        *value = v;
    return *s != 0;
}

bool text_parse_size(const char *s, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *end;
    double value;
    if (!text_parse_double(s, &value, &end) || value < 0)
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
    text_format(out, out_size, u ? "%.1f %s" : "%.0f %s", value, units[u]);
    return out;
}
