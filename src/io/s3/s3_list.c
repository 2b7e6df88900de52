#include "io/s3/s3_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/compare.h"

enum { MOST_STRETCHES = 32, MOST_FOLDERS = 1 << 14, FOLDER_PAGES = 8, FEW_FOLDERS = 16, ASK_EVERY_NS = 50000000 };

struct listing;

/* A part of the key space that is read page after page: keys in (after, until]. */
struct stretch {
    struct queue_item link; /* in what came */
    struct listing *of;
    char *after;       /* NULL: from the start */
    const char *until; /* NULL: to the end */
    const char *below; /* the prefix asked for */
    bool has_delimiter;
    struct text body, token, last; /* page under way; where the next begins; the last key of this one */
    bool has_token, is_over, is_unsorted, is_out;
    struct s3_task task;
    struct s3_pair query[8];
    struct fb_error error;
};

struct listing {
    struct s3_loop *loop;
    int (*visit)(void *ctx, const struct store_object *o, struct fb_error *e);
    store_wait *wait;
    void *ctx;
    char prefix[S3_PREFIX_BYTES + 1]; /* ends with '/', or empty */
    struct queue came;                /* stretches whose page is there */
    uint32_t out;                     /* pages asked for and not handled; the caller's */
    char **folder;                    /* common prefixes */
    uint32_t folder_count;
};

/* ---- asking ---- */

static void page_done(struct s3_task *t)
{
    struct stretch *s = t->owner;
    queue_put(&s->of->came, &s->link);
}

static void add(struct stretch *s, const char *name, const char *value)
{
    s->query[s->task.query_count++] = (struct s3_pair){name, value};
}

static void ask(struct stretch *s)
{
    error_clear(&s->error);
    s->body.limit = S3_LIST_LIMIT;
    s->body.length = 0;
    s->task = (struct s3_task){.key = "",
                               .query = s->query,
                               .wanted = {.length = S3_ALL, .room = UINT64_MAX, .expected_size = S3_UNKNOWN},
                               .body = &s->body,
                               .done = page_done,
                               .owner = s,
                               .error = &s->error};
    add(s, "encoding-type", "url");
    add(s, "list-type", "2");
    if (s->below[0])
        add(s, "prefix", s->below);
    if (s->has_delimiter)
        add(s, "delimiter", "/");
    if (s->has_token)
        add(s, "continuation-token", s->token.data);
    else if (s->after)
        add(s, "start-after", s->after);
    s->of->out++;
    s3_loop_submit(s->of->loop, &s->task);
}

void *s3_await(struct queue *came, store_wait *wait, void *ctx, int *rc, struct fb_error *e)
{
    for (;;) {
        void *item = queue_take_until(came, wait ? clock_now_ns() + ASK_EVERY_NS : UINT64_MAX);
        if (item)
            return item;
        if (wait && (*rc = wait(ctx, e)) < 0)
            return NULL;
    }
}

/* The next page that is there; NULL with a code in *rc: interrupted. */
static struct stretch *await(struct listing *l, int *rc, struct fb_error *e)
{
    struct stretch *s = s3_await(&l->came, l->wait, l->ctx, rc, e);
    l->out -= s != NULL;
    return s;
}

/* Nothing is freed while the loop may write to it. */
static void drain(struct listing *l)
{
    struct fb_error unused;
    int rc;
    if (l->out == 0)
        return;
    l->wait = NULL;
    s3_loop_cancel(l->loop);
    while (l->out > 0) {
        error_clear(&unused);
        await(l, &rc, &unused);
    }
}

static void free_stretch(struct stretch *s)
{
    free(s->after);
    text_free(&s->body);
    text_free(&s->token);
    text_free(&s->last);
}

/* ---- a page ---- */

