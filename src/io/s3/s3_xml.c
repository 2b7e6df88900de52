#include "io/s3/s3_xml.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

void s3_xml_start(struct s3_xml *x, const char *bytes, size_t n, size_t limit)
{
    *x = (struct s3_xml){.at = bytes, .end = bytes + n, .text = {.limit = limit}};
    if (n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0)
        x->at += 3;
}

void s3_xml_free(struct s3_xml *x)
{
    text_free(&x->text);
}

const char *s3_xml_name(const struct s3_xml *x)
{
    return x->depth > 0 ? x->name[x->depth - 1] : "";
}

const char *s3_xml_parent(const struct s3_xml *x)
{
    return x->depth > 1 ? x->name[x->depth - 2] : "";
}

const char *s3_xml_text(const struct s3_xml *x)
{
    return x->text.length ? x->text.data : "";
}

static enum s3_xml_event bad(struct s3_xml *x)
{
    x->is_bad = true;
    return S3_XML_BAD;
}

static bool starts_with(const struct s3_xml *x, const char *word)
{
    size_t n = strlen(word);
    return (size_t)(x->end - x->at) >= n && memcmp(x->at, word, n) == 0;
}

/* Behind the next `mark`, or NULL: there is none. */
static const char *behind(const struct s3_xml *x, const char *mark)
{
    const char *found = memmem(x->at, (size_t)(x->end - x->at), mark, strlen(mark));
    return found ? found + strlen(mark) : NULL;
}

/* ---- text ---- */

static bool append_character(struct text *out, uint32_t c)
{
    char utf8[4];
    size_t n;
    if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return false;
    if (c < 0x80) {
        utf8[0] = (char)c;
        n = 1;
    } else if (c < 0x800) {
        utf8[0] = (char)(0xC0 | c >> 6);
        n = 2;
    } else if (c < 0x10000) {
        utf8[0] = (char)(0xE0 | c >> 12);
        n = 3;
    } else {
        utf8[0] = (char)(0xF0 | c >> 18);
        n = 4;
    }
    for (size_t i = 1; i < n; i++)
        utf8[i] = (char)(0x80 | ((c >> 6 * (n - 1 - i)) & 0x3F));
    text_append(out, utf8, n);
    return true;
}

static bool append_number(struct text *out, const char *s, size_t n)
{
    uint32_t base = 10, c = 0;
    if (n > 0 && (*s == 'x' || *s == 'X')) {
        base = 16;
        s++;
        n--;
    }
    if (n == 0 || n > 8)
        return false;
    for (size_t i = 0; i < n; i++) {
        char low = (char)(s[i] | 0x20);
        uint32_t d = s[i] >= '0' && s[i] <= '9' ? (uint32_t)(s[i] - '0') : low >= 'a' && low <= 'f' ? (uint32_t)(low - 'a' + 10) : 99;
        if (d >= base)
            return false;
        c = c * base + d;
        if (c > 0x10FFFF)
            return false;
    }
    return append_character(out, c);
}

/* At '&'. */
static bool read_entity(struct s3_xml *x)
{
    static const struct {
        const char *name;
        char is;
    } known[] = {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}};
    x->at++;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (starts_with(x, known[i].name)) {
            text_append(&x->text, &known[i].is, 1);
            x->at += strlen(known[i].name);
            return true;
        }
    size_t left = (size_t)(x->end - x->at);
    const char *semicolon = memchr(x->at, ';', left < 12 ? left : 12);
    if (!starts_with(x, "#") || !semicolon || !append_number(&x->text, x->at + 1, (size_t)(semicolon - x->at - 1)))
        return false;
    x->at = semicolon + 1;
    return true;
}

static bool read_text(struct s3_xml *x)
{
    while (x->at < x->end && *x->at != '<') {
        if (*x->at == '&') {
            if (!read_entity(x))
                return false;
            continue;
        }
        const char *from = x->at;
        while (x->at < x->end && *x->at != '<' && *x->at != '&')
            x->at++;
        if (memchr(from, 0, (size_t)(x->at - from)))
            return false;
        text_append(&x->text, from, (size_t)(x->at - from));
    }
    return !x->text.failed;
}

/* ---- tags ---- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* The name at x->at, without its prefix, cut to fit. */
static bool read_name(struct s3_xml *x, char *out)
{
    const char *from = x->at;
    while (x->at < x->end && !is_space(*x->at) && *x->at != '>' && *x->at != '/' && *x->at != '<' && *x->at != 0)
        x->at++;
    if (x->at == from || x->at == x->end)
        return false;
    const char *colon = memchr(from, ':', (size_t)(x->at - from));
    from = colon ? colon + 1 : from;
    snprintf(out, S3_XML_NAME, "%.*s", (int)(x->at - from < S3_XML_NAME ? x->at - from : S3_XML_NAME), from);
    return true;
}

