/* The further files of a sample: the mask of a picture, a second view of it.
 *
 * A manifest's catalog lists them beside the picture's own file. A load reads them one after another, first the picture, each into its own
 * field of the same place; so a sample is good or bad as a whole, and one read of it is under way at a time (the look-ahead has enough
 * others). All draw from the sample's one stream of randomness, and a file of another size than the picture is refused: the geometry is the
 * picture's. EXIF orientation, too, is what the picture says.
 *
 * Limit: only pictures have further files, not arrays, sound or members of packs.
 */
#ifndef FB_FEED_SINGLE_SAMPLE_FILES_H
#define FB_FEED_SINGLE_SAMPLE_FILES_H

#include "feed/single/step_chain.h"
#include "model/catalog/catalog.h"

enum { FILES_MOST = 7 };

struct file_field {
    char name[64];
    int catalog_file;
    bool is_mask;
    int labels_before; /* in the batch; never fewer than the one before has */
};

struct files {
    int count;
    struct file_field field[FILES_MOST];
    bool has_masks;
    struct step_chain masks; /* the transforms as masks see them; open if has_masks */
};

/* Which of the catalog's files are wanted, by o->fields (or all), and which of them are masks, by o->masks (or by their names). *rest: the
 * names of o->fields that are left, the caller's to free, NULL if there is no such list. */
int files_choose(struct files *f, const struct catalog *c, const fb_options *o, char **rest, struct fb_error *e);
/* The transforms for masks. */
int files_open_masks(struct files *f, const fb_options *o, const struct labels *l, struct fb_error *e);
void files_close(struct files *f);

/* Which field of a batch file `i` has. */
int files_field(const struct files *f, int i);

#endif
