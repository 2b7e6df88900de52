/* What is in a bucket: ListObjectsV2, page by page; once the first page shows that there are more, several stretches of the key space at
 * once.
 *
 * Stretches begin at "folders" (common prefixes), found by a few listings with a delimiter. A stretch is asked for with start-after and
 * ends where the next begins, so requests grow with the number of keys and not with that of folders. A server that does not sort, or does
 * not know start-after, is noticed by its first answer and read page after page.
 */
#ifndef FB_IO_S3_S3_LIST_H
#define FB_IO_S3_S3_LIST_H

#include "base/queue.h"
#include "io/s3/loop/s3_loop.h"
#include "model/store_ops.h"

enum { S3_LIST_LIMIT = 64 << 20 }; /* bytes of a page */

/* One page. Hooks may stop by a negative code. */
struct s3_page_visitor {
    int (*object)(void *ctx, const struct store_object *o, struct fb_error *e); /* full key */
    int (*prefix)(void *ctx, const char *prefix, struct fb_error *e);
    void *ctx;
};
struct s3_page {
    bool is_truncated;
    struct text token; /* of the next page */
};
/* FB_E_DATA: not a listing. `bytes` are hostile. */
int s3_page_read(struct s3_page *p, const char *bytes, size_t n, const struct s3_page_visitor *v, struct fb_error *e);
void s3_page_free(struct s3_page *p);

/* Below the prefix of the loop's URL; keys are relative to it. As store_ops.list. */
int s3_list(struct s3_loop *l, int (*visit)(void *ctx, const struct store_object *o, struct fb_error *e), store_wait *wait, void *ctx,
            struct fb_error *e);

/* The next item that tasks put into `came`; asks `wait` (may be NULL) meanwhile. NULL: it said no, *rc is its code. */
void *s3_await(struct queue *came, store_wait *wait, void *ctx, int *rc, struct fb_error *e);

#endif
