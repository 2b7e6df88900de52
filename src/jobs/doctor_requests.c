/* Requests to a bucket at several depths: each that comes back sends the next one, for half a second. Objects are read up to 1 MiB, in no
 * order, each once before any is read again.
 */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dataset/dataset.h"
#include "io/io.h"
#include "jobs/doctor/doctor_probe.h"

enum { DEPTH_MOST = 64, OBJECT_MOST = 1 << 20, BUFFER = OBJECT_MOST + IO_TAIL };
static const int depths[PROBE_DEPTHS] = {1, 4, 16, DEPTH_MOST};
static const uint64_t depth_ns = 500000000, close_ns = 500000000;

struct requests {
    const struct dataset *dataset;
    struct io *io;
    uint64_t count, deadline_ns;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t ended;
    uint64_t next; /* object */
    uint64_t in_flight, reads, bytes, busy_ns;
};

struct flight {
    struct io_request request;
    struct requests *all;
    uint64_t since_ns;
    struct catalog_sample sample;
};

/* Under the lock. False: there is nothing more to ask for. */
static bool prepare(struct flight *f)
{
    struct requests *a = f->all;
    struct fb_error ignored = {0};
    if (clock_now_ns() >= a->deadline_ns)
        return false;
    if (catalog_sample(a->dataset->catalog, a->next++ * 2654435761u % a->count, &f->sample, &ignored) < 0)
        return false;
    uint64_t n = f->sample.length < OBJECT_MOST ? f->sample.length : OBJECT_MOST;
    uint8_t *buffer = f->request.buffer;
    f->request = (struct io_request){.dir_fd = -1,
                                     .path = f->sample.object,
                                     .offset = f->sample.offset,
                                     .length = n,
                                     .expected_size = n,
                                     .buffer = buffer,
                                     .capacity = BUFFER,
                                     .done = f->request.done,
                                     .owner = f,
                                     .expected_mtime_ns = f->sample.mtime_ns};
    f->since_ns = clock_now_ns();
    return true;
}

static void on_done(struct io_request *r)
{
    struct flight *f = r->owner;
    struct requests *a = f->all;
    pthread_mutex_lock(&a->lock);
    if (r->status == 0) {
        a->reads++;
        a->bytes += r->got;
        a->busy_ns += clock_now_ns() - f->since_ns;
    }
    bool goes_on = prepare(f);
    if (!goes_on && --a->in_flight == 0)
        pthread_cond_signal(&a->ended);
    pthread_mutex_unlock(&a->lock);
    if (goes_on)
        a->io->ops->submit(a->io, r, false);
}

static struct storage_point ask_at_depth(struct requests *a, struct flight *flight, int depth)
{
    uint64_t since = clock_now_ns();
    a->deadline_ns = since + depth_ns;
    a->reads = a->bytes = a->busy_ns = 0;
    for (int i = 0; i < depth; i++) {
        pthread_mutex_lock(&a->lock);
        bool goes = prepare(&flight[i]);
        a->in_flight += goes;
        pthread_mutex_unlock(&a->lock);
        if (goes)
            a->io->ops->submit(a->io, &flight[i].request, false);
    }
    pthread_mutex_lock(&a->lock);
    while (a->in_flight)
        pthread_cond_wait(&a->ended, &a->lock);
    pthread_mutex_unlock(&a->lock);
    double wall = (double)(clock_now_ns() - since) / 1e9, reads = (double)a->reads;
    return (struct storage_point){depth, reads / wall, (double)a->bytes / wall, reads > 0 ? (double)a->busy_ns / 1e9 / reads : NAN};
}

static void ask(struct requests *a, struct flight *flight, struct storage_probe *p)
{
    double bytes = 0, reads = 0;
    for (int k = 0; k < PROBE_DEPTHS; k++) {
        struct storage_point x = ask_at_depth(a, flight, depths[k]);
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
    struct requests a = {.dataset = d, .count = catalog_count(d->catalog)};
    struct flight *flight = calloc(DEPTH_MOST, sizeof(*flight));
    uint8_t *buffers = malloc((size_t)DEPTH_MOST * BUFFER);
    int rc = flight && buffers ? io_open(&a.io, d->io, DEPTH_MOST, log, e) : error_set(e, FB_E_NOMEM, "doctor", "no memory");
    pthread_mutex_init(&a.lock, NULL);
    pthread_cond_init(&a.ended, NULL);
    for (int i = 0; i < DEPTH_MOST && rc == 0; i++)
        flight[i] = (struct flight){.all = &a, .request = {.buffer = buffers + (size_t)i * BUFFER, .done = on_done}};
    if (rc == 0)
        ask(&a, flight, p);
    if (rc == 0)
        a.io->ops->close(a.io, close_ns); /* nothing is in flight any more */
    pthread_cond_destroy(&a.ended);
    pthread_mutex_destroy(&a.lock);
    free(buffers);
    free(flight);
    return rc;
}
