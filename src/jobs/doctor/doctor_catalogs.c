#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "io/io.h"
#include "jobs/doctor.h"
#include "jobs/doctor/doctor_sample.h"
#include "model/learnt/learnt.h"

static double share_known(const struct dataset *d)
{
    struct learnt *l = NULL;
    struct learnt_figures f = {0};
    struct budget unlimited = {.limit = UINT64_MAX / 2};
    struct log quiet = {0};
    if (access(d->learnt_dir, F_OK) != 0)
        return 0;
    learnt_open(&l, d->learnt_dir, &unlimited, &quiet);
    if (!l)
        return 0;
    learnt_read_figures(l, &f);
    learnt_close(l);
    uint64_t count = catalog_count(d->catalog);
    return count ? fmin(1, (double)f.records / (double)count) : 0;
}

/* The same catalog under the same name. One of an archive is made anew: what its index knows of pictures is taken over while it is read. */
static void link_catalog(const struct dataset *d, const char *into)
{
    size_t stem = strlen(d->learnt_dir) - strlen(".learnt");
    const char *slash = strrchr(d->learnt_dir, '/');
    char from[4200], to[1000];
    if (!slash || strcmp(d->kind, "tar") == 0)
        return;
    snprintf(from, sizeof(from), "%.*s.catalog", (int)stem, d->learnt_dir);
    snprintf(to, sizeof(to), "%s/%.*s.catalog", into, (int)(stem - (size_t)(slash + 1 - d->learnt_dir)), slash + 1);
    (void)!link(from, to); /* else it is made once more */
}

void doctor_catalogs_open(struct doctor_catalogs *c, const struct doctor_request *q, double *known_share)
{
    struct dataset d;
    struct fb_error ignored = {0};
    struct dataset_request r = dataset_request_of(&q->options, io_stores);
    r.log = (struct log){0};
    *c = (struct doctor_catalogs){.path = ""};
    *known_share = 0;
    if (dataset_open(&d, &r, &ignored) < 0)
        return;
    const char *slash = d.learnt_dir ? strrchr(d.learnt_dir, '/') : NULL;
    if (slash && slash - d.learnt_dir < 500) {
        *known_share = share_known(&d);
        snprintf(c->path, sizeof(c->path), "%.*s/.fullbore-doctor-XXXXXX", (int)(slash - d.learnt_dir), d.learnt_dir);
        if (mkdtemp(c->path))
            link_catalog(&d, c->path);
        else
            c->path[0] = 0;
    }
    dataset_close(&d);
}

void doctor_catalogs_close(struct doctor_catalogs *c)
{
    struct scratch_folder f = {.path = ""};
    snprintf(f.path, sizeof(f.path), "%.511s", c->path);
    scratch_folder_remove(&f);
    c->path[0] = 0;
}
