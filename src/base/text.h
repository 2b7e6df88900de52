/* Text: growable strings with a hard maximum, escaping for terminal and JSON, sizes as people write them. */
#ifndef FB_BASE_TEXT_H
#define FB_BASE_TEXT_H

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
/* Appends "..." with JSON's escapes. Bytes that are not UTF-8 become \udcNN as Python's surrogateescape has them. */
void text_json_string(struct text *t, const char *s);
void text_free(struct text *t);

/* Copies a file name so that it is safe on a terminal: control characters, marks that turn the direction of writing and bytes that are not
 * UTF-8 become \xNN; cut with "..." if too long. */
char *text_escape(const char *s, char *out, size_t out_size);

/* strerror for any thread. */
const char *text_errno(int sys_errno, char *out, size_t out_size);

/* A finite number at the start of s, with a decimal point in any locale; *end is what follows. False: there is none. */
bool text_parse_double(const char *s, double *value, const char **end);

/* "64MiB", "2GB", "1.5G", "4096" -> bytes; K M G T mean 1024, as do KiB...; KB... mean 1000. False: not a size. */
bool text_parse_size(const char *s, uint64_t *bytes);
/* "64.0 MiB" */
char *text_size(uint64_t bytes, char *out, size_t out_size);

/* How many bytes the UTF-8 character at s has (1-4), 0 if it is not one. */
int text_utf8_length(const char *s, size_t n);

#endif
