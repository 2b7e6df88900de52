/* Names from outside as paths: the one place where a name that came with data is turned into a file.
 *
 * A name is taken only if it is relative and has no empty, "." or ".." part; folders are opened by openat2 with RESOLVE_BENEATH |
 * RESOLVE_NO_SYMLINKS, or, where the kernel or a sandbox does not know that call, part by part with O_NOFOLLOW. So whatever the name says,
 * and whatever links lie in the folder, nothing outside of it is ever made, opened or replaced.
 */
#ifndef FB_BASE_FILE_SAFE_PATH_H
#define FB_BASE_FILE_SAFE_PATH_H

#include <stdbool.h>

#include "base/error.h"
#include "base/text/text.h"

enum { SAFE_PATH_MAX = 4095, SAFE_PATH_TEMPORARY_BYTES = 40 };

/* Can the name be used at all? */
bool safe_path_is_clean(const char *name);

/* Opens the folder that `name` (a clean one) lies in, below root_fd, making folders that are missing; *last is the name's last part, inside
 * `name`. Returns a descriptor, or a negative code: FB_E_DATA for a name that is not clean or leads through a link. */
int safe_path_open_parent(int root_fd, const char *name, const char **last, struct fb_error *e);

/* The same for many names, of which neighbours mostly share their folder: the last one stays open. */
struct safe_place {
    const char *stage; /* of errors */
    int root_fd, parent_fd;
    struct text parent; /* its name */
};
struct safe_place safe_place_at(int root_fd, const char *stage);
/* Makes p->parent_fd the folder that `name` lies in. */
int safe_place_enter(struct safe_place *p, const char *name, const char **last, struct fb_error *e);
void safe_place_close(struct safe_place *p); /* root_fd is the caller's */

/* A new file in the folder, for what will be renamed when it is whole. Returns a descriptor; the name is in `temporary`. */
int safe_path_make_temporary(int parent_fd, const char *stage, char temporary[SAFE_PATH_TEMPORARY_BYTES], struct fb_error *e);

#endif
