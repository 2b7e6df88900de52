/* Every dataset of a file: groups breadth first, names in order, so that a file with too many gives the ones near its root.
 *
 * Links are followed to groups and datasets: hard and soft ones, those to other files when that is allowed. A group with several names is
 * walked under each of them, but only after every group has been walked under its first: a second path costs no array its place in a full
 * description. A path that comes back to a group it has been through ends there, so circles end. Links can still multiply paths without a
 * circle (n groups that hold each other have n! paths): MAX_GROUPS and MAX_LINKS bound that. MATLAB's "#refs#" and "#subsystem#" hold the
 * insides of cells and objects, which only references lead to: left out.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hdf5/helper.h"

enum { MAX_GROUPS = 4096, MAX_LINKS = 1 << 16 };

struct group {
    char path[ARRAY_NAME_BYTES]; /* without a leading slash; "" is the root */
    unsigned long fileno;
    haddr_t address;
    int parent;    /* the group it was met in; -1: none, the root */
    bool is_again; /* a second path: its turn is after the others */
    bool is_walked;
};

struct walk {
    struct description *all;
    hid_t file, access;
    unsigned long fileno; /* of the file itself */
    struct group *group;
    int groups, at, links;
    int failed;
    struct fb_error *e;
};

static herr_t refuse_link(const char *parent_file, const char *parent_group, const char *child_file, const char *child_object,
                          unsigned *flags, hid_t fapl, void *op_data)
{
    (void)parent_file, (void)parent_group, (void)child_file, (void)child_object, (void)flags, (void)fapl, (void)op_data;
    return -1;
}

hid_t walk_access(bool allows_external)
{
    hid_t list = H5Pcreate(H5P_LINK_ACCESS);
    if (list >= 0 && !allows_external)
        H5Pset_elink_cb(list, refuse_link, NULL);
    return list;
}

static bool is_hidden(const struct walk *w, const char *name)
{
    return w->at == 0 && (strcmp(name, "#refs#") == 0 || strcmp(name, "#subsystem#") == 0);
}

static bool join(const struct walk *w, const char *name, char *path)
{
    const char *group = w->group[w->at].path;
    return snprintf(path, ARRAY_NAME_BYTES, "%s%s%s", group, group[0] ? "/" : "", name) < ARRAY_NAME_BYTES;
}

static bool is_group(const struct group *g, const H5O_info_t *info)
{
    return g->address == info->addr && g->fileno == info->fileno;
}

static bool is_own_ancestor(const struct walk *w, const H5O_info_t *info)
{
    for (int i = w->at; i >= 0; i = w->group[i].parent)
        if (is_group(&w->group[i], info))
            return true;
    return false;
}

static bool was_met(const struct walk *w, const H5O_info_t *info)
{
    for (int i = 0; i < w->groups; i++)
        if (is_group(&w->group[i], info))
            return true;
    return false;
}

static void add_group(struct walk *w, const char *path, const H5O_info_t *info, bool is_hard)
{
    if (w->groups == MAX_GROUPS || (w->groups && is_own_ancestor(w, info)))
        return;
    struct group *g = &w->group[w->groups];
    *g = (struct group){.fileno = info->fileno, .address = info->addr, .parent = w->groups ? w->at : -1};
    g->is_again = !is_hard || (w->groups && w->group[w->at].is_again) || was_met(w, info);
    snprintf(g->path, sizeof(g->path), "%s", path);
    w->groups++;
}

static herr_t add_dataset(struct walk *w, const char *path, bool is_elsewhere)
{
    hid_t id = H5Oopen(w->file, path, w->access);
    w->failed = id < 0 ? hdf5_failed(w->e, "HDF5 cannot open", path) : describe_dataset(w->all, id, path, is_elsewhere, w->e);
    if (id >= 0)
        H5Oclose(id);
    return w->failed < 0 ? -1 : w->all->file.count == ARRAY_MAX_IN_FILE;
}

