#include "io/s3/keys/s3_secret.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file/file.h"

#define TOKEN_HEADER "x-amz-security-token: "

enum { FILE_MOST = 1 << 20 };

void *s3_secret_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    madvise(p, bytes, MADV_DONTDUMP);
    return p;
}

void s3_secret_unmap(void *data, size_t bytes)
{
    if (!data)
        return;
    explicit_bzero(data, bytes);
    munmap(data, bytes);
}

char *s3_secret_read_file(const char *path, size_t *length, size_t *mapped)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return NULL;
    *mapped = FILE_MOST + 4096;
    char *data = s3_secret_map(*mapped);
    *length = data ? file_read_all(fd, data, FILE_MOST + 1) : 0;
    close(fd);
    if (data && *length <= FILE_MOST)
        return data;
    s3_secret_unmap(data, *mapped);
    return NULL;
}

/* Printable ASCII only: it will stand in a header line. */
static bool is_sound(const char *s, size_t most)
{
    size_t n = strlen(s);
    if (n >= most)
        return false;
    for (; *s; s++)
        if (*s <= ' ' || *s > '~')
            return false;
    return true;
}

int s3_keys_set(struct s3_keys *k, const char *access_key, const char *secret_key, const char *token)
{
    if (!*access_key || !*secret_key || !is_sound(access_key, S3_KEY_BYTES) || !is_sound(secret_key, S3_KEY_BYTES) ||
        !is_sound(token, S3_TOKEN_BYTES - sizeof(TOKEN_HEADER)))
        return 0;
    explicit_bzero(k, sizeof(*k));
    strcpy(k->access_key, access_key);
    strcpy(k->secret_key, secret_key);
    if (*token)
        snprintf(k->token_header, sizeof(k->token_header), TOKEN_HEADER "%s", token);
    return 1;
}

const char *s3_keys_token(const struct s3_keys *k)
{
    return k->token_header[0] ? k->token_header + strlen(TOKEN_HEADER) : "";
}
