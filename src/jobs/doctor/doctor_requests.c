/* Requests to a bucket at several depths: each that comes back sends the next one, for half a second. Objects are read up to 1 MiB, in no
 * order, each once before any is read again.
 */
#include <math.h>

#include "base/clock.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "io/io_wait.h"
#include "jobs/doctor/doctor_probe.h"

enum { DEPTH_MOST = 64, OBJECT_MOST = 1 << 20 };
static const int depths[PROBE_DEPTHS] = {1, 4, 16, DEPTH_MOST};
static const uint64_t depth_ns = 500000000, close_ns = 500000000;

struct requests {
    const struct dataset *dataset;
    struct io_wait *wait;
    uint64_t count, next; /* objects; the next one */
};

/* False: there is no such object. */
static bool send_next(struct requests *a, uint32_t i)
{
    struct catalog_sample s;
    if (catalog_sample(a->dataset->catalog, a->next++ * 2654435761u % a->count, &s, NULL) < 0)
        return false;
    uint64_t n = s.length < OBJECT_MOST ? s.length : OBJECT_MOST;
    io_wait_submit(
        a->wait, i,
        &(struct io_request){
            .dir_fd = -1, .path = s.object, .offset = s.offset, .length = n, .expected_size = n, .expected_mtime_ns = s.mtime_ns},
        false);
    return true;
}

static struct storage_point ask_at_depth(struct requests *a, int depth)
{
    uint64_t since = clock_now_ns(), bytes = 0, busy_ns = 0;
    double reads = 0;
    uint32_t i = 0;
    while (i < (uint32_t)depth && send_next(a, i))
        i++;
    while (io_wait_next(a->wait, NULL, &i) > 0) {
        const struct io_request *r = io_wait_result(a->wait, i);
        if (r->status == 0) {
            reads++;
            bytes += r->got;
            busy_ns += r->done_ns - r->submitted_ns;
        }
        if (clock_now_ns() < since + depth_ns)
            send_next(a, i);
    }
    double wall = (double)(clock_now_ns() - since) / 1e9;
    return (struct storage_point){depth, reads / wall, (double)bytes / wall, reads > 0 ? (double)busy_ns / 1e9 / reads : NAN};
}

static void ask(struct requests *a, struct storage_probe *p)
{
    double bytes = 0, reads = 0;
    for (int k = 0; k < PROBE_DEPTHS; k++) {
        struct storage_point x = ask_at_depth(a, depths[k]);
        if (!(x.reads_per_s > 0))
            break;
        bytes += x.bytes_per_s;
        reads += x.reads_per_s;
        p->point[p->points++] = x;
    }
    p->read_bytes = reads > 0 ? bytes / reads : NAN;
}

int probe_requests(const struct dataset *d, const struct log *log, struct storage_probe *p, struct fb_error *e)
{
    struct io *io;
    FB_TRY(io_open(&io, d->io, DEPTH_MOST, log, e));
    struct requests a = {.dataset = d, .wait = io_wait_new(io, DEPTH_MOST, OBJECT_MOST), .count = catalog_count(d->catalog)};
    int rc = a.wait ? 0 : error_set(e, FB_E_NOMEM, "doctor", "no memory");
    if (rc == 0)
        ask(&a, p);
    io_wait_end(a.wait);
    io->ops->close(io, close_ns); /* nothing is in flight any more */
    return rc;
}
