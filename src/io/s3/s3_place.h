/* Where a bucket is: the URL taken apart, and the endpoint found.
 *
 *   s3://bucket/some/prefix
 *
 * Endpoint: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, endpoint_url of the profile, else Amazon's for the region. Region: AWS_REGION,
 * AWS_DEFAULT_REGION, the profile's, else us-east-1; a server that names another one is believed. Buckets are addressed by host at Amazon
 * (unless their name has a dot, which no certificate covers) and by path elsewhere; FULLBORE_S3_ADDRESSING or s3.addressing_style of the
 * profile (path, virtual) decide otherwise. FULLBORE_S3_ANONYMOUS=1: requests are not signed.
 */
#ifndef FB_IO_S3_S3_PLACE_H
#define FB_IO_S3_S3_PLACE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/text/text.h"
#include "io/s3/keys/s3_secret.h"
#include "io/s3/keys/s3_sign.h"

enum { S3_BUCKET_BYTES = 256, S3_PREFIX_BYTES = 1025 };

struct s3_place {
    char bucket[S3_BUCKET_BYTES];
    char prefix[S3_PREFIX_BYTES]; /* as given, without the slash before it; "" : the whole bucket */
    char region[S3_REGION_BYTES];
    char scheme[8]; /* "http", "https" */
    char host[512]; /* with its port unless that is the scheme's own: as the Host header has it */
    char base[512]; /* path before the bucket: "" or "/store" */
    bool is_amazon; /* the endpoint follows from the region */
    bool is_path_style, is_anonymous;
    char ca_bundle[1024]; /* AWS_CA_BUNDLE; "" : the system's */
};

/* FB_E_USAGE in words for what is no such URL or no endpoint. */
int s3_place_find(struct s3_place *p, const char *url, struct fb_error *e);
/* For a server that said so: another region, and Amazon's endpoint there. False: not a region's name. */
bool s3_place_move(struct s3_place *p, const char *region);

/* May a redirect to `url` be followed (without credentials)? Only with http or https, never from https to http, and only to the endpoint
 * itself (any port) or to names below it; at Amazon to its names for this bucket. So never to an address of this machine or its neighbours
 * unless that is the endpoint. */
bool s3_place_may_redirect(const struct s3_place *p, const char *url);

/* The path of an object (or of the bucket, key ""), not encoded: for signing. */
void s3_place_path(const struct s3_place *p, const char *key, struct text *out);
/* scheme://host/path?query, encoded; `path` as above. */
void s3_place_url(const struct s3_place *p, const char *path, const struct s3_pair *query, int query_count, struct text *out);

#endif
