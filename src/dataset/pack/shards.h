/* Names of shards: "train-{000000..000012}.tar", "{train,extra}-*.tar", or one archive. */
#ifndef FB_DATASET_PACK_SHARDS_H
#define FB_DATASET_PACK_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { SHARDS_MOST = 100000 };

struct shards {
    char **path; /* as given, expanded; in the order written, wildcards sorted bytewise */
    uint32_t count, capacity;
};

/* Does it look like archives: .tar at its end, or .tar.gz and the like, which are refused later in words? */
bool shards_is_name(const char *source);
/* Does it stand for several names? */
bool shards_is_several(const char *source);
/* FB_E_USAGE: an unfinished brace, too many names. FB_E_NOT_FOUND: a wildcard that matches nothing. */
int shards_expand(struct shards *s, const char *source, struct fb_error *e);
void shards_free(struct shards *s);

#endif
