/* A folder of images: class = first folder of a path, or no classes when all lie in the folder itself. */
#include <string.h>

#include "dataset/location.h"
#include "dataset/folder/scan.h"

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    (void)r;
    return st && S_ISDIR(st->st_mode);
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    FB_TRY(location_canonical(job->request->source, &job->root, e));
    job->identity = strdup(job->root);
    return job->identity ? 0 : error_set(e, FB_E_NOMEM, "dataset", "no memory");
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    struct pattern everything;
    FB_TRY(pattern_open(&everything, "**", e));
    int rc = scan_tree(job, &everything, "folder", e);
    pattern_close(&everything);
    return rc;
}

const struct dataset_ops dataset_folder = {.name = "folder", .claims = claims, .locate = locate, .scan = scan};
