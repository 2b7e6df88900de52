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

enum { BENEATH_MAX_PATH = 4095 };

/* Can the name be used at all? */
bool beneath_is_clean(const char *name);

/* Opens the folder that `name` (a clean one) lies in, below root_fd, making folders that are missing; *last is the name's last part, inside
 * `name`. Returns a descriptor, or a negative code: FB_E_DATA for a name that is not clean or leads through a link. */
int beneath_open_parent(int root_fd, const char *name, const char **last, struct fb_error *e);

#endif
