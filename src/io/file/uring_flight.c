#include "io/file/uring_flight.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/io_shared.h"

/* The kernel holds back what goes to the device ("plugs" it) while it takes more than two submissions in one call, and preparing a read
 * from a cold cache costs it 10-20 us: a batch of 8 leaves an idle device waiting for most of that. So reads are submitted at once until
 * the device has this many, in batches beyond. Measured on a busy 2-core machine: 1.1 to 1.4x the files at depth 8 and 16; at 32 and 64
 * 7-9 % less CPU than always at once. */
enum { HURRY_BELOW = 8 };

int uring_flights_alloc(struct uring_flights *fs, uint32_t depth, struct fb_error *e)
{
    fs->depth = depth;
    fs->finished_end = &fs->finished;
    fs->all = io_alloc(depth * sizeof(*fs->all), e);
    fs->free_list = io_alloc(depth * sizeof(*fs->free_list), e);
    if (!fs->all || !fs->free_list)
        return FB_E_NOMEM;
    for (uint32_t i = 0; i < depth; i++)
        fs->free_list[fs->free_count++] = depth - 1 - i;
    return 0;
}

void uring_flights_free(struct uring_flights *fs)
{
    free(fs->free_list);
    free(fs->all);
}

static uint32_t index_of(const struct uring_flights *fs, const struct uring_flight *f)
{
    return (uint32_t)(f - fs->all);
}

/* An entry for what may as well be done without: leaves one for each flight's next step. */
static struct io_uring_sqe *spare_entry(struct uring_flights *fs)
{
    return uring_ring_sqe(&fs->ring, fs->depth + 4);
}

/* There is always an entry for the next step: a flight has one at most. */
static struct io_uring_sqe *entry_for(struct uring_flights *fs, struct uring_flight *f, enum uring_operation operation)
{
    struct io_uring_sqe *sqe = uring_ring_sqe(&fs->ring, 0);
    assert(sqe);
    f->operation = operation;
    return sqe;
}

static void start_open(struct uring_flights *fs, struct uring_flight *f)
{
    struct io_uring_sqe *sqe = entry_for(fs, f, URING_OPEN);
    io_uring_prep_openat(sqe, f->r->dir_fd, f->r->path, IO_OPEN_FLAGS, 0);
    io_uring_sqe_set_data64(sqe, uring_tag(index_of(fs, f), URING_OPEN));
}

static void start_read(struct uring_flights *fs, struct uring_flight *f)
{
    struct io_part p = io_file_part(f->r, &f->file);
    struct io_uring_sqe *sqe = entry_for(fs, f, URING_READ);
    io_uring_prep_read(sqe, f->fd, p.to, (unsigned)p.bytes, p.offset);
    if (f->is_async)
        sqe->flags |= IOSQE_ASYNC;
    io_uring_sqe_set_data64(sqe, uring_tag(index_of(fs, f), URING_READ));
    if (fs->reads_in_flight++ < HURRY_BELOW)
        uring_ring_start(&fs->ring);
}

/* Through the ring, because some file systems wait in close (FUSE and NFS flush). Those closes are counted, so that the ring does not go
 * before they are over, which would leave the descriptor open. */
static void start_close(struct uring_flights *fs, const struct uring_flight *f)
{
    struct io_uring_sqe *sqe = spare_entry(fs);
    if (!sqe) {
        close(f->fd);
        return;
    }
    io_uring_prep_close(sqe, f->fd);
    io_uring_sqe_set_data64(sqe, uring_tag(0, f->is_quiet_close ? URING_QUIET_CLOSE : URING_CLOSE));
    if (f->is_quiet_close)
        sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    else
        fs->closes_in_flight++;
}

static void end_flight(struct uring_flights *fs, struct uring_flight *f)
{
    if (f->fd >= 0 && !f->r->has_fd)
        start_close(fs, f);
    *fs->finished_end = f->r;
    fs->finished_end = &f->r->next;
    fs->finished_count++;
    f->r = NULL;
    fs->free_list[fs->free_count++] = index_of(fs, f);
}

