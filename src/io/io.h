/* Opening an io back-end by name. */
#ifndef FB_IO_IO_H
#define FB_IO_IO_H

#include "model/io_ops.h"
#include "model/store_ops.h"

extern const struct io_ops *const io_list[]; /* NULL-terminated, best first */

extern const struct store_ops *const io_stores[]; /* NULL-terminated */

/* spec: NULL or "auto" (uring if the kernel lets us, else pread, said once in the log), a name, or "name:options". */
int io_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e);

/* Are all `bytes` of an open file in the page cache? (cachestat, Linux 6.5; where it is missing or refused nobody knows: false.) Costs
 * about 10 ns per page that is. */
bool io_is_in_memory(int fd, uint64_t bytes);

#endif
