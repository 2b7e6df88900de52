/* Storage is read past the page cache (O_DIRECT) where the file system allows it, else after its pages were dropped. Files are opened
 * before the clock starts: what an open costs is measured apart, because a pack saves just that.
 */
#include "jobs/doctor/doctor_probe.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/round_up.h"
#include "base/thread.h"
#include "dataset/dataset.h"
#include "io/io.h"

enum { FILES_MOST = 192, READ_MOST = 1 << 20, ALIGN = 4096, COPY_BYTES = 32 << 20, COPY_STEP = 256 << 10, COPY_ROUNDS = 4, OPENS = 200 };
static const uint64_t depth_ns = 300000000;
static const int depths[PROBE_DEPTHS] = {1, 4, 16, 64};

struct probe_file {
    int fd;
    off_t at;
    size_t bytes;
};

struct run {
    const struct probe_file *file;
    int files;
    uint64_t deadline_ns;
    _Atomic int next;
    _Atomic uint64_t reads, bytes, busy_ns;
};

/* ---- reading ---- */

static void *read_files(void *arg)
{
    struct run *r = arg;
    void *buffer = aligned_alloc(ALIGN, READ_MOST + ALIGN);
    while (buffer) {
        int i = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        uint64_t since = clock_now_ns();
        if (i >= r->files || since >= r->deadline_ns)
            break;
        ssize_t got = pread(r->file[i].fd, buffer, r->file[i].bytes, r->file[i].at);
        if (got <= 0)
            continue;
        atomic_fetch_add_explicit(&r->reads, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&r->bytes, (uint64_t)got, memory_order_relaxed);
        atomic_fetch_add_explicit(&r->busy_ns, clock_now_ns() - since, memory_order_relaxed);
    }
    free(buffer);
    return NULL;
}

