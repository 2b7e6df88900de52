/* Reading and writing all of what is asked for: calls that a signal interrupts are repeated, and short ones go on where they stopped.
 * No pread or pwrite loop is needed anywhere else. Nothing here has a time limit: a descriptor that blocks, blocks. */
#ifndef FB_BASE_FILE_FILE_H
#define FB_BASE_FILE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>
#include <time.h>

#include "base/error.h"

/* Returns the number of bytes read. If it is less than n, errno says why: 0 when the file (or stream) ends there, else the error of the
 * call that failed after that many bytes. errno means nothing if all n were read. */
size_t file_read_all(int fd, void *out, size_t n);
size_t file_read_all_at(int fd, void *out, size_t n, uint64_t offset);

/* 0 when all bytes are written. Otherwise the code of an error "cannot write the file", with errno in it; how much is written then is not
 * known. Callers with other words pass NULL for e and use errno. A file that takes nothing is full (ENOSPC). */
int file_write_all(int fd, const void *bytes, size_t n, struct fb_error *e);
int file_write_all_at(int fd, const void *bytes, size_t n, uint64_t offset, struct fb_error *e);
/* All parts, one behind the other; v is used up. */
int file_write_parts_at(int fd, struct iovec *v, int count, uint64_t offset, struct fb_error *e);

/* fsync, of a file or a folder, and fdatasync, which need not bring a file's times to the disk. File systems that have none (FUSE, 9p:
 * EINVAL, ENOTSUP) have nothing to wait for. Errors as above. */
int file_sync(int fd, struct fb_error *e);
int file_sync_data(int fd, struct fb_error *e);

/* A time in ns since 1970, also before it; and giving it to a file as its last change. `stage` is the error's. */
struct timespec file_time(int64_t ns);
int file_set_time(int fd, int64_t mtime_ns, const char *stage, struct fb_error *e);

/* Is there nothing in the folder (but a new file system's lost+found)? False, too, if it cannot be read. */
bool file_folder_is_empty(int fd);

#endif
