/* Rows of a manifest that share a value are one sample: the slides of a patient. Their labels must agree, and no file is in two groups. The
 * sample's key is that value; its parts are the files, in the manifest's order. */
#ifndef FB_DATASET_MANIFEST_GROUP_BY_H
#define FB_DATASET_MANIFEST_GROUP_BY_H

#include "dataset/manifest/columns.h"
#include "dataset/manifest/path_table.h"

struct group_by {
    struct path_table *list;
    const struct columns *columns;
    const char *column_name;
    struct name_table names, paths; /* of the groups; of the files, in the order of `parts` */
    struct text groups;             /* struct group, by the number of its name */
    struct text parts;              /* struct part, by the number of its path */
    struct text values;             /* the labels of every group, `value_bytes` each */
    size_t value_bytes;
};

void group_by_start(struct group_by *g, struct path_table *list, const struct columns *c, const char *column_name);
/* The table's row at hand. FB_E_DATA: no name, a file that was met already, another label than the group has. */
int group_by_add(struct group_by *g, const struct table *t, const struct columns_row *row, struct fb_error *e);
/* Adds the samples to the catalog. FB_E_DATA: files are missing. */
int group_by_finish(struct group_by *g, struct fb_error *e);
void group_by_end(struct group_by *g);

#endif
