/* The shape of an object store, as far as a data set needs it: what is there, and a few bytes of some of it. One static const table per
 * kind, listed in io/store_list.c. The samples themselves are read through the store's io back-end (io_ops.h), "s3:url=s3://...".
 *
 * Nothing is ever written to a store.
 *
 * Versions: an object's time is the second it was last modified plus, as nanoseconds, a hash of its ETag. So it is a time for those who
 * want one, and differs for every version of an object for those who compare. Back-ends that meet a version with the hash they were told
 * to expect answer with exactly the expected value, since servers round seconds differently in listings and answers.
 */
#ifndef FB_MODEL_STORE_OPS_H
#define FB_MODEL_STORE_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"

struct store; /* the store's own */

struct store_object {
    const char *key; /* relative to the URL's prefix; never empty */
    uint64_t size;
    int64_t mtime_ns; /* see above */
};

/* One range to read; `out` holds `length` bytes. */
struct store_range {
    const char *key; /* relative; "": the URL itself is the object */
    uint64_t offset, length;
    void *out;
    uint64_t got;         /* less than length: the object ends before */
    uint64_t object_size; /* 0: not told */
    int64_t mtime_ns;
    int status; /* 0, or FB_E_*: this one could not be read */
};

/* Called on the caller's thread at least every 50 ms while a hook waits; negative ends the wait with that code. */
typedef int store_wait(void *ctx, struct fb_error *e);

struct store_ops {
    const char *scheme; /* "s3": URLs "s3://..." */

    /* MUST. `url` names a prefix ("s3://bucket/photos") or an object. Checks the words, finds credentials; may ask the network for those.
     * */
    int (*open)(struct store **out, const char *url, const struct log *log, struct fb_error *e);

    /* MUST. What tells this place from others, for keeping what is known about it: "s3://bucket/photos at host". Lives as long as the
     * store. */
    const char *(*name)(const struct store *s);

    /* MUST. Every object below the prefix, in any order; `visit` may stop it by a negative code. FB_E_NOT_FOUND: there is no such bucket.
     * */
    int (*list)(struct store *s, int (*visit)(void *ctx, const struct store_object *o, struct fb_error *e), store_wait *wait, void *ctx,
                struct fb_error *e);

    /* MUST. All ranges, many at once; back when every one is over. The first failure is told in `e`, all in their status; a failed range
     * does not fail the call, only an interruption does. */
    int (*read)(struct store *s, struct store_range *range, uint32_t count, store_wait *wait, void *ctx, struct fb_error *e);

    /* MUST. */
    void (*close)(struct store *s);
};

#endif