static struct storage_point read_at_depth(const struct probe_file *file, int files, int depth)
{
    struct run r = {.file = file, .files = files, .deadline_ns = clock_now_ns() + depth_ns};
    pthread_t thread[64];
    int started = 0;
    struct fb_error ignored = {0};
    uint64_t since = clock_now_ns();
    while (started < depth && thread_start(&thread[started], "fb-probe", read_files, &r, &ignored) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    double wall = (double)(clock_now_ns() - since) / 1e9, reads = (double)atomic_load(&r.reads);
    return (struct storage_point){depth, reads / wall, (double)atomic_load(&r.bytes) / wall,
                                  reads > 0 ? (double)atomic_load(&r.busy_ns) / 1e9 / reads : NAN};
}

/* ---- which files ---- */

/* A read of a sample, grown to whole blocks as O_DIRECT wants them. */
static bool open_sample(int root_fd, const struct catalog_sample *s, bool is_direct, struct probe_file *f)
{
    uint64_t first = s->offset & ~(uint64_t)(ALIGN - 1), end = round_up(s->offset + s->length, ALIGN);
    f->at = (off_t)first;
    f->bytes = end - first < READ_MOST ? (size_t)(end - first) : READ_MOST;
    f->fd = openat(root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (is_direct ? O_DIRECT : 0));
    if (f->fd >= 0 && !is_direct)
        posix_fadvise(f->fd, f->at, (off_t)f->bytes, POSIX_FADV_DONTNEED);
    return f->fd >= 0;
}

/* Other samples for every depth: what one depth brought into a device's own cache would help the next. */
static int open_samples(const struct dataset *d, int round, uint64_t row_bytes, bool is_direct, struct probe_file *file, struct fb_error *e)
{
    uint64_t count = catalog_count(d->catalog), wanted = count < FILES_MOST && !row_bytes ? count : FILES_MOST;
    int n = 0;
    for (uint64_t i = 0; i < wanted; i++) {
        struct catalog_sample s;
        uint64_t at = (i * PROBE_DEPTHS + (uint64_t)round) * 2654435761u % count; /* spread, in no order */
        if (catalog_sample(d->catalog, at, &s, e) < 0)
            return -1;
        if (row_bytes && s.length > row_bytes) { /* a row of it */
            s.offset += (i * PROBE_DEPTHS + (uint64_t)round) * 0x9E3779B97F4A7C15u % (s.length - row_bytes);
            s.length = row_bytes;
        }
        n += s.length > 0 && open_sample(d->root_fd, &s, is_direct, &file[n]);
    }
    return n;
}

static void close_samples(struct probe_file *file, int n)
{
    for (int i = 0; i < n; i++)
        close(file[i].fd);
}

static bool can_read_directly(const struct dataset *d)
{
    struct catalog_sample s;
    struct probe_file f;
    struct fb_error ignored = {0};
    void *buffer = aligned_alloc(ALIGN, READ_MOST);
    bool can = false;
    if (buffer && catalog_count(d->catalog) && catalog_sample(d->catalog, 0, &s, &ignored) == 0 && open_sample(d->root_fd, &s, true, &f)) {
        can = pread(f.fd, buffer, f.bytes, f.at) >= 0;
        close(f.fd);
    }
    free(buffer);
    return can;
}

/* Again and again the same files, so that nothing but the calls themselves is timed. */
static double time_opens(const struct dataset *d)
{
    uint64_t count = catalog_count(d->catalog), since = 0;
    int opens = 0;
    for (int round = 0; round < 2; round++) {
        since = clock_now_ns();
        opens = 0;
        for (uint64_t i = 0; i < OPENS && i < count; i++) {
            struct catalog_sample s;
            struct fb_error ignored = {0};
            struct stat st;
            int fd = catalog_sample(d->catalog, i * (count / (count < OPENS ? count : OPENS)), &s, &ignored) == 0
                         ? openat(d->root_fd, s.object, O_RDONLY | O_CLOEXEC)
                         : -1;
            if (fd < 0)
                continue;
            (void)!fstat(fd, &st);
            close(fd);
            opens++;
        }
    }
    return opens ? (double)(clock_now_ns() - since) / 1e9 / opens : NAN;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What the kernel spends on a byte that was not in memory: pages to find, the device to serve. It is part of every first epoch. The median,
 * as interrupts for other programs are served in our time. */
static double time_cold_bytes(const struct dataset *d)
{
    enum { READS = 64 };
    struct probe_file *file = malloc(FILES_MOST * sizeof(*file));
    void *buffer = malloc(READ_MOST);
    struct fb_error ignored = {0};
    double spent[READS];
    int n = file && buffer ? open_samples(d, PROBE_DEPTHS, 0, false, file, &ignored) : 0, reads = 0;
    for (int i = 0; i < n && reads < READS; i++) {
        uint64_t since = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        ssize_t got = pread(file[i].fd, buffer, file[i].bytes, file[i].at);
        if (got > 0)
            spent[reads++] = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - since) / 1e9 / (double)got;
    }
    close_samples(file, n > 0 ? n : 0);
    free(buffer);
    free(file);
    qsort(spent, (size_t)reads, sizeof(*spent), by_value);
    return reads ? spent[reads / 2] : NAN;
}

static int measure(const struct dataset *d, uint64_t row_bytes, struct storage_probe *p, struct fb_error *e)
{
    struct probe_file *file = malloc(FILES_MOST * sizeof(*file));
    if (!file)
        return error_set(e, FB_E_NOMEM, "doctor", "no memory");
    p->is_direct = can_read_directly(d);
    int rc = 0;
    double bytes = 0, reads = 0;
    for (int k = 0; k < PROBE_DEPTHS && rc == 0; k++) {
        int n = open_samples(d, k, row_bytes, p->is_direct, file, e);
        rc = n < 0 ? FB_E_DATA : 0;
        if (n <= 0)
            break;
        struct storage_point x = read_at_depth(file, n, depths[k]);
        close_samples(file, n);
        if (!(x.reads_per_s > 0))
            break;
        bytes += x.bytes_per_s;
        reads += x.reads_per_s;
        p->point[p->points++] = x;
    }
    p->read_bytes = reads > 0 ? bytes / reads : NAN;
    free(file);
    return rc;
}

int probe_storage(const fb_options *o, uint64_t row_bytes, struct storage_probe *p, struct fb_error *e)
{
    struct dataset d;
    struct dataset_request r = dataset_request_of(o, io_stores);
    *p = (struct storage_probe){.read_bytes = NAN, .open_s = NAN, .cold_cpu_s = NAN};
    FB_TRY(dataset_open(&d, &r, e));
    int rc = 0;
    if (d.io && catalog_count(d.catalog)) {
        rc = probe_requests(&d, &r.log, p, e);
    } else if (catalog_count(d.catalog)) {
        rc = measure(&d, row_bytes, p, e);
        p->open_s = time_opens(&d);
        p->cold_cpu_s = time_cold_bytes(&d);
    }
    dataset_close(&d);
    return rc;
}

/* ---- memory ---- */

struct copier {
    pthread_t thread;
    double rate; /* 0: no memory */
};

static void *copy_often(void *arg)
{
    struct copier *c = arg;
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_STEP);
    if (from && to) {
        memset(from, 1, COPY_BYTES);
        memset(to, 2, COPY_STEP);
        for (int i = 0; i < COPY_ROUNDS; i++) {
            uint64_t since = clock_now_ns();
            for (size_t at = 0; at < COPY_BYTES; at += COPY_STEP)
                memcpy(to, from + at, COPY_STEP);
            double rate = COPY_BYTES / ((double)(clock_now_ns() - since) / 1e9);
            c->rate = rate > c->rate ? rate : c->rate;
            from[i] = to[COPY_STEP - 1 - i]; /* it must really happen */
        }
    }
    free(from);
    free(to);
    return NULL;
}

double probe_memory(int threads)
{
    enum { COPIERS_MOST = 64 };
    struct copier c[COPIERS_MOST] = {0};
    struct fb_error ignored = {0};
    int started = 0;
    double sum = 0;
    while (started < threads && started < COPIERS_MOST &&
           thread_start(&c[started].thread, "fb-probe", copy_often, &c[started], &ignored) == 0)
        started++;
    for (int i = 0; i < started; i++) {
        pthread_join(c[i].thread, NULL);
        sum += c[i].rate;
    }
    return sum > 0 ? sum * (threads > started ? (double)threads / started : 1) : NAN;
}
