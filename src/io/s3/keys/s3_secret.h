/* Keys in memory: pages of their own that no core dump contains, wiped when they are given back. Whatever holds an access key, a secret, a
 * token or a file that contains them lives here. (libcurl's own buffers, through which tokens are sent, are beyond our reach.) */
#ifndef FB_IO_S3_KEYS_S3_SECRET_H
#define FB_IO_S3_KEYS_S3_SECRET_H

#include <stddef.h>
#include <stdint.h>

#include "io/s3/keys/s3_sha256.h"

enum { S3_KEY_BYTES = 256, S3_TOKEN_BYTES = 12288, S3_REGION_BYTES = 64 };

struct s3_keys {
    char access_key[S3_KEY_BYTES];
    char secret_key[S3_KEY_BYTES];
    char token_header[S3_TOKEN_BYTES]; /* "x-amz-security-token: ...", ready to be sent; "" : no token */
    int64_t expires_s;                 /* since 1970; 0: not known to */
    uint32_t generation;               /* counted by s3_credentials.c; 0: none */
    const char *from;                  /* where they came from, for messages: "the environment" */
    uint8_t signing_key[SHA256_BYTES]; /* of the day and region below */
    char signing_date[9], signing_region[S3_REGION_BYTES];
};

/* Zeroed; NULL: no memory. */
void *s3_secret_map(size_t bytes);
void s3_secret_unmap(void *data, size_t bytes);

/* A whole file, NUL-terminated, in secret memory; *mapped is its size for s3_secret_unmap. NULL: not readable, or larger than 1 MiB. */
char *s3_secret_read_file(const char *path, size_t *length, size_t *mapped);

/* Sets all three (token "": none). 0: one is too long, empty, or holds what cannot stand in a header. */
int s3_keys_set(struct s3_keys *k, const char *access_key, const char *secret_key, const char *token);
const char *s3_keys_token(const struct s3_keys *k); /* "" : none */

#endif
