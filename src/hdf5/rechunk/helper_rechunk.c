/* Copies a file object by object: groups, links, named types, datasets and attributes are kept; only chunks differ.
 *
 * Groups are walked depth first, in the order of names or, where it is kept, of creation, so the same file comes out each time; object
 * times are not kept, for the same reason. An object with several names is made once and linked again. References between objects are
 * copied in a second walk, when everything they may point to has been made. What would be lost without a word (region references, kinds of
 * links that nobody knows) is refused.
 */
#include "base/file/file.h"
#include "hdf5/rechunk/helper_rechunk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEPTH = 64, MAX_OBJECTS = 1 << 20, TELL_EVERY = 16 << 20, MAX_REACH = 4000 };
static const uint64_t most_read = UINT64_C(64) << 30;

bool rechunk_failed(struct rechunk *r, const char *what, const char *path)
{
    const char *number;
    if (r->e.code)
        return false;
    hdf5_failed(&r->e, what, path);
    if ((number = strstr(r->e.cause, "errno = "))) { /* the system said no, not the file */
        int code = atoi(number + 8);
        error_clear(&r->e);
        error_set_errno(&r->e, "pack", code, "read or write \"%s\"", path ? path : "/");
    }
    return false;
}

static bool refused(struct rechunk *r, int code, const char *cause, const char *path, const char *remedy)
{
    if (r->e.code == 0) {
        error_set(&r->e, code, "pack", "\"%s\" %s", path, cause);
        error_remedy(&r->e, "%s", remedy);
    }
    return false;
}

void rechunk_tell(struct rechunk *r, uint64_t bytes)
{
    r->bytes += bytes;
    r->bytes_read = 0;
    if (r->bytes - r->bytes_told < TELL_EVERY)
        return;
    r->bytes_told = r->bytes;
    printf("p %llu %llu\n", (unsigned long long)r->bytes, (unsigned long long)r->bytes_total);
    fflush(stdout);
}

/* ---- objects that are made already ---- */

static const char *made_as(const struct rechunk *r, haddr_t address)
{
    for (uint32_t i = 0; i < r->objects; i++)
        if (r->object[i].address == address)
            return r->object[i].path;
    return NULL;
}

static bool note_made(struct rechunk *r, haddr_t address, const char *path)
{
    if (r->objects == r->room) {
        uint32_t room = r->room ? 2 * r->room : 64;
        struct rechunk_object *more = room <= MAX_OBJECTS ? realloc(r->object, room * sizeof(*more)) : NULL;
        if (!more)
            return refused(r, FB_E_NOMEM, "is beyond the limit of a million objects", path, "use h5repack for such a file");
        r->object = more;
        r->room = room;
    }
    char *copy = strdup(path);
    if (!copy)
        return refused(r, FB_E_NOMEM, "does not fit into memory", path, "");
    r->object[r->objects++] = (struct rechunk_object){address, copy};
    return true;
}

/* ---- attributes ---- */

static bool copy_value(struct rechunk *r, hid_t from, hid_t to, hid_t type, hid_t space, const char *path)
{
    hssize_t n = H5Sget_simple_extent_npoints(space);
    size_t size = H5Tget_size(type);
    if (n <= 0 || !size)
        return true;
    void *bytes = (uint64_t)n < (UINT64_C(1) << 31) / size ? calloc((size_t)n, size) : NULL;
    if (!bytes)
        return refused(r, FB_E_NOMEM, "has an attribute that does not fit into memory", path, "");
    bool is_done = H5Aread(from, type, bytes) >= 0 && H5Awrite(to, type, bytes) >= 0;
    if (is_done && rechunk_is_scattered(type))
        H5Dvlen_reclaim(type, space, H5P_DEFAULT, bytes);
    free(bytes);
    return is_done || rechunk_failed(r, "HDF5 cannot copy an attribute of", path);
}

struct at_object {
    struct rechunk *r;
    hid_t to;
    const char *path;
};

