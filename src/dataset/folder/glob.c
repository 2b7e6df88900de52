/* A glob: the folder is what stands before the first wildcard; keys and classes are as in that folder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/location.h"
#include "dataset/folder/scan.h"

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    return !st && pattern_is_one(r->source);
}

/* Where the part with the first wildcard starts. */
static const char *wild_part(const char *source)
{
    const char *at = strpbrk(source, "*?[");
    while (at > source && at[-1] != '/')
        at--;
    return at;
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    const char *source = job->request->source, *wild = wild_part(source);
    struct pattern *p = calloc(1, sizeof(*p));
    char *before = wild == source ? strdup(".") : strndup(source, (size_t)(wild - source));
    job->own = p;
    int rc = p && before ? pattern_open(p, wild, e) : error_set(e, FB_E_NOMEM, "dataset", "no memory");
    if (rc == 0)
        rc = location_canonical(before, &job->root, e);
    if (rc == 0 && asprintf(&job->identity, "%s/%s", job->root, wild) < 0) {
        job->identity = NULL;
        rc = error_set(e, FB_E_NOMEM, "dataset", "no memory");
    }
    free(before);
    return rc;
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    return scan_tree(job, job->own, "glob", e);
}

static void release(struct dataset_job *job)
{
    if (job->own)
        pattern_close(job->own);
    free(job->own);
}

const struct dataset_ops dataset_glob = {.name = "glob", .claims = claims, .locate = locate, .scan = scan, .release = release};
