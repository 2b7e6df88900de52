/* From a location to a catalog: find the kind, find the kept catalog, scan if there is none that fits. */
#include "dataset/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/data_names.h"
#include "dataset/dataset_ops.h"
#include "dataset/image_names.h"
#include "dataset/catalog_keep.h"
#include "dataset/location.h"
#include "dataset/store/bucket_mount.h"
#include "model/hdf5/hdf5_signature.h"

struct dataset_request dataset_request_of(const fb_options *o, const struct store_ops *const *stores)
{
    return (struct dataset_request){
        .source = o->source,
        .catalog_dir = o->catalog_dir,
        .progress = o->progress,
        .interrupted = o->interrupted,
        .ctx = o->ctx,
        .log = {o->log, o->ctx},
        .stores = stores,
    };
}

static int refuse_unknown(const struct dataset_request *r, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "dataset", "the source is neither a folder, a glob, a manifest, a tar archive, an array file nor sound");
    error_remedy(e, "a manifest is a file that ends in .csv, .tsv or .jsonl, an archive one that ends in .tar, "
                    "an array one in .h5, .npy, .npz or .safetensors");
    error_at(e, r->source, -1);
    return FB_E_USAGE;
}

static int find_kind(const struct dataset_request *r, const struct dataset_ops **out, struct fb_error *e)
{
    struct stat st;
    bool is_there = r->source && stat(r->source, &st) == 0;
    int why = errno;
    if (!r->paths && (!r->source || !r->source[0]))
        return error_set(e, FB_E_USAGE, "dataset", "no source is given");
    for (int i = 0; dataset_kinds[i]; i++)
        if (dataset_kinds[i]->claims(r, is_there ? &st : NULL)) {
            *out = dataset_kinds[i];
            return 0;
        }
    if (is_there)
        return refuse_unknown(r, e);
    if (why == ENOENT || why == ENOTDIR)
        return location_missing(r->source, e);
    int rc = error_set_errno(e, "dataset", why, "open the data set");
    error_at(e, r->source, -1);
    return rc;
}

static int open_root(struct dataset_job *job, struct fb_error *e)
{
    job->root_fd = open(job->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (job->root_fd >= 0)
        return 0;
    int rc = error_set_errno(e, "dataset", errno, "open the folder of the data set");
    error_at(e, job->root, -1);
    return rc;
}

static int scan_now(struct dataset_job *job, const struct dataset_ops *ops, struct catalog **out, struct fb_error *e)
{
    FB_TRY(catalog_writer_open(&job->w, e));
    int rc = catalog_add_note(job->w, "kind", ops->name, e);
    if (rc == 0)
        rc = catalog_add_note(job->w, "source", job->identity ? job->identity : job->root, e);
    if (rc == 0)
        rc = ops->scan(job, e);
    if (rc < 0)
        catalog_writer_discard(job->w);
    else
        rc = catalog_finish(job->w, NULL, out, e);
    job->w = NULL;
    return rc;
}

static int find_or_scan(struct dataset_job *job, const struct dataset_ops *ops, struct dataset *d, struct fb_error *e)
{
    char *path = keep_path(job, ops->name);
    struct fb_error stop;
    error_clear(&stop);
    int has_own = ops->open ? ops->open(job, &d->catalog, &stop) : 0;
    if (has_own == 0 && path)
        d->catalog = keep_find(job, ops, path, &stop);
    d->is_fresh = !d->catalog;
    int rc = stop.code;
    if (stop.code && e && e->code == 0)
        *e = stop;
    if (rc == 0 && d->is_fresh)
        rc = scan_now(job, ops, &d->catalog, e);
    if (rc == 0 && d->is_fresh && path)
        keep_store(job, path, &d->catalog);
    d->learnt_dir = path ? keep_learnt_dir(job, ops->name) : NULL;
    free(path);
    return rc;
}

/* A whole file whose content is HDF5's, for names that do not say what it is. */
static bool is_hdf5(const struct dataset_job *job, const struct catalog_sample *s)
{
    if (job->io)
        return data_name_may_be_array(s->key); /* a request would cost more than the answer is worth: it is not read in a bucket */
    if (s->length == 0 || s->offset != 0 || s->length != s->object_size)
        return false;
    int fd = openat(job->root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_one = fd >= 0 && hdf5_is_file(fd, 0, s->length);
    if (fd >= 0)
        close(fd);
    return is_one;
}

static enum data_family family_of(const struct dataset_job *job, const struct catalog_sample *first)
{
    enum data_family by_name = data_name_family(first->key);
    bool is_sure = by_name != FAMILY_IMAGE || image_name_kind(first->key) == IMAGE_NAME_YES || !first->key[0];
    return !is_sure && is_hdf5(job, first) ? FAMILY_ARRAY : by_name;
}

static int open_as(struct dataset_job *job, const struct dataset_ops *ops, struct dataset *d, struct fb_error *e)
{
    FB_TRY(ops->locate(job, e));
    if (!ops->has_no_folder) {
        FB_TRY(open_root(job, e));
        s3_mount_offer(job->root_fd, job->root, &job->request->log);
    }
    FB_TRY(find_or_scan(job, ops, d, e));
    struct catalog_sample first = {.key = ""};
    if (catalog_count(d->catalog))
        FB_TRY(catalog_part(d->catalog, 0, 0, &first, e));
    d->family = family_of(job, &first);
    return 0;
}

static int refuse_group(const struct dataset_request *r, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "dataset", "group_by= needs a manifest: a table of paths with a column to group them by");
    error_remedy(e, "write one, such as slides.csv with the columns path and patient");
    error_at(e, r->source, -1);
    return FB_E_USAGE;
}

int dataset_open(struct dataset *d, const struct dataset_request *r, struct fb_error *e)
{
    *d = (struct dataset){.root_fd = -1};
    const struct dataset_ops *ops = NULL;
    FB_TRY(find_kind(r, &ops, e));
    if (r->group_by && ops != &dataset_manifest)
        return refuse_group(r, e);
    struct dataset_job job = {.request = r, .root_fd = -1};
    scan_progress_start(&job.progress, r, "scanning");
    int rc = open_as(&job, ops, d, e);
    if (ops->release)
        ops->release(&job);
    free(job.identity);
    d->root = job.root;
    d->root_fd = job.root_fd;
    d->io = job.io;
    d->kind = ops->name;
    if (rc < 0)
        dataset_close(d);
    return rc;
}

void dataset_close(struct dataset *d)
{
    catalog_close(d->catalog);
    if (d->root_fd >= 0)
        close(d->root_fd);
    free(d->root);
    free(d->learnt_dir);
    free(d->io);
    *d = (struct dataset){.root_fd = -1};
}

int dataset_refuse_files(const struct dataset *d, const char *who, struct fb_error *e)
{
    if (catalog_file_count(d->catalog) == 0)
        return 0;
    error_set(e, FB_E_UNSUPPORTED, "dataset", "its samples have several files each (there is a column '%s'), which %s cannot handle",
              catalog_file_name(d->catalog, 0), who);
    error_remedy(e, "train from the manifest itself, or leave that column out of it");
    return FB_E_UNSUPPORTED;
}
