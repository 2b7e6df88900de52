#include "host/proc/proc_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

ssize_t proc_read_fd(int fd, char *out, size_t out_size)
{
    size_t used = 0;
    while (used < out_size - 1) {
        ssize_t got = pread(fd, out + used, out_size - 1 - used, (off_t)used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            out[0] = 0;
            return -errno;
        }
        used += (size_t)got;
        if (got == 0 || used < 3072) /* files of /proc end at the first short answer; only the long ones need a second look */
            break;
    }
    out[used] = 0;
    return (ssize_t)used;
}

ssize_t proc_read(int dir, const char *path, char *out, size_t out_size)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        out[0] = 0;
        return -errno;
    }
    ssize_t got = proc_read_fd(fd, out, out_size);
    close(fd);
    return got;
}

bool proc_value(const char *text, const char *name, uint64_t *value)
{
    size_t length = strlen(name);
    for (const char *line = text; line && *line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == ':' || line[length] == ' ' || line[length] == '='))
            return proc_numbers(line + length + 1, value, 1) == 1;
    }
    return false;
}

int proc_numbers(const char *text, uint64_t *value, int most)
{
    int count = 0;
    while (count < most) {
        while (*text == ' ' || *text == '\t')
            text++;
        if (!isdigit((unsigned char)*text))
            break;
        char *end;
        errno = 0;
        value[count] = strtoull(text, &end, 10);
        if (errno)
            break;
        text = end;
        count++;
    }
    return count;
}
