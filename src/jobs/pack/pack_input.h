/* The bytes of one sample of a source: a file, a part of one, or an object of a store. */
#ifndef FB_JOBS_PACK_PACK_INPUT_H
#define FB_JOBS_PACK_PACK_INPUT_H

#include <sys/stat.h>

#include "jobs/pack/pack_reader.h"

struct pack_input {
    const struct pack_source *source;
    const struct catalog_sample *where;
    int fd;         /* -1: an object of a store */
    struct stat st; /* when it was opened */
};

/* Finds the sample; size and mtime of the item are of the sample as it is now (of an object: as it was listed, and no other version will be
 * read). FB_E_STATE: it is not what was catalogued. */
int pack_input_open(struct pack_input *in, const struct pack_source *s, struct pack_item *item, struct fb_error *e);
/* All `n` bytes at `offset` of the sample. Blocks. FB_E_STATE: it became shorter. */
int pack_input_read(const struct pack_input *in, void *out, uint64_t offset, uint64_t n, struct fb_error *e);
/* FB_E_STATE: it is not what was opened any more. */
int pack_input_check(const struct pack_input *in, struct fb_error *e);
void pack_input_close(struct pack_input *in);

#endif
