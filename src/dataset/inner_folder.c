#include "dataset/inner_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/data_names.h"
#include "dataset/store/store_url.h"
#include "dataset/pack/shards.h"

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* As dataset_s3 and dataset_s3_tar have it: archives and single objects are asked for by their names, a prefix ends otherwise. */
static bool is_prefix(const char *url)
{
    const char *slash = strrchr(url, '/');
    bool is_single = slash >= url + strlen("s3://x") && (data_name_family(slash + 1) != FAMILY_IMAGE || data_name_may_be_array(slash + 1));
    return !shards_is_name(url) && !is_single;
}

/* ---- asking a bucket ---- */

struct look {
    struct dataset_job *job;
    bool is_there;
};

static int meet_one(void *ctx, const struct store_object *o, struct fb_error *e)
{
    (void)o, (void)e;
    ((struct look *)ctx)->is_there = true;
    return FB_E_STATE; /* one is enough */
}

static int wait_on(void *ctx, struct fb_error *e)
{
    return s3_url_beat(((struct look *)ctx)->job, 0, e);
}

static int has_objects(const struct dataset_request *r, const char *url, struct fb_error *e)
{
    struct dataset_job job = {.request = r, .root_fd = -1};
    struct look look = {.job = &job};
    const struct store_ops *ops;
    struct store *store;
    struct fb_error why;
    error_clear(&why);
    scan_progress_start(&job.progress, r, "scanning");
    FB_TRY(s3_url_open(&job, url, &ops, &store, e));
    int rc = ops->list(store, meet_one, wait_on, &look, &why);
    ops->close(store);
    if (look.is_there || rc == 0)
        return look.is_there;
    error_at(&why, url, -1);
    if (e && e->code == 0)
        *e = why;
    return rc;
}

int inner_find(const struct dataset_request *r, const char *name, char **out, struct fb_error *e)
{
    bool is_url = s3_url_is(r->source);
    size_t n = strlen(r->source);
    *out = NULL;
    if (is_url ? !is_prefix(r->source) : !is_directory(r->source))
        return 0;
    while (n > 1 && r->source[n - 1] == '/')
        n--;
    if (asprintf(out, "%.*s/%s", (int)n, r->source, name) < 0) {
        *out = NULL;
        return error_set(e, FB_E_NOMEM, "dataset", "no memory");
    }
    int rc = is_url ? has_objects(r, *out, e) : is_directory(*out);
    if (rc != 1) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
