/* Files given one by one, with labels as arrays. The catalog lives in memory only: the caller has the list anyway. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/manifest/path_table.h"
#include "dataset/location.h"

static bool claims(const struct dataset_request *r, const struct stat *st)
{
    (void)st;
    return r->paths != NULL;
}

static int locate(struct dataset_job *job, struct fb_error *e)
{
    const char *source = job->request->source;
    return location_canonical(source && source[0] ? source : ".", &job->root, e);
}

static int add_column(struct dataset_job *job, const struct fb_column *column, struct fb_error *e)
{
    struct catalog_field f = {.dtype = column->dtype, .ndim = column->ndim};
    if (!column->name || !column->data || strlen(column->name) >= sizeof(f.name))
        return error_set(e, FB_E_USAGE, "dataset", "a label column has no name, no data, or a name of more than %zu bytes",
                         sizeof(f.name) - 1);
    if (strcmp(column->name, "image") == 0)
        return error_set(e, FB_E_USAGE, "dataset", "a label cannot be called 'image': that is the picture itself");
    strcpy(f.name, column->name);
    if (column->ndim == 1)
        f.shape[0] = column->shape[0];
    int rc = catalog_add_field(job->w, &f, e);
    error_remedy(e, "labels have one number or one vector of numbers per file");
    return rc;
}

static int add_rows(struct dataset_job *job, struct path_table *list, struct fb_error *e)
{
    const struct dataset_request *r = job->request;
    size_t bytes[FB_MAX_FIELDS];
    for (int c = 0; c < r->column_count; c++)
        bytes[c] = fb_dtype_size(r->columns[c].dtype) * (r->columns[c].ndim == 1 ? (size_t)r->columns[c].shape[0] : 1);
    for (uint64_t i = 0; i < r->path_count; i++) {
        const void *values[FB_MAX_FIELDS];
        for (int c = 0; c < r->column_count; c++)
            values[c] = (const char *)r->columns[c].data + i * bytes[c];
        FB_TRY(scan_progress_report(&job->progress, i, r->path_count, e));
        FB_TRY(path_table_add(list, r->paths[i], strlen(r->paths[i]), i, values, e));
    }
    return path_table_finish(list, e);
}

static int scan(struct dataset_job *job, struct fb_error *e)
{
    const struct dataset_request *r = job->request;
    if (r->path_count == 0)
        return error_advise(e, error_set(e, FB_E_DATA, "dataset", "the list of files is empty"), "give at least one path");
    if (r->column_count > FB_MAX_FIELDS || (r->column_count > 0 && !r->columns))
        return error_set(e, FB_E_USAGE, "dataset", "there can be at most %d label columns", FB_MAX_FIELDS);
    for (int c = 0; c < r->column_count; c++)
        FB_TRY(add_column(job, &r->columns[c], e));
    struct path_table list;
    path_table_start(&list, job, "number");
    int rc = add_rows(job, &list, e);
    path_table_end(&list);
    return rc;
}

const struct dataset_ops dataset_from_list = {.name = "list", .claims = claims, .locate = locate, .scan = scan};