static int after_open(struct uring_flights *fs, struct uring_flight *f, int result)
{
    if (result < 0)
        return result == -EINTR ? IO_FILE_MORE : io_file_fail_open(f->r, -result);
    f->fd = result;
    int rc = io_file_begin(f->r, &f->file, f->fd);
    if (rc != IO_FILE_MORE)
        return rc;
    bool is_local = io_device_of(f->file.device, f->fd) != IO_DEVICE_BLOCKS;
    f->is_async = !is_local;
    f->is_quiet_close = is_local && fs->ring.has_cqe_skip;
    return IO_FILE_MORE;
}

void uring_flight_begin(struct uring_flights *fs, struct io_request *r)
{
    struct uring_flight *f = &fs->all[fs->free_list[--fs->free_count]];
    *f = (struct uring_flight){.r = r, .fd = -1};
    if (io_file_check(r) < 0)
        end_flight(fs, f);
    else if (!r->has_fd)
        start_open(fs, f);
    else if (after_open(fs, f, r->fd) == IO_FILE_MORE)
        start_read(fs, f);
    else
        end_flight(fs, f);
}

static int after_read(struct uring_flight *f, int result)
{
    if (result == -EAGAIN && !f->is_async) { /* a file system that takes O_NONBLOCK at its word */
        f->is_async = true;
        return IO_FILE_MORE;
    }
    return io_file_take(f->r, &f->file, f->fd, result);
}

static void advance(struct uring_flights *fs, struct uring_flight *f, int result)
{
    bool was_stopped = fs->is_cancelled && result < 0; /* ECANCELED, EINTR, or what a file system makes of a signal */
    fs->reads_in_flight -= f->operation == URING_READ;
    int rc = was_stopped ? io_fail_closed(f->r) : f->operation == URING_OPEN ? after_open(fs, f, result) : after_read(f, result);
    if (rc == IO_FILE_MORE && fs->is_cancelled)
        rc = io_fail_closed(f->r);
    if (rc != IO_FILE_MORE)
        end_flight(fs, f);
    else if (f->fd < 0)
        start_open(fs, f);
    else
        start_read(fs, f);
}

void uring_flight_answer(struct uring_flights *fs, const struct io_uring_cqe *cqe)
{
    switch (cqe->user_data & 7) {
    case URING_OPEN:
    case URING_READ: advance(fs, &fs->all[cqe->user_data >> 3], cqe->res); break;
    case URING_CLOSE: fs->closes_in_flight--; break;
    default: break; /* a cancel, or a quiet close that failed: the descriptor is gone all the same */
    }
}

struct io_request *uring_flights_take_finished(struct uring_flights *fs)
{
    *fs->finished_end = NULL;
    struct io_request *head = fs->finished;
    fs->finished = NULL;
    fs->finished_end = &fs->finished;
    fs->finished_count = 0;
    return head;
}

void uring_flights_cancel_one(struct uring_flights *fs, uint64_t tag)
{
    struct io_uring_sqe *sqe = spare_entry(fs);
    if (!sqe)
        return; /* it runs to its end */
    io_uring_prep_cancel64(sqe, tag, 0);
    io_uring_sqe_set_data64(sqe, uring_tag(0, URING_CANCEL));
}

/* Each by its own tag, which kernels before 5.19 understand too. */
void uring_flights_cancel(struct uring_flights *fs)
{
    fs->is_cancelled = true;
    for (uint32_t i = 0; i < fs->depth; i++)
        if (fs->all[i].r)
            uring_flights_cancel_one(fs, uring_tag(i, fs->all[i].operation));
}

bool uring_flights_is_empty(const struct uring_flights *fs)
{
    return fs->free_count == fs->depth && fs->closes_in_flight == 0 && fs->finished_count == 0;
}
