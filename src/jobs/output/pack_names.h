/* What the members of a pack are called.
 *
 * A member has the path its sample has in the source, unless readers of WebDataset would misunderstand it: they cut a name at the first dot
 * of its last part and take what is before for the sample, what is behind for the kind of content. So a name with further dots, without an
 * extension, equal to another one up to its extension, with "..", or with a first part like "__this__" is replaced by a safe one; the
 * original stays the sample's key. Which names are replaced, and by what, depends on the keys alone.
 */
#ifndef FB_JOBS_OUTPUT_PACK_NAMES_H
#define FB_JOBS_OUTPUT_PACK_NAMES_H

#include "base/text/text.h"
#include "model/catalog/catalog.h"
#include "model/catalog/name_table.h"

struct pack_renamed {
    uint64_t sample;
    uint32_t name; /* in `safe` */
};

struct pack_names {
    const struct catalog *catalog;
    struct name_table safe; /* names without extension */
    struct text renamed;    /* struct pack_renamed each, by sample */
    struct text last;       /* the last name that was taken already ... */
    int last_try;           /* ... and the number that made it free: thousands of samples may differ by their extension only */
};

int pack_names_open(struct pack_names *n, const struct catalog *c, struct fb_error *e);
/* The member's name without its extension and dot, into `out`; returns whether it differs from the key. Any thread. */
bool pack_names_stem(const struct pack_names *n, uint64_t sample, const char *key, struct text *out);
void pack_names_close(struct pack_names *n);

/* What follows the last dot of a key's last part, if it can stand behind a member's only dot; else "". */
const char *pack_names_extension(const char *key);

#endif
