/* Text: growable strings with a hard maximum, escaping for terminals, sizes as people write them. */
#ifndef FB_BASE_TEXT_TEXT_H
#define FB_BASE_TEXT_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A string that grows up to `limit` bytes; an append beyond it or without memory sets `failed`, and later appends do nothing.
 * Zero-initialised with a limit it is empty and valid; text_free ends it. */
struct text {
    char *data; /* NUL-terminated once anything was appended */
    size_t length, capacity, limit;
    bool failed;
};

void text_append(struct text *t, const char *bytes, size_t n);
void text_printf(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *t);
/* An empty text over a caller's array, of which it leaves the last byte for the NUL. Nothing is allocated: text_free is not for it. */
#define TEXT_OVER(ARRAY) {.data = (ARRAY), .capacity = sizeof(ARRAY), .limit = sizeof(ARRAY) - 1}

/* Copies a file name so that it is safe on a terminal: control characters, marks that turn the direction of writing and bytes that are not
 * UTF-8 become \xNN; cut with "..." if too long. */
char *text_escape(const char *s, char *out, size_t out_size);

/* What follows the last '/'. */
const char *text_last_part(const char *path);

/* Is there nothing in it that text_escape would change? */
bool text_is_harmless(const char *s);

/* snprintf with a decimal point in any locale. */
int text_format(char *out, size_t out_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int text_vformat(char *out, size_t out_size, const char *format, va_list ap);

/* Words for people, in one line: like text_format, then escaped as text_escape does, cut between characters. What error records, log
 * lines, verdicts and remarks are made with, so that nothing in them steers a terminal wherever they are printed. Escaping twice changes
 * nothing. */
void text_words(char *out, size_t out_size, const char *format, ...) __attribute__((format(printf, 3, 4)));
void text_vwords(char *out, size_t out_size, const char *format, va_list ap);

/* text_escape.c: like text_printf, but strings among the arguments are escaped: only the format can begin a line or steer a terminal. */
void text_show(struct text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vshow(struct text *t, const char *format, va_list ap);
/* Appends text of which only the line ends are meant: all else is escaped. */
void text_show_lines(struct text *t, const char *s);

/* strerror for any thread. */
const char *text_errno(int sys_errno, char *out, size_t out_size);

/* A finite number at the start of s, with a decimal point in any locale; *end is what follows. False: there is none. */
bool text_parse_double(const char *s, double *value, const char **end);

/* strtod with a decimal point in any locale: for text that is known to be a number, nan and inf among them. */
double text_to_double(const char *s);

/* Digits of base 10 or 16 (small letters) and nothing else: no sign, no space. False: there is none, or it is too large. */
bool text_parse_digits(const char *s, int base, uint64_t *value);

/* "64MiB", "2GB", "1.5G", "4096" -> bytes; K M G T mean 1024, as do KiB...; KB... mean 1000. False: not a size. */
bool text_parse_size(const char *s, uint64_t *bytes);
/* "64.0 MiB" */
char *text_size(uint64_t bytes, char *out, size_t out_size);

/* How many bytes the UTF-8 character at s has (1-4), 0 if it is not one. */
int text_utf8_length(const char *s, size_t n);
/* Does the UTF-8 character at s steer a terminal rather than show something? */
bool text_is_steering(const char *s, int length);

#endif
