/* The kinds of loads. A new one is a file with its load_ops and a line here. */
#include <string.h>

#include "feed/load_ops.h"

/* Pictures; and files of any kind when only their names and bytes matter. */
static bool is_image(const struct feed *f, const fb_options *o)
{
    return f->dataset.family == FAMILY_IMAGE || (o->transforms && strcmp(o->transforms, "digest") == 0);
}

int load_choose_kind(struct feed *f, const fb_options *o, struct fb_error *e)
{
    f->kind = is_image(f, o) ? &load_image : &load_file;
    return f->kind->make(f, o, e);
}
