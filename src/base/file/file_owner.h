/* Who may own files that we trust: a file kept between runs is used only if no other user could have written it, as ssh does with keys. */
#ifndef FB_BASE_FILE_FILE_OWNER_H
#define FB_BASE_FILE_FILE_OWNER_H

#include <sys/stat.h>

/* NULL: the file or folder belongs to this user or to root, and not everybody may write to it. Otherwise why it is not trusted, in
 * words. A group that may write is trusted: whoever gave it the right meant it. */
const char *owner_distrust(const struct stat *st);

#endif
