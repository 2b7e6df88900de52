#include "io/file/uring_ring.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "base/text/text.h"
#include "io/io_shared.h"

/* Linux 6.15: time spent in io_uring_enter is shown as iowait, which reads like a slow disk although the thread merely waits for work.
 * liburing 2.3 does not know the names. */
#define ENTER_NO_IOWAIT (1u << 7)
#define FEAT_NO_IOWAIT (1u << 17)

static int unsupported(int sys_errno, struct fb_error *e)
{
    char reason[128];
    text_errno(sys_errno, reason, sizeof(reason));
    switch (sys_errno) {
    case EPERM:
    case EACCES:
        error_set(e, FB_E_UNSUPPORTED, "read", "io_uring is forbidden here (by the container's profile or kernel.io_uring_disabled)");
        break;
    case ENOSYS: error_set(e, FB_E_UNSUPPORTED, "read", "this kernel has no io_uring"); break;
    case ENOMEM:
        error_set(e, FB_E_UNSUPPORTED, "read", "there is not enough memory for io_uring (limit of locked memory, ulimit -l)");
        break;
    default: error_set(e, FB_E_UNSUPPORTED, "read", "io_uring cannot be set up: %s", text_errno(sys_errno, reason, sizeof(reason)));
    }
    if (e)
        e->sys_errno = sys_errno;
    return FB_E_UNSUPPORTED;
}

static int has_operations(struct io_uring *ring)
{
    static const int needed[] = {IORING_OP_OPENAT, IORING_OP_READ, IORING_OP_CLOSE, IORING_OP_ASYNC_CANCEL};
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    if (!probe)
        return 0;
    int has_all = 1;
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        has_all &= io_uring_opcode_supported(probe, needed[i]);
    io_uring_free_probe(probe);
    return has_all;
}

/* Completions are best handled when we ask for them (6.1), or at least without an interrupt (5.19). */
static int set_up(struct io_uring *ring, unsigned entries)
{
    static const unsigned flags[] = {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0};
    int rc = -EINVAL;
    for (size_t i = 0; rc == -EINVAL && i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct io_uring_params p = {.flags = flags[i] | IORING_SETUP_CLAMP};
        rc = io_uring_queue_init_params(entries, ring, &p);
    }
    return rc;
}

/* liburing maps rings by system calls that ThreadSanitizer does not see. A thread that gets an address runs after the thread that unmapped
 * it; this counter makes that order visible to ThreadSanitizer. */
static atomic_uint mappings;

int uring_ring_open(struct uring_ring *u, uint32_t depth, struct fb_error *e)
{
    int rc = set_up(&u->ring, 3 * depth + 16);
    if (rc < 0)
        return unsupported(-rc, e);
    atomic_fetch_add(&mappings, 1);
    if (!has_operations(&u->ring) || !(u->ring.features & IORING_FEAT_NODROP)) {
        io_uring_queue_exit(&u->ring);
        return error_set(e, FB_E_UNSUPPORTED, "read", "the io_uring of this kernel is too old (5.6 is needed)");
    }
    u->has_cqe_skip = u->ring.features & IORING_FEAT_CQE_SKIP;
    u->wait_flags = u->ring.features & FEAT_NO_IOWAIT ? ENTER_NO_IOWAIT : 0;
    if (u->ring.sq.array) /* entry i is always at place i, so submitting is moving the tail */
        for (unsigned i = 0; i < u->ring.sq.ring_entries; i++)
            u->ring.sq.array[i] = i;
    io_uring_ring_dontfork(&u->ring);
    /* What cannot be done at once goes to kernel threads, by default 4 per core: too few to keep a slow device busy on a small machine. */
    unsigned workers[2] = {depth < IO_THREADS_MAX ? depth : IO_THREADS_MAX, 0};
    io_uring_register_iowq_max_workers(&u->ring, workers);
    return 0;
}

void uring_ring_close(struct uring_ring *u)
{
    atomic_fetch_add(&mappings, 1);
    io_uring_queue_exit(&u->ring);
}

struct io_uring_sqe *uring_ring_sqe(struct uring_ring *u, unsigned reserve)
{
    if (io_uring_sq_space_left(&u->ring) <= reserve)
        return NULL;
    return io_uring_get_sqe(&u->ring);
}

/* liburing 2.3 cannot pass wait_flags, so the tail is moved here. */
static unsigned flush(struct io_uring_sq *sq)
{
    sq->sqe_head = sq->sqe_tail;
    io_uring_smp_store_release(sq->ktail, sq->sqe_tail);
    return sq->sqe_tail - io_uring_smp_load_acquire(sq->khead);
}

void uring_ring_start(struct uring_ring *u)
{
    if (u->ring.sq.sqe_tail - io_uring_smp_load_acquire(u->ring.sq.khead) >= 2)
        io_uring_enter2(u->ring.ring_fd, flush(&u->ring.sq), 0, 0, NULL, _NSIG / 8); /* what it leaves, the next enter takes */
}

void uring_ring_enter(struct uring_ring *u, bool wait)
{
    unsigned to_submit = flush(&u->ring.sq);
    unsigned flags = IORING_ENTER_GETEVENTS | (wait ? u->wait_flags : 0);
    int rc = io_uring_enter2(u->ring.ring_fd, to_submit, wait, flags, NULL, _NSIG / 8);
    if (rc >= 0 || rc == -EINTR || io_uring_cq_ready(&u->ring) > 0)
        return;
    /* EAGAIN, EBUSY: no memory for requests, or completions wait to be taken. Nothing to take: give the system a moment. */
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}
