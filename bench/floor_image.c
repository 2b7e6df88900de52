/* floor_image: threads that open, pread, close, decode the region, transform and write the place. Nothing else; the page cache warm.
 *
 *     floor_image FOLDER THREADS EPOCHS BATCH_SIZE DTYPE TRANSFORMS [--known] [--sum]
 *
 * A first pass warms up and is not measured. --known: in that pass every image is decoded whole and what its codec learns (JPEG
 * checkpoints) is kept in memory, so that the measured epochs, numbered from 1, are those of known files. --sum adds up all bytes of the
 * last epoch. Prints one JSON object.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/io_ops.h"
#include "work.h"

static size_t read_file(const struct file *f, uint8_t *buffer, size_t capacity)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", f->path, strerror(errno));
    size_t got = 0;
    for (ssize_t n; got < f->size; got += (size_t)n)
        if ((n = pread(fd, buffer + got, capacity - got, (off_t)got)) <= 0)
            die("%s: %s", f->path, n ? strerror(errno) : "shorter than it was");
    close(fd);
    return got;
}

static void *thread_body(void *arg)
{
    struct work *w = arg;
    struct hand hand;
    size_t capacity = w->files.largest + IO_TAIL;
    uint8_t *buffer = malloc(capacity);
    uint64_t position;
    if (!buffer)
        die("no memory");
    hand_open(&hand, w);
    for (struct file *f; (f = work_take(w, &position)) != NULL;) {
        size_t n = read_file(f, buffer, capacity);
        if (w->epoch == 0 && w->options.is_known)
            hand_learn(&hand, f, buffer, n);
        else
            hand_do(&hand, f, position, buffer, n);
    }
    hand_close(&hand);
    free(buffer);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 7)
        die("usage: floor_image FOLDER THREADS EPOCHS BATCH_SIZE DTYPE TRANSFORMS [--known] [--sum]");
    struct work_options o = {
        .source = argv[1], .batch_size = atoi(argv[4]), .dtype = fb_dtype_from_name(argv[5]), .transforms = argv[6], .decode = true};
    int threads = atoi(argv[2]), epochs = atoi(argv[3]);
    for (int i = 7; i < argc; i++) {
        o.is_known |= strcmp(argv[i], "--known") == 0;
        o.sums_bytes |= strcmp(argv[i], "--sum") == 0;
    }
    if (o.batch_size < 1 || epochs < 1 || !o.dtype)
        die("BATCH_SIZE and EPOCHS are at least 1, DTYPE is uint8, float16, bfloat16 or float32");

    struct work w;
    struct stretch s;
    uint64_t samples = 0, bytes = 0;
    work_open(&w, &o);
    work_start_epoch(&w, 0, false);
    work_run_threads(threads, thread_body, &w);
    stretch_start(&s);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        work_start_epoch(&w, (uint64_t)epoch, false);
        work_run_threads(threads, thread_body, &w);
        samples += atomic_load(&w.done);
        bytes += atomic_load(&w.bytes);
    }
    stretch_end(&s);
    printf("{\"threads\": %d, ", threads);
    work_print_json(&w, &s, samples, bytes);
    printf("}\n");
    work_close(&w);
    return 0;
}
