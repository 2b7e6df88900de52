/* The kinds of loads. A new one is a file with its load_ops and a line here. */
#include <string.h>

#include "feed/arrays.h"
#include "feed/load_ops.h"

/* Pictures; and files of any kind when only their names and bytes matter. */
static bool is_image(const struct feed *f, const fb_options *o)
{
    return f->dataset.family == FAMILY_IMAGE || (o->transforms && strcmp(o->transforms, "digest") == 0);
}

int load_choose_kind(struct feed *f, const fb_options *o, struct fb_error *e)
{
    if (!is_image(f, o)) {
        f->kind = &load_file;
        FB_TRY(arrays_open(f, o, e));
        f->kind = f->arrays->unit == ARRAYS_ROWS ? &load_rows : &load_file;
        return 0;
    }
    f->kind = &load_image;
    if (f->dataset.family != FAMILY_IMAGE || !catalog_has_parts(f->dataset.catalog))
        return 0;
    return error_advise(e, error_set(e, FB_E_USAGE, "feed", "group_by= joins bags of arrays; pictures are not joined"), "leave it out");
}
