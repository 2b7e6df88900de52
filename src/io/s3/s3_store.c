/* S3 as a store: listing, and blocking reads of a few ranges. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/io_list.h"
#include "io/s3/s3_list.h"

enum { STORE_IN_FLIGHT = 64, KEY_BYTES = 2 * S3_PREFIX_BYTES };
static const uint64_t closes_ns = 500000000;

struct store {
    struct s3_loop *loop;
    char name[S3_BUCKET_BYTES + S3_PREFIX_BYTES + 1200];
};

static int store_open(struct store **out, const char *url, const struct log *log, struct fb_error *e)
{
    struct s3_options o = {.most = STORE_IN_FLIGHT, .attempts = 10, .stall_s = 10, .stall_bytes = 1024};
    struct store *s = calloc(1, sizeof(*s));
    *out = NULL;
    if (!s)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory");
    int rc = s3_loop_open(&s->loop, url, &o, log, e);
    if (rc < 0) {
        free(s);
        return rc;
    }
    const struct s3_place *p = s3_loop_place(s->loop);
    snprintf(s->name, sizeof(s->name), "s3://%s/%s at %s%s", p->bucket, p->prefix, p->is_amazon ? "Amazon" : p->host, p->base);
    *out = s;
    return 0;
}

static const char *store_name(const struct store *s)
{
    return s->name;
}

static int store_list(struct store *s, int (*visit)(void *ctx, const struct store_object *o, struct fb_error *e), store_wait *wait,
                      void *ctx, struct fb_error *e)
{
    return s3_list(s->loop, visit, wait, ctx, e);
}

/* ---- reading ---- */

struct one {
    struct queue_item link;
    struct queue *came;
    struct s3_task task;
    struct fb_error error;
    char key[KEY_BYTES];
};

static void range_done(struct s3_task *t)
{
    struct one *o = t->owner;
    queue_put(o->came, &o->link);
}

static void start(struct store *s, struct queue *came, struct one *o, const struct store_range *range)
{
    const char *prefix = s3_loop_place(s->loop)->prefix;
    size_t n = strlen(prefix);
    snprintf(o->key, sizeof(o->key), "%s%s%s", prefix, n > 0 && range->key[0] && prefix[n - 1] != '/' ? "/" : "", range->key);
    o->came = came;
    error_clear(&o->error);
    o->task = (struct s3_task){
        .key = o->key,
        .wanted = {.offset = range->offset, .length = range->length, .room = range->length, .expected_size = S3_UNKNOWN, .may_skip = true},
        .to = range->out,
        .done = range_done,
        .owner = o,
        .error = &o->error};
    s3_loop_submit(s->loop, &o->task);
}

/* All of them come back, cancelled if need be: they write to memory of the caller's. */
static int await(struct store *s, struct queue *came, uint32_t count, store_wait *wait, void *ctx, struct fb_error *e)
{
    int rc = 0;
    while (count > 0) {
        if (s3_await(came, rc < 0 ? NULL : wait, ctx, &rc, e))
            count--;
        else
            s3_loop_cancel(s->loop);
    }
    return rc;
}

static void fill_in(struct store_range *range, const struct one *o, struct fb_error *e)
{
    const struct s3_task *t = &o->task;
    range->status = t->status > 0 ? FB_E_IO : t->status;
    range->got = t->status == 0 ? t->got : 0;
    range->object_size = t->version.size == S3_UNKNOWN ? 0 : t->version.size;
    range->mtime_ns = s3_version_mtime_ns(&t->version, 0);
    if (t->status < 0 && e && e->code == 0) {
        *e = o->error;
        error_at(e, o->key, -1);
    }
}

static int store_read(struct store *s, struct store_range *range, uint32_t count, store_wait *wait, void *ctx, struct fb_error *e)
{
    struct queue came;
    struct fb_error stop;
    struct one *all = calloc(count ? count : 1, sizeof(*all));
    if (!all)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to read");
    queue_init(&came);
    for (uint32_t i = 0; i < count; i++)
        start(s, &came, &all[i], &range[i]);
    error_clear(&stop);
    int rc = await(s, &came, count, wait, ctx, &stop);
    if (rc < 0 && e && e->code == 0)
        *e = stop;
    for (uint32_t i = 0; i < count; i++)
        fill_in(&range[i], &all[i], e);
    queue_destroy(&came);
    free(all);
    return rc;
}

static void store_close(struct store *s)
{
    s3_loop_close(s->loop, closes_ns);
    free(s);
}

const struct store_ops store_s3 = {
    .scheme = "s3", .open = store_open, .name = store_name, .list = store_list, .read = store_read, .close = store_close};
