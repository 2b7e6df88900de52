/* floor_io: bare reading loops on files dropped from the page cache.
 *
 *     floor_io FOLDER uring|pread THREADS DEPTH DTYPE TRANSFORMS     with the decoding work of floor_image
 *     floor_io FOLDER uring|pread THREADS DEPTH                      reading only
 *
 * uring: each of THREADS threads owns a ring that keeps DEPTH/THREADS files in flight, each an open-read-close chain, and works on what
 * has arrived. pread: DEPTH threads that open, read and close; with work, THREADS others decode what those have read, since more decoding
 * threads than cores would only get in each other's way. Files are evicted before the one measured epoch; what was still cached afterwards
 * would show as a rate above the disk's. Prints one JSON object.
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

#include "model/io_ops.h"
#include "work.h"

struct floor {
    struct work work;
    int threads, depth;

    /* pread with work: buffers that were read, waiting for a decoder. Guarded by mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct buffer *ready, *spare;
    int readers_left;
};

struct buffer {
    struct buffer *next;
    uint64_t position;
    const struct file *file;
    size_t got;
    uint8_t *data;
};

static struct buffer *buffer_new(const struct floor *f)
{
    struct buffer *b = calloc(1, sizeof *b);
    if (!b || !(b->data = malloc(f->work.files.largest + IO_TAIL)))
        die("no memory");
    return b;
}

static void buffer_free(struct buffer *b)
{
    free(b->data);
    free(b);
}

/* ------------------------------------------------------------------------------------------------------------------ uring */

static struct io_uring_sqe *get_sqe(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    if (!sqe)
        die("submission queue full");
    return sqe;
}

enum { STEP_OPEN, STEP_READ, STEP_CLOSE };

static void tag(struct io_uring_sqe *sqe, unsigned slot, unsigned step, unsigned flags)
{
    io_uring_sqe_set_data64(sqe, slot * 4u + step);
    io_uring_sqe_set_flags(sqe, flags);
}

/* Hard links: a short read must not cancel the close behind it. */
static bool submit_next(struct floor *f, struct io_uring *ring, struct buffer *b, unsigned slot)
{
    b->file = work_take(&f->work, &b->position);
    if (!b->file)
        return false;
    b->got = 0;
    struct io_uring_sqe *sqe = get_sqe(ring);
    io_uring_prep_openat_direct(sqe, AT_FDCWD, b->file->path, O_RDONLY, 0, slot);
    tag(sqe, slot, STEP_OPEN, IOSQE_IO_HARDLINK);
    sqe = get_sqe(ring);
    io_uring_prep_read(sqe, (int)slot, b->data, (unsigned)(b->file->size + 1), 0);
    tag(sqe, slot, STEP_READ, IOSQE_IO_HARDLINK | IOSQE_FIXED_FILE);
    sqe = get_sqe(ring);
    io_uring_prep_close_direct(sqe, slot);
    tag(sqe, slot, STEP_CLOSE, 0);
    return true;
}

static void open_ring(struct io_uring *ring, unsigned slots)
{
    int rc = io_uring_queue_init(4 * slots, ring, 0);
    if (rc < 0)
        die("io_uring: %s", strerror(-rc));
    rc = io_uring_register_files_sparse(ring, slots);
    if (rc < 0)
        die("io_uring_register_files_sparse: %s", strerror(-rc));
    unsigned workers[2] = {slots < 8 ? 8 : slots, 0};
    io_uring_register_iowq_max_workers(ring, workers);
}

/* Takes one completion. True: the chain of *slot is finished. */
static bool take_completion(struct io_uring *ring, struct buffer **buffer, unsigned *slot)
{
    struct io_uring_cqe *cqe;
    int rc = io_uring_wait_cqe(ring, &cqe);
    if (rc < 0)
        die("io_uring_wait_cqe: %s", strerror(-rc));
    unsigned step = (unsigned)(io_uring_cqe_get_data64(cqe) % 4);
    *slot = (unsigned)(io_uring_cqe_get_data64(cqe) / 4);
    struct buffer *b = buffer[*slot];
    if (cqe->res < 0)
        die("%s: %s", b->file->path, strerror(-cqe->res));
    if (step == STEP_READ)
        b->got = (size_t)cqe->res;
    io_uring_cqe_seen(ring, cqe);
    if (step == STEP_CLOSE && b->got != b->file->size)
        die("%s: read %zu of %zu bytes", b->file->path, b->got, b->file->size);
    return step == STEP_CLOSE;
}

