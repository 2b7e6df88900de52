/* Small files of /proc: read whole, parsed without locale and without trust. */
#ifndef FB_HOST_PROC_PROC_FILE_H
#define FB_HOST_PROC_PROC_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The beginning of a file as text. Bytes read, or -errno. `dir` may be AT_FDCWD. */
ssize_t proc_read(int dir, const char *path, char *out, size_t out_size);
/* The same from the start of an open file. */
ssize_t proc_read_fd(int fd, char *out, size_t out_size);

/* The whole number after `name` (at the start of a line, followed by ':', ' ' or '='); false: not there. */
bool proc_value(const char *text, const char *name, uint64_t *value);
/* Up to `most` whole numbers separated by blanks; how many there were. */
int proc_numbers(const char *text, uint64_t *value, int most);

#endif