static int on_object(void *ctx, const struct store_object *o, struct fb_error *e)
{
    struct stretch *s = ctx;
    struct listing *l = s->of;
    size_t prefix = strlen(l->prefix);
    if (strncmp(o->key, l->prefix, prefix) != 0)
        return error_set(e, FB_E_DATA, "dataset", "the S3 server lists objects that were not asked for");
    s->is_unsorted |= strcmp(o->key, s->last.length ? s->last.data : s->after ? s->after : "") <= 0;
    s->last.length = 0;
    text_append(&s->last, o->key, strlen(o->key) + 1);
    s->is_out |= s->until && strcmp(o->key, s->until) > 0;
    if (s->is_out || s->has_delimiter || o->key[prefix] == 0)
        return s->last.failed ? error_set(e, FB_E_NOMEM, "dataset", "no memory to list") : 0;
    struct store_object relative = {o->key + prefix, o->size, o->mtime_ns};
    return l->visit(l->ctx, &relative, e);
}

static int on_folder(void *ctx, const char *prefix, struct fb_error *e)
{
    struct listing *l = ((struct stretch *)ctx)->of;
    if (l->folder_count == MOST_FOLDERS)
        return 0;
    char *copy = strdup(prefix);
    if (!copy)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to list");
    l->folder[l->folder_count++] = copy;
    return 0;
}

/* Visits a page's objects and notes how it goes on. */
static int handle(struct stretch *s, struct fb_error *e)
{
    struct s3_page page;
    struct s3_page_visitor v = {on_object, on_folder, s};
    if (s->task.status < 0) {
        if (e && e->code == 0)
            *e = s->error;
        return s->task.status;
    }
    int rc = s3_page_read(&page, s->body.data ? s->body.data : "", s->body.length, &v, e);
    if (rc == 0 && page.is_truncated && s->has_token && strcmp(page.token.data, s->token.data) == 0)
        rc = error_set(e, FB_E_DATA, "dataset", "the S3 server's listing does not end: a page names itself as the next page");
    s->is_over = rc < 0 || !page.is_truncated || s->is_out;
    s->has_token = page.token.length > 0;
    text_free(&s->token);
    s->token = page.token;
    return rc;
}

static int one_page(struct stretch *s, struct fb_error *e)
{
    int rc = 0;
    ask(s);
    struct stretch *came = await(s->of, &rc, e);
    return came ? handle(came, e) : rc;
}

static int page_after_page(struct stretch *s, struct fb_error *e)
{
    while (!s->is_over)
        FB_TRY(one_page(s, e));
    return 0;
}

/* ---- several stretches at once ---- */

static int find_folders_below(struct listing *l, const char *below, struct fb_error *e)
{
    struct stretch s = {.of = l, .below = below, .has_delimiter = true, .last.limit = 1 << 16};
    int rc = 0;
    for (int pages = 0; rc == 0 && !s.is_over && pages < FOLDER_PAGES; pages++)
        rc = one_page(&s, e);
    if (rc < 0)
        drain(l);
    free_stretch(&s);
    return rc;
}

/* Two levels, if the first has few: "train/" and "val/". */
static int find_folders(struct listing *l, struct fb_error *e)
{
    FB_TRY(find_folders_below(l, l->prefix, e));
    uint32_t count = l->folder_count;
    for (uint32_t i = 0; i < count && count < FEW_FOLDERS; i++)
        FB_TRY(find_folders_below(l, l->folder[i], e));
    qsort(l->folder, l->folder_count, sizeof(*l->folder), compare_text);
    return 0;
}

/* Stretches 1.. begin at folders behind `last`; 0 goes on where the first page ended. Returns how many there are. */
static uint32_t cut(struct listing *l, struct stretch *s, const char *last)
{
    uint32_t from = 0, n = 1;
    while (from < l->folder_count && strcmp(l->folder[from], last) <= 0)
        from++;
    uint32_t left = l->folder_count - from, step = left / MOST_STRETCHES + 1;
    for (uint32_t i = from; i < l->folder_count && n < MOST_STRETCHES; i += step) {
        char *start = strdup(l->folder[i]);
        if (!start)
            break;
        s[n] = (struct stretch){.of = l, .after = start, .below = l->prefix, .last.limit = 1 << 16};
        s[n - 1].until = start;
        n++;
    }
    return n;
}

