/* Where the keys that sign requests come from: environment -> profile files -> web identity -> container -> instance metadata (IMDSv2). The
 * first that has any is used from then on. Keys that expire are renewed on a separate thread while the old ones still work. Keys that are
 * already expired when they arrive are tried anyway: this machine's clock may be wrong, and the server decides.
 *
 * Safety: open, now, refuse and close belong to one thread at a time (the loop's, once it runs); the refreshing thread only writes `next`
 * and then sets its state. The keys that `now` returned are valid until the next call.
 */
#ifndef FB_IO_S3_KEYS_S3_CREDENTIALS_H
#define FB_IO_S3_KEYS_S3_CREDENTIALS_H

#include <stdatomic.h>

#include "base/log.h"
#include "io/s3/s3_place.h"

struct s3_credentials;

/* Fetches the first keys; may take seconds when a server has to be asked. FB_E_NOT_FOUND: no source has keys; the remedy says what to do.
 * */
int s3_credentials_open(struct s3_credentials **out, const struct s3_place *p, const struct log *log, struct fb_error *e);
/* `wake` is called from the refreshing thread when it is over. */
void s3_credentials_on_refresh(struct s3_credentials *c, void (*wake)(void *ctx), void *ctx);
/* NULL: there are none now, because the old ones are refused or expired and new ones are under way; or for good: then `e` says why.
 * `now_s` is the server's time as far as it is known. */
struct s3_keys *s3_credentials_now(struct s3_credentials *c, int64_t now_s, struct fb_error *e);
/* The server says that the keys of this generation are expired. New ones are asked for, unless newer ones have come meanwhile. */
void s3_credentials_refuse(struct s3_credentials *c, uint32_t generation);
void s3_credentials_close(struct s3_credentials *c);

/* ---- the chain, for s3_credentials.c and tests ---- */

/* What a source of keys may use. */
struct s3_asking {
    const struct s3_place *place;
    const _Atomic bool *is_closing; /* ends a request under way; may be NULL */
};

struct s3_key_source {
    const char *name; /* "the environment" */
    /* 1: `out` is filled. 0: this source is not set up here. Negative: it is, but failed. */
    int (*fetch)(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e);
};

extern const struct s3_key_source s3_key_sources[]; /* in order; ends with a NULL name */

int s3_keys_from_web_identity(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e);
int s3_keys_from_container(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e);
int s3_keys_from_instance(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e);

#endif