static herr_t add_object(struct walk *w, const char *path, const H5O_info_t *info, bool is_hard)
{
    if (info->type == H5O_TYPE_GROUP)
        add_group(w, path, info, is_hard);
    return info->type == H5O_TYPE_DATASET ? add_dataset(w, path, info->fileno != w->fileno) : 0;
}

static herr_t add_hard(struct walk *w, const char *path)
{
    H5O_info_t info;
    if (H5Oget_info_by_name(w->file, path, &info, w->access) < 0) {
        w->failed = hdf5_failed(w->e, "HDF5 cannot read the object", path);
        return -1;
    }
    return add_object(w, path, &info, true);
}

/* A soft link may lead to nothing, or out of the file by way of another link: neither is damage. */
static herr_t add_reach(struct walk *w, const char *path)
{
    H5O_info_t info;
    if (H5Oget_info_by_name(w->file, path, &info, w->access) < 0) {
        H5Eclear2(H5E_DEFAULT);
        return 0;
    }
    return add_object(w, path, &info, false);
}

static herr_t add_external(struct walk *w, const char *path)
{
    if (w->all->allows_external)
        return add_reach(w, path);
    describe_external(w->all, path);
    return w->all->file.count == ARRAY_MAX_IN_FILE;
}

static herr_t add_link(hid_t group, const char *name, const H5L_info_t *info, void *ctx)
{
    struct walk *w = ctx;
    char path[ARRAY_NAME_BYTES];
    (void)group;
    if (++w->links > MAX_LINKS)
        return 1;
    if (is_hidden(w, name) || !join(w, name, path))
        return 0;
    switch (info->type) {
    case H5L_TYPE_HARD: return add_hard(w, path);
    case H5L_TYPE_SOFT: return add_reach(w, path);
    case H5L_TYPE_EXTERNAL: return add_external(w, path);
    default: return 0;
    }
}

static int walk_group(struct walk *w)
{
    const char *path = w->group[w->at].path;
    hid_t group = H5Oopen(w->file, path[0] ? path : "/", w->access);
    herr_t rc = group < 0 ? -1 : H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, add_link, w);
    if (rc < 0 && w->failed == 0)
        w->failed = hdf5_failed(w->e, "HDF5 cannot read the group", path[0] ? path : "/");
    if (group >= 0)
        H5Oclose(group);
    return rc;
}

/* The first that waits: those with a first path before second paths. */
static int next_group(const struct walk *w, bool is_again)
{
    for (int i = 0; i < w->groups; i++)
        if (!w->group[i].is_walked && w->group[i].is_again == is_again)
            return i;
    return is_again ? -1 : next_group(w, true);
}

static void walk_all(struct walk *w)
{
    while (w->failed == 0 && (w->at = next_group(w, false)) >= 0) {
        w->group[w->at].is_walked = true;
        if (walk_group(w) != 0)
            return; /* a failure, or there is no room for more */
    }
}

int describe_file(hid_t file, uint64_t size, bool allows_external, struct description *d, struct fb_error *e)
{
    memset(d, 0, sizeof(*d));
    d->file = (struct array_file){.format = "hdf5", .object_size = size, .array = d->array};
    d->allows_external = allows_external;
    struct walk w = {.all = d, .file = file, .access = walk_access(allows_external), .e = e};
    w.group = calloc(MAX_GROUPS, sizeof(*w.group));
    H5O_info_t root;
    if (!w.group || w.access < 0)
        w.failed = error_set(e, FB_E_NOMEM, "decode", "no memory to list its arrays");
    else if (H5Oget_info(file, &root) < 0)
        w.failed = hdf5_failed(e, "HDF5 cannot read its root group", NULL);
    else
        add_group(&w, "", &root, true);
    w.fileno = w.failed ? 0 : root.fileno;
    walk_all(&w);
    H5Pclose(w.access);
    free(w.group);
    return w.failed;
}

void description_free(struct description *d)
{
    for (int i = 0; i < ARRAY_MAX_IN_FILE; i++)
        free(d->owned[i]);
}
