/* pack_read: reading the samples of a pack in random order from a cold page cache, by a bare ring and by our io back-end.
 *
 *     pack_read PACK bare|auto|uring|pread DEPTH
 *
 * bare: one descriptor, one ring, DEPTH reads in flight, nothing else. The others go through src/io as the engine does: a request per
 * sample that names the file. The pack is evicted first. Prints one JSON object.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "dataset/dataset.h"
#include "io/io.h"

struct extent {
    uint64_t offset, length;
};

struct job {
    struct extent *extent;
    uint64_t count, largest, bytes;
    const char *path;
};

static void die(const char *what)
{
    fprintf(stderr, "pack_read: %s\n", what);
    exit(1);
}

static void list_extents(struct job *j, const char *path)
{
    struct dataset d;
    struct dataset_request r = {.source = path};
    struct rng rng = rng_stream(RNG_ORDER, 1, 0, 0, 0);
    if (dataset_open(&d, &r, NULL) < 0)
        die("cannot open the pack");
    j->count = catalog_count(d.catalog);
    j->extent = malloc(j->count * sizeof(*j->extent));
    for (uint64_t i = 0; i < j->count; i++) {
        struct catalog_sample s;
        if (catalog_sample(d.catalog, i, &s, NULL) < 0)
            die("damaged");
        uint64_t at = rng_below(&rng, i + 1); /* shuffled as it comes */
        j->extent[i] = j->extent[at];
        j->extent[at] = (struct extent){s.offset, s.length};
        j->largest = s.length > j->largest ? s.length : j->largest;
        j->bytes += s.length;
    }
    dataset_close(&d);
}

static void evict(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fdatasync(fd) < 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        die("cannot evict");
    close(fd);
}

/* ---- bare ---- */

static void queue(struct io_uring *ring, int fd, const struct extent *x, uint8_t *buffer, uint64_t slot)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    io_uring_prep_read(sqe, fd, buffer, (unsigned)x->length, x->offset);
    sqe->user_data = slot;
}

static uint64_t read_bare(struct job *j, unsigned depth)
{
    struct io_uring ring;
    int fd = open(j->path, O_RDONLY | O_CLOEXEC);
    uint8_t *buffers = malloc(depth * (j->largest + 64));
    uint64_t next = 0, done = 0, got = 0;
    if (fd < 0 || !buffers || io_uring_queue_init(depth, &ring, 0) < 0)
        die("cannot make a ring");
    for (; next < depth && next < j->count; next++)
        queue(&ring, fd, &j->extent[next], buffers + next * (j->largest + 64), next);
    while (done < j->count) {
        struct io_uring_cqe *cqe;
        io_uring_submit(&ring);
        if (io_uring_wait_cqe(&ring, &cqe) < 0 || cqe->res < 0)
            die("read");
        do {
            uint64_t slot = cqe->user_data;
            got += (uint64_t)cqe->res;
            done++;
            io_uring_cqe_seen(&ring, cqe);
            if (next < j->count)
                queue(&ring, fd, &j->extent[next++], buffers + slot * (j->largest + 64), slot);
        } while (io_uring_peek_cqe(&ring, &cqe) == 0);
    }
    io_uring_queue_exit(&ring);
    free(buffers);
    close(fd);
    return got;
}

/* ---- through io ---- */

struct through {
    struct job *job;
    struct io *io;
    _Atomic uint64_t next, done, got;
    pthread_mutex_t lock;
    pthread_cond_t all;
};

static void ask(struct through *t, struct io_request *r, const struct extent *x)
{
    r->offset = x->offset;
    r->length = r->expected_size = x->length;
    t->io->ops->submit(t->io, r, false);
}

static void answered(struct io_request *r)
{
    struct through *t = r->owner;
    if (r->status < 0)
        die("read");
    atomic_fetch_add(&t->got, r->got);
    uint64_t i = atomic_fetch_add(&t->next, 1);
    if (i < t->job->count)
        ask(t, r, &t->job->extent[i]);
    if (atomic_fetch_add(&t->done, 1) + 1 == t->job->count) {
        pthread_mutex_lock(&t->lock);
        pthread_cond_signal(&t->all);
        pthread_mutex_unlock(&t->lock);
    }
}

static uint64_t read_through(struct job *j, const char *which, unsigned depth)
{
    struct through t = {.job = j, .lock = PTHREAD_MUTEX_INITIALIZER, .all = PTHREAD_COND_INITIALIZER};
    struct log log = {0};
    struct io_request *request = calloc(depth, sizeof(*request));
    size_t capacity = j->largest + IO_TAIL;
    if (!request || io_open(&t.io, which, depth, &log, NULL) < 0)
        die("cannot open io");
    atomic_store(&t.next, depth < j->count ? depth : j->count);
    for (unsigned i = 0; i < depth && i < j->count; i++) {
        request[i] = (struct io_request){
            .dir_fd = AT_FDCWD, .path = j->path, .buffer = malloc(capacity), .capacity = capacity, .done = answered, .owner = &t};
        ask(&t, &request[i], &j->extent[i]);
    }
    pthread_mutex_lock(&t.lock);
    while (atomic_load(&t.done) < j->count)
        pthread_cond_wait(&t.all, &t.lock);
    pthread_mutex_unlock(&t.lock);
    uint64_t got = atomic_load(&t.got);
    t.io->ops->close(t.io, 1000000000);
    for (unsigned i = 0; i < depth; i++)
        free(request[i].buffer);
    free(request);
    return got;
}

int main(int argc, char **argv)
{
    struct job j = {0};
    if (argc != 4)
        die("usage: pack_read PACK bare|auto|uring|pread DEPTH");
    unsigned depth = (unsigned)atoi(argv[3]);
    if (depth < 1 || depth > 256)
        die("DEPTH is from 1 to 256");
    j.path = argv[1];
    list_extents(&j, argv[1]);
    evict(argv[1]);
    uint64_t since = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t got = strcmp(argv[2], "bare") == 0 ? read_bare(&j, depth) : read_through(&j, argv[2], depth);
    double seconds = (double)(clock_now_ns() - since) / 1e9, cpu_seconds = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu) / 1e9;
    if (got != j.bytes)
        die("bytes are missing");
    printf("{\"how\": \"%s\", \"samples\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"bytes_per_second\": %.0f, \"cpu_seconds\": %.6f}\n",
           argv[2], (unsigned long long)j.count, (unsigned long long)got, seconds, (double)got / seconds, cpu_seconds);
    return 0;
}