static int run(struct stretch *s, uint32_t count, struct fb_error *e)
{
    struct listing *l = s->of;
    int rc = 0;
    for (uint32_t i = 0; i < count; i++)
        if (!s[i].is_over)
            ask(&s[i]);
    while (l->out > 0) {
        struct stretch *came = await(l, &rc, e);
        FB_TRY(came ? handle(came, e) : rc);
        if (came->is_unsorted)
            return error_set(e, FB_E_DATA, "dataset", "the S3 server changed the order of its listing between pages");
        if (!came->is_over)
            ask(came);
    }
    return 0;
}

static int skip_visit(void *ctx, const struct store_object *o, struct fb_error *e)
{
    (void)ctx, (void)o, (void)e;
    return 0;
}

/* Asks for a page of the last stretch and throws it away: does the server do what the rest relies on? One that begins at the start
 * whatever it is asked for shows it here if anywhere. A page without keys does not tell. */
static int probe(struct listing *l, const struct stretch *s, struct fb_error *e)
{
    struct stretch p = {.of = l, .after = strdup(s->after), .below = l->prefix, .last.limit = 1 << 16};
    int (*visit)(void *, const struct store_object *, struct fb_error *) = l->visit;
    if (!p.after)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to list");
    l->visit = skip_visit;
    int rc = 0;
    while (rc == 0 && !p.is_over && p.last.length == 0)
        rc = one_page(&p, e);
    l->visit = visit;
    if (rc < 0)
        drain(l);
    int is_sound = !p.is_unsorted;
    free_stretch(&p);
    return rc < 0 ? rc : is_sound;
}

static int list_rest(struct listing *l, struct stretch *s, struct fb_error *e)
{
    if (s[0].is_unsorted)
        return page_after_page(&s[0], e);
    FB_TRY(find_folders(l, e));
    uint32_t count = cut(l, s, s[0].last.length ? s[0].last.data : ""); /* a page may have no keys and yet go on */
    int rc = count > 1 ? probe(l, &s[count - 1], e) : 0;
    if (rc == 1)
        rc = run(s, count, e);
    else if (rc == 0) {
        s[0].until = NULL;
        rc = page_after_page(&s[0], e);
    }
    return rc;
}

static int list_all(struct listing *l, struct fb_error *e)
{
    struct stretch *s = calloc(MOST_STRETCHES, sizeof(*s));
    l->folder = calloc(MOST_FOLDERS, sizeof(*l->folder));
    if (!s || !l->folder) {
        free(s);
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to list");
    }
    s[0] = (struct stretch){.of = l, .below = l->prefix, .last.limit = 1 << 16};
    int rc = one_page(&s[0], e);
    if (rc == 0 && !s[0].is_over)
        rc = list_rest(l, s, e);
    if (rc < 0)
        drain(l);
    for (int i = 0; i < MOST_STRETCHES; i++)
        free_stretch(&s[i]);
    free(s);
    return rc;
}

int s3_list(struct s3_loop *loop, int (*visit)(void *ctx, const struct store_object *o, struct fb_error *e), store_wait *wait, void *ctx,
            struct fb_error *e)
{
    struct listing l = {.loop = loop, .visit = visit, .wait = wait, .ctx = ctx};
    const char *prefix = s3_loop_place(loop)->prefix;
    size_t n = strlen(prefix);
    snprintf(l.prefix, sizeof(l.prefix), "%s%s", prefix, n > 0 && prefix[n - 1] != '/' ? "/" : "");
    queue_init(&l.came);
    int rc = list_all(&l, e);
    for (uint32_t i = 0; i < l.folder_count; i++)
        free(l.folder[i]);
    free(l.folder);
    queue_destroy(&l.came);
    return rc;
}
