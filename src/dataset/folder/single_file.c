/* One file that is a data set by itself: rows of an HDF5 file, of a .npy; a recording. Keys are relative to its folder. HDF5 is known by
 * its content, whatever the name; but an archive is one by its name, since its first member lies where a user block would end.
 *
 * A .npy of decoded pictures has a catalog beside it, NAME.npy.catalog, with the names and labels that they were packed from: then it is
 * that data set, its samples being pieces of the .npy. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/catalog_keep.h"
#include "dataset/data_names.h"
#include "dataset/dataset_ops.h"
#include "dataset/location.h"
#include "dataset/pack/shards.h"
#include "model/catalog/catalog_format.h"
#include "model/hdf5/hdf5_signature.h"

static bool is_hdf5(const char *path, const struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_one = fd >= 0 && hdf5_is_file(fd, 0, (uint64_t)st->st_size);
    if (fd >= 0)
        close(fd);
    return is_one;
}

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    if (!st || !S_ISREG(st->st_mode))
        return false;
    return data_name_family(r->source) != FAMILY_IMAGE || (!shards_is_name(r->source) && is_hdf5(r->source, st));
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    FB_TRY(location_canonical(job->request->source, &job->root, e));
    job->identity = strdup(job->root);
    char *slash = strrchr(job->root, '/');
    job->own = slash ? strdup(slash + 1) : NULL;
    if (!job->identity || !job->own)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory");
    slash[slash == job->root] = '\0';
    return 0;
}

static int stat_file(struct dataset_job *job, struct catalog_sample *out, struct fb_error *e)
{
    struct stat st;
    if (stat(job->identity, &st) < 0) {
        int rc = error_set_errno(e, "dataset", errno, "stat a file");
        error_at(e, job->identity, -1);
        return rc;
    }
    *out = (struct catalog_sample){
        .key = job->own, .length = (uint64_t)st.st_size, .object_size = (uint64_t)st.st_size, .mtime_ns = keep_mtime_ns(&st)};
    return 0;
}

/* The folder's mtime says nothing about a file written in place. */
static bool is_unchanged(struct dataset_job *job, const struct catalog *kept)
{
    struct catalog_sample now = {0}, then = {0};
    struct fb_error e;
    error_clear(&e);
    return catalog_count(kept) == 1 && stat_file(job, &now, &e) == 0 && catalog_sample(kept, 0, &then, &e) == 0 &&
           strcmp(then.key, now.key) == 0 && then.length == now.length && then.mtime_ns == now.mtime_ns;
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    struct catalog_sample s;
    FB_TRY(stat_file(job, &s, e));
    return catalog_add_sample(job->w, &s, NULL, e);
}

/* Another array may have been written over the pictures, with the same number of bytes. */
static bool begins_with(const struct dataset_job *job, const char due[DECODED_HEADER_BYTES])
{
    char there[DECODED_HEADER_BYTES];
    int fd = open(job->identity, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is_read = fd >= 0 && file_read_all_at(fd, there, sizeof(there), 0) == sizeof(there);
    if (fd >= 0)
        close(fd);
    return is_read && memcmp(there, due, sizeof(there)) == 0;
}

/* 1: the file is what `fullbore pack --decode` made with this catalog. FB_E_DATA: the catalog is impossible. */
static int is_made_with(const struct dataset_job *job, const struct catalog_sample *now, const struct catalog *c, struct fb_error *e)
{
    struct catalog_sample last;
    char due[DECODED_HEADER_BYTES];
    uint32_t height, width;
    uint64_t count = catalog_count(c);
    int rc = catalog_decoded_size(c, &height, &width, e);
    if (rc <= 0)
        return rc;
    if (count == 0 || catalog_sample(c, count - 1, &last, NULL) < 0 || last.offset + last.length != now->length)
        return 0;
    return catalog_decoded_header(count, height, width, due) && begins_with(job, due);
}

/* 1: it is the catalog of this very file. */
static int open_beside(struct dataset_job *job, const struct catalog_sample *now, int fd, const char *path, struct catalog **out,
                       struct fb_error *e)
{
    struct stat st;
    struct catalog_place place = {(char *)now->key, now->length, now->mtime_ns, .end = now->length, .note = "decoded"};
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, "dataset", errno, "stat the catalog of a pack");
    if (!S_ISREG(st.st_mode))
        return 0;
    FB_TRY(catalog_open_part(fd, 0, (uint64_t)st.st_size, &place, path, out, e));
    int rc = is_made_with(job, now, *out, e);
    if (rc == 1)
        return 1;
    if (rc < 0)
        error_at(e, path, -1);
    else
        log_line(&job->request->log, LOG_WARN, "%s does not belong to the file beside it, so that file is read as rows without names",
                 path);
    catalog_close(*out);
    *out = NULL;
    return rc;
}

static int open_own(struct dataset_job *job, struct catalog **out, struct fb_error *e)
{
    struct catalog_sample now = {0};
    char *path = NULL;
    FB_TRY(stat_file(job, &now, e));
    if (asprintf(&path, "%s.catalog", job->identity) < 0)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory");
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int rc = fd < 0 ? 0 : open_beside(job, &now, fd, path, out, e);
    if (fd >= 0)
        close(fd);
    free(path);
    return rc;
}

static void release(struct dataset_job *job)
{
    free(job->own);
}

const struct dataset_ops dataset_single = {
    .name = "file", .claims = claims, .locate = locate, .open = open_own, .is_unchanged = is_unchanged, .scan = scan, .release = release};
