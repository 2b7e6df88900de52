/* What kind of file system a file lies on, by the numbers of statfs(2). */
#ifndef FB_BASE_FILE_FILE_KIND_H
#define FB_BASE_FILE_FILE_KIND_H

#include <stdbool.h>

/* False for the local ones that are known; true for everything else: NFS, SMB, FUSE, Lustre, GPFS, Ceph, 9p, AFS, and what nobody has
 * heard of. There another machine may replace or cut off a file while it is open here, and a mapped page that cannot be read is a
 * signal. */
bool file_type_is_remote(unsigned long f_type);

/* Of an open file. What cannot be asked counts as remote. */
bool file_is_remote(int fd);

#endif