static void *uring_body(void *arg)
{
    struct floor *f = arg;
    unsigned slots = (unsigned)((f->depth + f->threads - 1) / f->threads), in_flight = 0, slot;
    struct buffer **buffer = calloc(slots, sizeof *buffer);
    struct io_uring ring;
    struct hand hand;
    if (!buffer)
        die("no memory");
    open_ring(&ring, slots);
    hand_open(&hand, &f->work);
    for (unsigned i = 0; i < slots; i++) {
        buffer[i] = buffer_new(f);
        in_flight += submit_next(f, &ring, buffer[i], i);
    }
    while (in_flight > 0) {
        io_uring_submit(&ring);
        if (!take_completion(&ring, buffer, &slot))
            continue;
        hand_do(&hand, buffer[slot]->file, buffer[slot]->position, buffer[slot]->data, buffer[slot]->got);
        in_flight -= !submit_next(f, &ring, buffer[slot], slot);
    }
    for (unsigned i = 0; i < slots; i++)
        buffer_free(buffer[i]);
    free(buffer);
    hand_close(&hand);
    io_uring_queue_exit(&ring);
    return NULL;
}

/* ------------------------------------------------------------------------------------------------------------------ pread */

static void read_file(struct buffer *b)
{
    int fd = open(b->file->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", b->file->path, strerror(errno));
    b->got = 0;
    for (ssize_t n; b->got < b->file->size; b->got += (size_t)n)
        if ((n = pread(fd, b->data + b->got, b->file->size - b->got, (off_t)b->got)) <= 0)
            die("%s: %s", b->file->path, n ? strerror(errno) : "shorter than it was");
    close(fd);
}

static void *read_only_body(void *arg)
{
    struct floor *f = arg;
    struct buffer *b = buffer_new(f);
    struct hand hand;
    hand_open(&hand, &f->work);
    while ((b->file = work_take(&f->work, &b->position)) != NULL) {
        read_file(b);
        hand_do(&hand, b->file, b->position, b->data, b->got);
    }
    hand_close(&hand);
    buffer_free(b);
    return NULL;
}

static struct buffer *take(struct floor *f, struct buffer **list, bool until_readers_end)
{
    pthread_mutex_lock(&f->mutex);
    while (!*list && !(until_readers_end && f->readers_left == 0))
        pthread_cond_wait(&f->changed, &f->mutex);
    struct buffer *b = *list;
    if (b)
        *list = b->next;
    pthread_mutex_unlock(&f->mutex);
    return b;
}

static void put(struct floor *f, struct buffer **list, struct buffer *b)
{
    pthread_mutex_lock(&f->mutex);
    b->next = *list;
    *list = b;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

static void *reader_body(void *arg)
{
    struct floor *f = arg;
    for (;;) {
        struct buffer *b = take(f, &f->spare, false);
        b->file = work_take(&f->work, &b->position);
        if (!b->file) {
            put(f, &f->spare, b);
            break;
        }
        read_file(b);
        put(f, &f->ready, b);
    }
    pthread_mutex_lock(&f->mutex);
    f->readers_left--;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

static void *decoder_body(void *arg)
{
    struct floor *f = arg;
    struct hand hand;
    hand_open(&hand, &f->work);
    for (struct buffer *b; (b = take(f, &f->ready, true)) != NULL; put(f, &f->spare, b))
        hand_do(&hand, b->file, b->position, b->data, b->got);
    hand_close(&hand);
    return NULL;
}

static void *reader_or_decoder(void *arg)
{
    static _Atomic int started;
    struct floor *f = arg;
    return atomic_fetch_add(&started, 1) < f->depth ? reader_body(f) : decoder_body(f);
}

static void run_pread(struct floor *f)
{
    if (!f->work.options.decode) {
        work_run_threads(f->depth, read_only_body, f);
        return;
    }
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->readers_left = f->depth;
    for (int i = 0; i < 2 * f->depth; i++)
        put(f, &f->spare, buffer_new(f));
    work_run_threads(f->depth + f->threads, reader_or_decoder, f);
    for (struct buffer *b, *next = f->spare; (b = next) != NULL;) {
        next = b->next;
        buffer_free(b);
    }
}

int main(int argc, char **argv)
{
    struct floor f = {0};
    struct stretch s;
    if (argc != 5 && argc != 7)
        die("usage: floor_io FOLDER uring|pread THREADS DEPTH [DTYPE TRANSFORMS]");
    bool is_uring = strcmp(argv[2], "uring") == 0;
    struct work_options o = {.source = argv[1], .batch_size = 64, .decode = argc == 7};
    if (o.decode)
        o.dtype = fb_dtype_from_name(argv[5]), o.transforms = argv[6];
    f.threads = atoi(argv[3]);
    f.depth = atoi(argv[4]);
    if (f.threads < 1 || f.depth < f.threads || f.depth > 200 + 56 * is_uring || (!is_uring && strcmp(argv[2], "pread") != 0))
        die("THREADS >= 1, THREADS <= DEPTH <= 200 (uring: 256), and uring or pread");

    work_open(&f.work, &o);
    work_start_epoch(&f.work, 1, true);
    stretch_start(&s);
    if (is_uring)
        work_run_threads(f.threads, uring_body, &f);
    else
        run_pread(&f);
    stretch_end(&s);
    printf("{\"threads\": %d, \"depth\": %d, \"io\": \"%s\", ", f.threads, f.depth, argv[2]);
    work_print_json(&f.work, &s, atomic_load(&f.work.done), atomic_load(&f.work.bytes));
    printf("}\n");
    work_close(&f.work);
    return 0;
}
