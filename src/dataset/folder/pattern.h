/* Patterns of paths: `*` and `?` and `[a-z]` within a name, `**` for any number of folders; at the end, for everything inside.
 *
 * A pattern is cut at its slashes; how far a path has matched is a set of positions, kept as bits. So a folder that nothing below can match
 * is never opened, and no pattern, however many stars, takes more than one step per name and part. Names are bytes and the locale has no
 * say (fnmatch asks it): a pattern means the same files everywhere. `?` takes one UTF-8 character, or one byte where there is none.
 */
#ifndef FB_DATASET_FOLDER_PATTERN_H
#define FB_DATASET_FOLDER_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { PATTERN_MAX_PARTS = 63 };

struct pattern {
    char *text; /* the parts, NUL-terminated, one after the other */
    const char *part[PATTERN_MAX_PARTS];
    int parts;
};

/* Does the text hold any of * ? [ */
bool pattern_is_one(const char *text);
/* FB_E_USAGE: too many parts, or "..". */
int pattern_open(struct pattern *p, const char *text, struct fb_error *e);
void pattern_close(struct pattern *p);

/* Nothing matched yet. */
uint64_t pattern_start(const struct pattern *p);
/* After one more name. 0: nothing can match any more. */
uint64_t pattern_step(const struct pattern *p, uint64_t set, const char *name);
bool pattern_is_matched(const struct pattern *p, uint64_t set);

#endif
