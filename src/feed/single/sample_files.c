#include "feed/single/sample_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"

/* ---- names in lists, which are separated by newlines ---- */

static bool is_name(const char *at, size_t n, const char *name)
{
    return strlen(name) == n && memcmp(at, name, n) == 0;
}

static bool is_in_list(const char *list, const char *name)
{
    for (size_t n; *list; list += n + (list[n] == '\n')) {
        n = strcspn(list, "\n");
        if (is_name(list, n, name))
            return true;
    }
    return false;
}

static int find_file(const struct catalog *c, const char *name, size_t n)
{
    for (int i = 0; i < catalog_file_count(c); i++)
        if (is_name(name, n, catalog_file_name(c, i)))
            return i;
    return -1;
}

/* ---- which ---- */

static bool is_mask(const char *name, const fb_options *o)
{
    return o->masks ? is_in_list(o->masks, name) : strcasestr(name, "mask") != NULL;
}

static int add_file(struct files *f, const struct catalog *c, int file, int labels_before, const fb_options *o, struct fb_error *e)
{
    const char *name = catalog_file_name(c, file);
    for (int i = 0; i < f->count; i++)
        if (f->field[i].catalog_file == file)
            return error_set(e, FB_E_USAGE, "dataset", "the field '%s' is named twice", name);
    if (f->count == FILES_MOST)
        return error_set(e, FB_E_USAGE, "dataset", "a sample can have at most %d files beside its picture", FILES_MOST);
    struct file_field *to = &f->field[f->count++];
    *to = (struct file_field){.catalog_file = file, .is_mask = is_mask(name, o), .labels_before = labels_before};
    memcpy(to->name, name, strlen(name) + 1); /* a catalog's names have 63 bytes at most */
    f->has_masks |= to->is_mask;
    return 0;
}

/* The names of files are taken out; those of labels stay. The picture itself may be named first, as its column is. */
static int divide_list(struct files *f, const struct catalog *c, const fb_options *o, char *rest, struct fb_error *e)
{
    const char *picture = catalog_note(c, "path column");
    int labels = 0;
    for (const char *name = o->fields; *name;) {
        size_t n = strcspn(name, "\n");
        int file = find_file(c, name, n);
        bool is_picture = name == o->fields && picture && is_name(name, n, picture);
        if (file >= 0)
            FB_TRY(add_file(f, c, file, labels, o, e));
        else if (!is_picture)
            strncat(strcat(rest, labels++ ? "\n" : ""), name, n);
        name += n + (name[n] == '\n');
    }
    return 0;
}

static int check_masks(const struct catalog *c, const fb_options *o, struct fb_error *e)
{
    for (const char *name = o->masks; name && *name;) {
        size_t n = strcspn(name, "\n");
        if (find_file(c, name, n) < 0) {
            char copy[64] = "", shown[80];
            memcpy(copy, name, n < sizeof(copy) ? n : sizeof(copy) - 1);
            error_set(e, FB_E_USAGE, "dataset", "masks= names '%s', but no column of that name holds paths of pictures",
                      text_escape(copy, shown, sizeof(shown)));
            error_remedy(e, catalog_file_count(c) ? "there is '%s'" : "masks come from a manifest: a table with a column of their paths",
                         catalog_file_count(c) ? catalog_file_name(c, 0) : "");
            return FB_E_USAGE;
        }
        name += n + (name[n] == '\n');
    }
    return 0;
}

int files_choose(struct files *f, const struct catalog *c, const fb_options *o, char **rest, struct fb_error *e)
{
    *rest = NULL;
    FB_TRY(check_masks(c, o, e));
    if (!o->fields) {
        for (int i = 0; i < catalog_file_count(c); i++)
            FB_TRY(add_file(f, c, i, 0, o, e));
        return 0;
    }
    *rest = calloc(1, strlen(o->fields) + 2);
    if (!*rest)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory for the fields");
    return divide_list(f, c, o, *rest, e);
}

/* ---- transforms ---- */

int files_open_masks(struct files *f, const fb_options *o, const struct labels *l, struct fb_error *e)
{
    if (!f->has_masks)
        return 0;
    FB_TRY(step_chain_open_mask(&f->masks, o->transforms, o->exif != 0, e));
    for (int i = 0; i < f->masks.map_count; i++)
        if (f->masks.map[i].height) {
            error_set(e, FB_E_USAGE, "transform", "%s promises a size, but a function sees the picture alone: its mask would not follow",
                      f->masks.map[i].name);
            error_remedy(e, "leave size= out, and resize and crop by transforms, which change both");
            return FB_E_USAGE;
        }
    return step_chain_bind(&f->masks, l, e);
}

void files_close(struct files *f)
{
    step_chain_close(&f->masks);
}

/* ---- where ---- */

int files_field(const struct files *f, int i)
{
    return 1 + i + f->field[i].labels_before;
}
