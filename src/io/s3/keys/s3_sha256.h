/* SHA-256 (FIPS 180-4) and HMAC. Ours, because all that SigV4 wants of a TLS library is this: about 15 blocks per request, some 5 us beside
 * the 100 us that a request costs libcurl; and because keys and their copies then stay where s3_secret.h puts them. */
#ifndef FB_IO_S3_KEYS_S3_SHA256_H
#define FB_IO_S3_KEYS_S3_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK = 64 };

struct sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[SHA256_BLOCK];
};

void sha256_start(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *bytes, size_t n);
void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES]);

void sha256_hmac(const void *key, size_t key_bytes, const void *message, size_t n, uint8_t out[SHA256_BYTES]);

/* Lower-case hex with its NUL. */
void sha256_hex(const uint8_t hash[SHA256_BYTES], char out[2 * SHA256_BYTES + 1]);

#endif