/* Skips attributes up to '>'; a '>' inside quotes does not count. *is_empty: "/>". */
static bool skip_attributes(struct s3_xml *x, bool *is_empty)
{
    char quote = 0;
    for (; x->at < x->end; x->at++) {
        if (quote) {
            quote = *x->at == quote ? 0 : quote;
            continue;
        }
        if (*x->at == '"' || *x->at == '\'')
            quote = *x->at;
        else if (*x->at == '<')
            return false;
        else if (*x->at == '>') {
            *is_empty = x->at[-1] == '/';
            x->at++;
            return true;
        }
    }
    return false;
}

static enum s3_xml_event read_start(struct s3_xml *x)
{
    bool is_empty;
    x->at++;
    if (x->depth == S3_XML_DEPTH || (x->depth == 0 && x->has_root))
        return bad(x);
    if (!read_name(x, x->name[x->depth]) || !skip_attributes(x, &is_empty))
        return bad(x);
    x->depth++;
    x->has_root = true;
    x->owes_end = is_empty;
    x->text.length = 0;
    return S3_XML_START;
}

/* The element stays the innermost one until the next call, so that its name and parent can be asked for. */
static enum s3_xml_event read_end(struct s3_xml *x)
{
    char name[S3_XML_NAME];
    bool unused;
    x->at += 2;
    if (x->depth == 0 || !read_name(x, name) || !skip_attributes(x, &unused) || strcmp(name, x->name[x->depth - 1]) != 0)
        return bad(x);
    return S3_XML_END_OF;
}

static bool skip_to(struct s3_xml *x, const char *mark)
{
    const char *next = behind(x, mark);
    x->at = next ? next : x->at;
    return next != NULL;
}

static bool read_cdata(struct s3_xml *x)
{
    x->at += strlen("<![CDATA[");
    const char *from = x->at;
    if (x->depth == 0 || !skip_to(x, "]]>"))
        return false;
    size_t n = (size_t)(x->at - from) - 3;
    if (memchr(from, 0, n))
        return false;
    text_append(&x->text, from, n);
    return !x->text.failed;
}

static bool is_blank(const struct text *t)
{
    for (size_t i = 0; i < t->length; i++)
        if (!is_space(t->data[i]))
            return false;
    return true;
}

/* Leaves the element whose end was told by the last call. */
static void leave(struct s3_xml *x)
{
    x->depth--;
    x->text.length = 0;
}

enum s3_xml_event s3_xml_next(struct s3_xml *x)
{
    if (x->is_bad)
        return S3_XML_BAD;
    if (x->owes_end) { /* "<a/>": its end follows its start */
        x->owes_end = false;
        x->owes_leave = true;
        return S3_XML_END_OF;
    }
    if (x->owes_leave) {
        x->owes_leave = false;
        leave(x);
    }
    for (;;) {
        if (!read_text(x) || (x->depth == 0 && !is_blank(&x->text)))
            return bad(x);
        if (x->at == x->end)
            return x->depth == 0 && x->has_root ? S3_XML_OVER : bad(x);
        bool is_skipped = true;
        if (starts_with(x, "<?"))
            is_skipped = skip_to(x, "?>");
        else if (starts_with(x, "<!--"))
            is_skipped = skip_to(x, "-->");
        else if (starts_with(x, "<![CDATA["))
            is_skipped = read_cdata(x);
        else if (starts_with(x, "<!"))
            return bad(x); /* a DTD */
        else if (starts_with(x, "</")) {
            enum s3_xml_event event = read_end(x);
            x->owes_leave = event == S3_XML_END_OF;
            return event;
        } else
            return read_start(x);
        if (!is_skipped)
            return bad(x);
    }
}

void s3_xml_read_error(struct s3_xml_error *e, const char *bytes, size_t n)
{
    struct s3_xml x;
    *e = (struct s3_xml_error){0};
    s3_xml_start(&x, bytes, n, 4096);
    for (;;) {
        enum s3_xml_event event = s3_xml_next(&x);
        if (event == S3_XML_OVER || event == S3_XML_BAD)
            break;
        if (event != S3_XML_END_OF || strcmp(s3_xml_parent(&x), "Error") != 0)
            continue;
        const char *name = s3_xml_name(&x);
        if (strcmp(name, "Code") == 0)
            snprintf(e->code, sizeof(e->code), "%s", s3_xml_text(&x));
        else if (strcmp(name, "Message") == 0)
            snprintf(e->message, sizeof(e->message), "%s", s3_xml_text(&x));
        else if (strcmp(name, "Region") == 0)
            snprintf(e->region, sizeof(e->region), "%s", s3_xml_text(&x));
    }
    s3_xml_free(&x);
}