/* A type of the file as one of no file: named types would tie it to theirs. */
static herr_t copy_attribute(hid_t object, const char *name, const H5A_info_t *info, void *ctx)
{
    struct at_object *a = ctx;
    (void)info;
    hid_t from = H5Aopen(object, name, H5P_DEFAULT), named = from < 0 ? -1 : H5Aget_type(from), type = named < 0 ? -1 : H5Tcopy(named);
    hid_t space = from < 0 ? -1 : H5Aget_space(from), list = from < 0 ? -1 : H5Aget_create_plist(from), to = -1;
    bool is_done = type >= 0 && space >= 0 && list >= 0 && (to = H5Acreate2(a->to, name, type, space, list, H5P_DEFAULT)) >= 0;
    if (!is_done)
        rechunk_failed(a->r, "HDF5 cannot make an attribute of", a->path);
    else if (H5Tdetect_class(type, H5T_REFERENCE) <= 0)
        is_done = copy_value(a->r, from, to, type, space, a->path);
    H5Aclose(to);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
    H5Tclose(named);
    H5Aclose(from);
    return is_done ? 0 : -1;
}

/* Where the order in which things were made is kept, it is the order in which they are made again. */
static H5_index_t order_of(hid_t object, herr_t (*get)(hid_t list, unsigned *flags))
{
    unsigned flags = 0;
    H5I_type_t kind = H5Iget_type(object);
    hid_t list = kind == H5I_GROUP     ? H5Gget_create_plist(object)
                 : kind == H5I_DATASET ? H5Dget_create_plist(object)
                                       : H5Tget_create_plist(object);
    bool is_kept = list >= 0 && get(list, &flags) >= 0 && (flags & H5P_CRT_ORDER_TRACKED);
    H5Pclose(list);
    return is_kept ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
}

static bool copy_attributes(struct rechunk *r, hid_t from, hid_t to, const char *path)
{
    struct at_object a = {r, to, path};
    if (H5Aiterate2(from, order_of(from, H5Pget_attr_creation_order), H5_ITER_INC, NULL, copy_attribute, &a) >= 0)
        return true;
    return rechunk_failed(r, "HDF5 cannot read the attributes of", path);
}

/* ---- objects ---- */

static bool copy_group(struct rechunk *r, hid_t from, const char *path);

static bool make_group(struct rechunk *r, hid_t from, const char *path)
{
    hid_t list = H5Gget_create_plist(from);
    H5Pset_obj_track_times(list, 0);
    hid_t to = list < 0 ? -1 : H5Gcreate2(r->to, path, H5P_DEFAULT, list, H5P_DEFAULT);
    bool is_done = to >= 0 ? copy_attributes(r, from, to, path) : rechunk_failed(r, "HDF5 cannot make the group", path);
    H5Gclose(to);
    H5Pclose(list);
    return is_done && copy_group(r, from, path);
}

static bool make_type(struct rechunk *r, hid_t from, const char *path)
{
    hid_t list = H5Tget_create_plist(from), to = H5Tcopy(from);
    H5Pset_obj_track_times(list, 0);
    bool is_done = to >= 0 && H5Tcommit2(r->to, path, to, H5P_DEFAULT, list, H5P_DEFAULT) >= 0;
    is_done = is_done ? copy_attributes(r, from, to, path) : rechunk_failed(r, "HDF5 cannot make the type", path);
    H5Tclose(to);
    H5Pclose(list);
    return is_done;
}

static bool make_dataset(struct rechunk *r, hid_t from, const char *path)
{
    if (!rechunk_dataset(r, from, path))
        return false;
    hid_t to = H5Dopen2(r->to, path, H5P_DEFAULT);
    bool is_done = to >= 0 ? copy_attributes(r, from, to, path) : rechunk_failed(r, "HDF5 cannot open", path);
    H5Dclose(to);
    return is_done;
}

static bool make_object(struct rechunk *r, hid_t from, const H5O_info_t *info, const char *path)
{
    switch (info->type) {
    case H5O_TYPE_GROUP: return make_group(r, from, path);
    case H5O_TYPE_DATASET: return make_dataset(r, from, path);
    case H5O_TYPE_NAMED_DATATYPE: return make_type(r, from, path);
    default: return refused(r, FB_E_UNSUPPORTED, "is of a kind that cannot be rewritten", path, "h5repack may support it");
    }
}

/* ---- links ---- */

static bool copy_hard(struct rechunk *r, hid_t group, const char *name, const char *path)
{
    H5O_info_t info;
    hid_t from = H5Oopen(group, name, H5P_DEFAULT);
    if (from < 0 || H5Oget_info(from, &info) < 0)
        return rechunk_failed(r, "HDF5 cannot open", path);
    const char *made = info.rc > 1 ? made_as(r, info.addr) : NULL;
    bool is_done =
        made ? H5Lcreate_hard(r->to, made, r->to, path, H5P_DEFAULT, H5P_DEFAULT) >= 0 || rechunk_failed(r, "HDF5 cannot link", path)
             : note_made(r, info.addr, path) && make_object(r, from, &info, path);
    H5Oclose(from);
    return is_done;
}

