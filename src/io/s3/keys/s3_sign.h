/* Signing requests: AWS Signature Version 4, as S3 wants it.
 *
 * Every name and value is encoded by one function (s3_encode), for the signature and for the URL alike, so that what is sent is what was
 * signed whatever a key contains. The path is encoded once and not normalised: to S3 "a//b", "a/./b" and "a/b" are three objects. libcurl's
 * own signer (7.88) is not used: it signs what the URL says instead of what it means, and fails for keys with '=' and for some queries.
 */
#ifndef FB_IO_S3_KEYS_S3_SIGN_H
#define FB_IO_S3_KEYS_S3_SIGN_H

#include <stdbool.h>

#include "base/text/text.h"
#include "io/s3/keys/s3_sha256.h"

#define S3_EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" /* SHA-256 of nothing: all our requests */

struct s3_pair {
    const char *name, *value;
};

enum { S3_MOST_PAIRS = 24 };

struct s3_signing {
    const char *method;
    const char *path;            /* not encoded, begins with '/' */
    const struct s3_pair *query; /* not encoded, in any order */
    int query_count;
    const struct s3_pair *header; /* any order, any case; Host and X-Amz-Date among them */
    int header_count;
    const char *payload_hash; /* hex */
    const char *date;         /* "20150830T123600Z" */
    const char *region, *service;
};

/* Appends with everything but letters, digits and "-._~" as %XX; '/' stays if keeps_slash. */
void s3_encode(struct text *out, const char *s, size_t n, bool keeps_slash);
/* "a=b&c=d", encoded and sorted as the signature wants it; also fit for a URL. At most S3_MOST_PAIRS. */
void s3_encode_query(struct text *out, const struct s3_pair *query, int count);

/* The steps, for tests; each appends to `out`. */
void s3_canonical_request(struct text *out, const struct s3_signing *s);
void s3_string_to_sign(struct text *out, const struct s3_signing *s, const char *canonical, size_t n);
/* A day's key: secret memory, please. */
void s3_signing_key(uint8_t out[SHA256_BYTES], const char *secret, const char *date, const char *region, const char *service);

/* Appends the value of the Authorization header. `work` is memory that is overwritten. False: no memory. */
bool s3_authorization(struct text *out, struct text *work, const struct s3_signing *s, const char *access_key,
                      const uint8_t key[SHA256_BYTES]);

#endif
