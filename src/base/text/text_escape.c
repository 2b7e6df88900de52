/* Formats whose arguments are data: every string is escaped on its way in, so a name can neither begin a line nor steer a terminal, and
 * nobody who prints one needs to think of it. The format is taken apart conversion by conversion; each goes to text_printf by itself.
 *
 * Known: d i u o x X c s p e f g a %, with flags, width, precision (numbers or *) and the lengths h, l, ll, z, j, t. No %n, no %ls.
 */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/text/text.h"

/* A va_list that functions can hand on and that goes on where the last one stopped. */
struct arguments {
    va_list ap;
};

struct conversion {
    char flags[8];
    int width, precision; /* -1: none */
    char length;          /* 0, 'l', 'L' for ll, 'z', 'j', 't'; h takes an int */
    char letter;
};

static int read_count(const char **at, struct arguments *a)
{
    if (**at == '*') {
        ++*at;
        return va_arg(a->ap, int);
    }
    char *end;
    int n = (int)strtol(*at, &end, 10);
    *at = end;
    return n;
}

/* Returns where the format goes on. */
static const char *read_conversion(const char *at, struct conversion *c, struct arguments *a)
{
    size_t flags = strspn(at, "-+ #0");
    *c = (struct conversion){.width = -1, .precision = -1};
    snprintf(c->flags, sizeof(c->flags), "%.*s", (int)flags, at);
    at += flags;
    if (*at == '*' || (*at >= '1' && *at <= '9'))
        c->width = read_count(&at, a);
    if (c->width < -1) { /* a negative one from the arguments is a flag */
        c->width = -c->width;
        snprintf(c->flags, sizeof(c->flags), "-");
    }
    if (*at == '.') {
        at++;
        c->precision = read_count(&at, a);
    }
    for (; *at && strchr("hlzjt", *at); at++)
        c->length = *at == 'h' ? 0 : c->length == 'l' ? 'L' : *at;
    c->letter = *at;
    return *at ? at + 1 : at;
}

/* The conversion as printf takes it, with `length` before its letter. */
static const char *spell(const struct conversion *c, const char *length, char letter, char out[48])
{
    int n = snprintf(out, 48, "%%%s", c->flags);
    if (c->width >= 0)
        n += snprintf(out + n, 48 - (size_t)n, "%d", c->width);
    if (c->precision >= 0)
        n += snprintf(out + n, 48 - (size_t)n, ".%d", c->precision);
    snprintf(out + n, 48 - (size_t)n, "%s%c", length, letter);
    return out;
}

static intmax_t take_signed(const struct conversion *c, struct arguments *a)
{
    switch (c->length) {
    case 'l': return va_arg(a->ap, long);
    case 'L': return va_arg(a->ap, long long);
    case 'z': return va_arg(a->ap, ssize_t);
    case 'j': return va_arg(a->ap, intmax_t);
    case 't': return va_arg(a->ap, ptrdiff_t);
    default: return va_arg(a->ap, int);
    }
}

static uintmax_t take_unsigned(const struct conversion *c, struct arguments *a)
{
    switch (c->length) {
    case 'l': return va_arg(a->ap, unsigned long);
    case 'L': return va_arg(a->ap, unsigned long long);
    case 'z': return va_arg(a->ap, size_t);
    case 'j': return va_arg(a->ap, uintmax_t);
    case 't': return (uintmax_t)va_arg(a->ap, ptrdiff_t);
    default: return va_arg(a->ap, unsigned);
    }
}

/* ---- strings ---- */

static void append_escaped(struct text *t, const char *s, size_t n, bool keeps_lines)
{
    char one[8], piece[24];
    while (n > 0) {
        int length = text_utf8_length(s, n);
        size_t step = length ? (size_t)length : 1;
        if (keeps_lines && *s == '\n') {
            text_append(t, "\n", 1);
        } else if (*s) {
            memcpy(one, s, step);
            one[step] = 0;
            text_escape(one, piece, sizeof(piece));
            text_append(t, piece, strlen(piece));
        }
        s += step;
        n -= step;
    }
}

static void show_string(struct text *t, const struct conversion *c, const char *s)
{
    struct conversion whole = *c;
    struct text escaped = {.limit = t->limit};
    char format[48];
    s = s ? s : "(null)";
    append_escaped(&escaped, s, c->precision >= 0 ? strnlen(s, (size_t)c->precision) : strlen(s), false);
    whole.precision = -1;
    text_printf(t, spell(&whole, "", 's', format), escaped.data ? escaped.data : "");
    t->failed |= escaped.failed;
    text_free(&escaped);
}

void text_show_lines(struct text *t, const char *s)
{
    append_escaped(t, s, strlen(s), true);
}

/* ---- formats ---- */

static void show_one(struct text *t, const struct conversion *c, struct arguments *a)
{
    char format[48], byte[2] = "";
    switch (c->letter) {
    case '%': text_append(t, "%", 1); break;
    case 's': show_string(t, c, va_arg(a->ap, const char *)); break;
    case 'c':
        byte[0] = (char)va_arg(a->ap, int);
        show_string(t, c, byte);
        break;
    case 'd':
    case 'i': text_printf(t, spell(c, "j", c->letter, format), take_signed(c, a)); break;
    case 'u':
    case 'o':
    case 'x':
    case 'X': text_printf(t, spell(c, "j", c->letter, format), take_unsigned(c, a)); break;
    case 'p': text_printf(t, spell(c, "", 'p', format), va_arg(a->ap, void *)); break;
    default: assert(c->letter && strchr("eEfFgGaA", c->letter)); text_printf(t, spell(c, "", c->letter, format), va_arg(a->ap, double));
    }
}

void text_vshow(struct text *t, const char *format, va_list ap)
{
    struct arguments a;
    va_copy(a.ap, ap);
    while (*format) {
        size_t plain = strcspn(format, "%");
        struct conversion c;
        text_append(t, format, plain);
        format += plain;
        if (!*format)
            break;
        format = read_conversion(format + 1, &c, &a);
        show_one(t, &c, &a);
    }
    va_end(a.ap);
}

void text_show(struct text *t, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    text_vshow(t, format, ap);
    va_end(ap);
}