/* Soft and external links are kept as they are; they may lead to nothing. */
static bool copy_reach(struct rechunk *r, hid_t group, const char *name, const H5L_info_t *info, const char *path)
{
    char value[MAX_REACH];
    const char *file, *object;
    unsigned flags;
    if (info->u.val_size > sizeof(value) || H5Lget_val(group, name, value, sizeof(value), H5P_DEFAULT) < 0)
        return rechunk_failed(r, "HDF5 cannot read the link", path);
    herr_t rc = info->type == H5L_TYPE_SOFT ? H5Lcreate_soft(value, r->to, path, H5P_DEFAULT, H5P_DEFAULT)
                : H5Lunpack_elink_val(value, info->u.val_size, &flags, &file, &object) < 0
                    ? -1
                    : H5Lcreate_external(file, object, r->to, path, H5P_DEFAULT, H5P_DEFAULT);
    return rc >= 0 || rechunk_failed(r, "HDF5 cannot make the link", path);
}

static bool copy_link(struct rechunk *r, hid_t group, const char *name, const H5L_info_t *info, const char *path)
{
    switch (info->type) {
    case H5L_TYPE_HARD: return copy_hard(r, group, name, path);
    case H5L_TYPE_SOFT: return copy_reach(r, group, name, info, path);
    case H5L_TYPE_EXTERNAL:
        if (!r->q.allows_external)
            return refused(r, FB_E_UNSUPPORTED, "is a link to another file", path, "--allow-external keeps such links as they are");
        return copy_reach(r, group, name, info, path);
    default: return refused(r, FB_E_UNSUPPORTED, "is a link of an unknown kind", path, "h5repack may support it");
    }
}

struct at_group {
    struct rechunk *r;
    const char *path; /* "/" or "/a/b" */
};

static herr_t on_link(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    const struct at_group *g = ctx;
    char *path = NULL;
    if (asprintf(&path, "%s%s%s", g->path, g->path[1] ? "/" : "", name) < 0)
        return -1;
    bool is_done = copy_link(g->r, group, name, info, path);
    free(path);
    return is_done ? 0 : -1;
}

static bool copy_group(struct rechunk *r, hid_t from, const char *path)
{
    struct at_group g = {r, path};
    if (++r->depth > MAX_DEPTH)
        return refused(r, FB_E_UNSUPPORTED, "lies inside too many nested groups", path, "");
    herr_t rc = H5Literate(from, order_of(from, H5Pget_link_creation_order), H5_ITER_INC, NULL, on_link, &g);
    r->depth--;
    return rc >= 0 || rechunk_failed(r, "HDF5 cannot read the group", path);
}

/* ---- the second walk: references ---- */

static herr_t refer_attribute(hid_t object, const char *name, const H5A_info_t *info, void *ctx)
{
    struct at_object *a = ctx;
    (void)info;
    hid_t from = H5Aopen(object, name, H5P_DEFAULT), to = H5Aopen(a->to, name, H5P_DEFAULT);
    bool is_done = from >= 0 && to >= 0 ? rechunk_refs_attribute(a->r, from, to, a->path)
                                        : rechunk_failed(a->r, "HDF5 cannot open an attribute of", a->path);
    H5Aclose(to);
    H5Aclose(from);
    return is_done ? 0 : -1;
}

static bool refer_object(struct rechunk *r, const char *path)
{
    hid_t from = H5Oopen(r->from, path, H5P_DEFAULT), to = H5Oopen(r->to, path, H5P_DEFAULT);
    struct at_object a = {r, to, path};
    bool is_done = from >= 0 && to >= 0 && H5Aiterate2(from, H5_INDEX_NAME, H5_ITER_INC, NULL, refer_attribute, &a) >= 0;
    if (!is_done)
        rechunk_failed(r, "HDF5 cannot read the attributes of", path);
    if (is_done && H5Iget_type(from) == H5I_DATASET)
        is_done = rechunk_refs_dataset(r, from, to, path);
    H5Oclose(to);
    H5Oclose(from);
    return is_done;
}

