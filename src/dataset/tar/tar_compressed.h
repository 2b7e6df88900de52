/* Archives that are compressed as a whole: .tar.gz, .tar.zst.
 *
 * Such a stream can only be read from its beginning, and a shuffled epoch reads from everywhere. So it is unpacked once, into a plain tar
 * in the folder where catalogs are kept, under a name that says which version of the archive it is of; from then on it is an archive like
 * any other. What an older version left is removed. If several processes need it at once, one unpacks and the others wait.
 */
#ifndef FB_DATASET_TAR_TAR_COMPRESSED_H
#define FB_DATASET_TAR_TAR_COMPRESSED_H

#include "dataset/dataset_ops.h"

enum tar_squeeze { TAR_PLAIN, TAR_GZIP, TAR_ZSTD, TAR_XZ, TAR_BZIP2, TAR_LZ4 };

/* By the first bytes. */
enum tar_squeeze tar_squeeze_of(const uint8_t *first, size_t n);
const char *tar_squeeze_name(enum tar_squeeze how);

/* The path of the plain archive in *out, the caller's. `fd` is the compressed one, `path` its canonical name. FB_E_DATA: the stream is
 * damaged or cut off, at the offset told, holds no tar archive, or grows beyond all measure (250 times what it was, past the first 64
 * MiB). FB_E_UNSUPPORTED: there is no folder for it. FB_E_IO: no space. FB_E_INTERRUPTED. */
int tar_squeezed_unpack(struct dataset_job *job, int fd, const char *path, enum tar_squeeze how, char **out, struct fb_error *e);

#endif
