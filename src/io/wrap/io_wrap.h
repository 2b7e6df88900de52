/* A back-end around another: decides for each request when it may go on and what becomes of it, then lets the inner one read.
 *
 * slow and fault are policies on top of this. Up to `depth` requests are inside at once, each as a shadow: a copy that the inner back-end
 * works on, so that the caller's request stays untouched until it is over. Further ones queue. A shadow waits until its due time (which may
 * never come), then goes to the inner back-end, or is over without it. No try_now: what is modelled is a device, not a page cache.
 *
 * Safety: `admit` runs under the lock; `finish` and done outside it, on the inner back-end's thread, the timer's, or the submitter's.
 */
#ifndef FB_IO_WRAP_IO_WRAP_H
#define FB_IO_WRAP_IO_WRAP_H

#include <pthread.h>

#include "io/io_count.h"
#include "io/io_list.h"
#include "io/io_queue.h"

#define IO_NEVER UINT64_MAX

struct io_shadow {
    struct io_request r; /* what the inner back-end sees; r.owner is the shadow */
    struct io_request *outer;
    struct io_wrap *wrap;
    uint64_t due_ns, number;
    bool is_over;        /* set by admit: finish decides, the inner back-end is not asked */
    bool is_stuck;       /* set by admit with IO_NEVER: not even close gets it back */
    const void *verdict; /* the policy's */
};

struct io_wrap {
    struct io io;
    struct io_count count;
    unsigned forks; /* at open */
    struct io *inner;
    /* The policy. admit: says when (due_ns, 0: at once; IO_NEVER) and may set is_over and verdict. finish: MAY, changes the outer request
     * after its result was copied; with is_over it makes the result. free_policy: MAY. */
    void (*admit)(struct io_wrap *w, struct io_shadow *s);
    void (*finish)(struct io_wrap *w, struct io_shadow *s);
    void (*free_policy)(struct io_wrap *w);
    void *policy;

    pthread_t timer;
    bool has_timer;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct io_queue queue; /* waiting for a shadow */
    struct io_shadow *shadows;
    uint32_t *free_list;
    uint32_t free_count;
    struct io_shadow **waiting; /* a heap by (due_ns, number) */
    uint32_t waiting_count;
    uint64_t next_number;
    bool is_closing;
    struct io_wrap *next_kept; /* once it had to be left behind */
};

/* Opens the inner back-end and starts the timer. Takes `policy`: free_policy is called on failure too. */
int io_wrap_open(struct io **out, const struct io_wrap *init, const char *over, uint32_t depth, const struct log *log, struct fb_error *e);
void io_wrap_submit(struct io *io, struct io_request *r, bool more);
void io_wrap_figures(struct io *io, struct io_figures *f);
uint32_t io_wrap_close(struct io *io, uint64_t timeout_ns);

#endif