/* ---- the run ---- */

static bool copy_all(struct rechunk *r)
{
    H5O_info_t info;
    hid_t from = H5Gopen2(r->from, "/", H5P_DEFAULT), to = H5Gopen2(r->to, "/", H5P_DEFAULT);
    bool is_done = from >= 0 && to >= 0 && H5Oget_info(from, &info) >= 0 ? note_made(r, info.addr, "/")
                                                                         : rechunk_failed(r, "HDF5 cannot open the root group", NULL);
    r->fileno = is_done ? info.fileno : 0;
    is_done = is_done && copy_attributes(r, from, to, "/") && copy_group(r, from, "/");
    for (uint32_t i = 0; is_done && i < r->objects; i++)
        is_done = refer_object(r, r->object[i].path);
    H5Gclose(to);
    H5Gclose(from);
    return is_done;
}

/* The properties of the source but its user block, in a form that every libhdf5 since 1.8 reads. */
static hid_t create_target(hid_t from)
{
    char path[32];
    hid_t how = H5Fget_create_plist(from), access = H5Pcreate(H5P_FILE_ACCESS);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", HDF5_RECHUNK_FD);
    hid_t list = how < 0 || access < 0 ? -1 : H5Pcreate(H5P_FILE_CREATE);
    unsigned order = 0;
    if (list < 0 || H5Pget_link_creation_order(how, &order) < 0 || H5Pset_link_creation_order(list, order) < 0 ||
        H5Pget_attr_creation_order(how, &order) < 0 || H5Pset_attr_creation_order(list, order) < 0 || H5Pset_obj_track_times(list, 0) < 0 ||
        H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST) < 0 || H5Pset_fclose_degree(access, H5F_CLOSE_STRONG) < 0)
        return H5I_INVALID_HID;
    return H5Fcreate(path, H5F_ACC_TRUNC, list, access);
}

static herr_t add_bytes(hid_t object, const char *name, const H5O_info_t *info, void *ctx)
{
    struct rechunk *r = ctx;
    hid_t d = info->type == H5O_TYPE_DATASET ? H5Dopen2(object, name, H5P_DEFAULT) : -1;
    if (d < 0)
        return 0;
    hid_t type = H5Dget_type(d), space = H5Dget_space(d);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    r->bytes_total += n > 0 ? (uint64_t)n * H5Tget_size(type) : 0;
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(d);
    return 0;
}

static bool take_question(struct hdf5_rechunk *q)
{
    if (file_read_all(STDIN_FILENO, q, sizeof(*q)) < sizeof(*q))
        return false;
    q->path[HDF5_MAX_PATH] = 0;
    return q->magic == HDF5_RECHUNK_MAGIC && q->rows >= 1 && q->threads >= 1 && q->threads <= HDF5_RECHUNK_THREADS;
}

static bool run(struct rechunk *r)
{
    uint64_t size;
    if (!take_question(&r->q))
        return error_set(&r->e, FB_E_USAGE, "pack", "the request is incomplete") == 0;
    if (file_open(r->q.path, &r->from, &size, &r->e) < 0)
        return false;
    r->to = create_target(r->from);
    if (r->to < 0)
        return rechunk_failed(r, "HDF5 cannot make the file", NULL);
    if (H5Ovisit(r->from, H5_INDEX_NAME, H5_ITER_INC, add_bytes, r) < 0)
        return rechunk_failed(r, "HDF5 cannot list it", NULL);
    if (!copy_all(r))
        return false;
    return H5Fclose(r->to) >= 0 || rechunk_failed(r, "HDF5 cannot finish the file", NULL);
}

static struct rechunk *working;

/* Reading is a sign of life; reading more than any band of rows could need, without finishing one, is going round in circles. */
static void read_some(size_t bytes)
{
    working->bytes_read += bytes;
    if (working->bytes_read < most_read)
        helper_beat(working->bytes, working->bytes_total);
}

int rechunk_run(void)
{
    static struct rechunk r;
    working = &r;
    file_on_read(read_some);
    if (run(&r))
        printf("r %llu %llu\n", (unsigned long long)r.datasets, (unsigned long long)r.rechunked);
    else
        printf("e %d %s\nh %s\n", r.e.code, r.e.cause, r.e.remedy);
    fflush(stdout);
    _exit(r.e.code ? 1 : 0); /* closing a file that could not be written would try again */
}
