/* What a piece of text is. Numbers are decimal, with a point whatever the locale says; nan and inf in any case are numbers. */
#include "dataset/manifest/cell.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/text.h"

static const char *skip_digits(const char *s)
{
    while (isdigit((unsigned char)*s))
        s++;
    return s;
}

static const char *skip_word(const char *s)
{
    static const char *const words[] = {"nan", "infinity", "inf"};
    for (int i = 0; i < 3; i++)
        if (strncasecmp(s, words[i], strlen(words[i])) == 0)
            return s + strlen(words[i]);
    return NULL;
}

/* Where a number that starts at s ends, or NULL. strtod alone takes hexadecimal and more. */
static const char *skip_number(const char *s, bool *is_whole)
{
    *is_whole = false;
    if (*s == '+' || *s == '-')
        s++;
    const char *word = skip_word(s);
    if (word)
        return word;
    const char *end = skip_digits(s);
    bool has_digits = end > s;
    *is_whole = has_digits;
    if (*end == '.') {
        s = end + 1;
        end = skip_digits(s);
        has_digits |= end > s;
        *is_whole = false;
    }
    if (!has_digits)
        return NULL;
    if (*end == 'e' || *end == 'E') {
        s = end + 1 + (end[1] == '+' || end[1] == '-');
        if (isdigit((unsigned char)*s)) {
            *is_whole = false;
            end = skip_digits(s);
        }
    }
    return end;
}

static const char *skip_spaces(const char *s)
{
    return s + strspn(s, " \t");
}

static bool parse_scalar(struct cell *c, const char *s)
{
    bool is_whole;
    const char *end = skip_number(s, &is_whole);
    if (!end || *skip_spaces(end))
        return false;
    c->number = text_to_double(s);
    c->kind = CELL_NUMBER;
    if (is_whole) {
        errno = 0;
        c->integer = strtoll(s, NULL, 10);
        c->kind = errno == ERANGE ? CELL_HUGE : CELL_INTEGER;
    }
    return true;
}

void cell_add_float(struct text *floats, double number, bool *is_huge)
{
    float value = (float)number;
    *is_huge |= isinf(value) && !isinf(number);
    text_append(floats, (const char *)&value, sizeof(value));
}

/* "[1, 2, 3]" with commas, semicolons or spaces; without brackets semicolons or spaces, and at least two numbers. */
static bool parse_vector(struct cell *c, const char *s, struct text *floats)
{
    bool is_bracketed = *s == '[', is_huge = false, is_whole;
    size_t start = floats->length;
    s = skip_spaces(s + is_bracketed);
    while (*s && *s != ']') {
        const char *end = skip_number(s, &is_whole);
        const char *next = end ? skip_spaces(end) : NULL;
        if (!end || (next == end && *end && !strchr(is_bracketed ? ",;]" : ";", *end)))
            break;
        cell_add_float(floats, text_to_double(s), &is_huge);
        if (*next == ';' || (*next == ',' && is_bracketed))
            next = skip_spaces(next + 1);
        s = next;
    }
    size_t n = (floats->length - start) / sizeof(float);
    bool is_over = is_bracketed ? *s == ']' && !*skip_spaces(s + 1) : !*s;
    if (!is_over || n < (is_bracketed ? 1 : 2)) {
        floats->length = start;
        return false;
    }
    c->kind = is_huge ? CELL_HUGE : CELL_VECTOR;
    c->vector_length = (uint32_t)n;
    return true;
}

bool cell_parse(struct cell *c, const char *text, size_t length, struct text *floats)
{
    *c = (struct cell){.kind = CELL_TEXT, .text = text, .length = length};
    const char *s = skip_spaces(text);
    if (!*s) {
        c->kind = CELL_EMPTY;
        return true;
    }
    if (!strchr("+-.0123456789[nNiI", *s) || parse_scalar(c, s))
        return true;
    parse_vector(c, s, floats);
    return !floats->failed;
}

const char *cell_kind_name(enum cell_kind k)
{
    static const char *const names[CELL_KINDS] = {"nothing",          "text", "a whole number", "a number that is too large", "a number",
                                                  "a list of numbers"};
    return names[k];
}
