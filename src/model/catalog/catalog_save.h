/* Finishing a catalog in steps, for those who want to know more than catalog_finish says: look for duplicates, finish into memory, try to
 * keep it in a file and go on without one if that fails. */
#ifndef FB_MODEL_CATALOG_CATALOG_SAVE_H
#define FB_MODEL_CATALOG_CATALOG_SAVE_H

#include "model/catalog/catalog.h"

/* Sorts by key. *first < *second: two samples, by the order they came in, that have the same key; *first == *second: there are none.
 * FB_E_NOMEM. */
int catalog_writer_sort(struct catalog_writer *w, uint64_t *first, uint64_t *second, struct fb_error *e);

/* The key of a sample by the order it came in; valid until the next one is added. */
const char *catalog_writer_key(const struct catalog_writer *w, uint64_t i);

/* Writes an open catalog to `path` (unique temporary name, fsync, rename, fsync of the directory). On success *c is replaced by one that
 * maps the file, so that processes share its pages; on failure *c stays as it is. */
int catalog_save(struct catalog **c, const char *path, struct fb_error *e);

#endif
