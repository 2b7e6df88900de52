/* What the back-ends share: their memory, a done that cannot recurse, and knowing that this process is a fork of the one that opened. */
#ifndef FB_IO_IO_SHARED_H
#define FB_IO_IO_SHARED_H

#include <stdbool.h>
#include <stddef.h>

#include "model/io_ops.h"

enum { IO_DEPTH_MAX = 4096, IO_THREADS_MAX = 64 };

/* Zeroed and aligned to a cache line; freed by free(). NULL with FB_E_NOMEM in `e`. */
void *io_alloc(size_t bytes, struct fb_error *e);

/* How many forks lie between the program's start and this process. A handle remembers it at open; in a child it differs, and neither the
 * handle's lock nor its ring may be touched: threads do not survive a fork, locks may be held by ghosts. */
unsigned io_fork_count(void);
/* Fills r as failed with FB_E_FORKED and calls done. */
void io_refuse_forked(struct io_request *r);
int io_fail_forked(struct io_request *r);

/* Calls r->done on this thread, which may be inside a done already (a done may submit, and a submit may be over at once): then after it,
 * so the stack does not grow. */
void io_done_here(struct io_request *r);

/* Fills r as cancelled by close: FB_E_STATE. The caller counts it and calls done. */
int io_fail_closed(struct io_request *r);

/* Calls done for a list of cancelled requests (by `next`). */
struct io_count;
void io_cancel_list(struct io_count *c, struct io_request *head);

#endif
