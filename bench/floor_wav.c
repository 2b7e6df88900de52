/* floor_wav: threads that open, read, close and convert WAV files of 16 bits into a batch of clips, which is filled again and again.
 *
 *     floor_wav LIST THREADS PASSES BATCH_SIZE SAMPLES
 *
 * LIST has a path on each line. Headers have 44 bytes; of each file the first SAMPLES frames become float32, a shorter one is followed by
 * zeros. A first pass warms up. Prints one JSON object.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "codec/array/convert/array_convert.h"
#include "floor_bare.h"

enum { HEADER = 44, AT_ONCE = 8 };

static struct {
    char **path;
    uint64_t files, total, batch, samples;
    uint64_t *order;
    float *memory;
    struct array_conversion conversion;
    _Atomic uint64_t next;
} f;

static void read_list(const char *path)
{
    FILE *list = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    if (!list)
        die("%s: %s", path, strerror(errno));
    for (ssize_t n; (n = getline(&line, &capacity, list)) > 0;) {
        f.path = realloc(f.path, (f.files + 1) * sizeof(*f.path));
        if (!f.path)
            die("no memory");
        f.path[f.files++] = strndup(line, (size_t)n - 1);
    }
    free(line);
    fclose(list);
}

static void do_file(const char *path, uint8_t *bytes, size_t capacity, float *to)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        die("%s: %s", path, strerror(errno));
    size_t wanted = (size_t)st.st_size < capacity ? (size_t)st.st_size : capacity;
    ssize_t n = pread(fd, bytes, wanted, 0);
    close(fd);
    if (n < HEADER)
        die("%s: %s", path, n < 0 ? strerror(errno) : "too short");
    uint64_t frames = ((uint64_t)n - HEADER) / 2;
    frames = frames < f.samples ? frames : f.samples;
    array_convert(&f.conversion, bytes + HEADER, to, frames);
    memset(to + frames, 0, (f.samples - frames) * sizeof(*to));
}

static void *body(void *arg)
{
    (void)arg;
    size_t capacity = 1 << 20;
    uint8_t *bytes = need(capacity);
    for (uint64_t first; (first = atomic_fetch_add(&f.next, AT_ONCE)) < f.total;)
        for (uint64_t i = first; i < first + AT_ONCE && i < f.total; i++)
            do_file(f.path[f.order[i % f.files]], bytes, capacity, f.memory + i % f.batch * f.samples);
    free(bytes);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage: floor_wav LIST THREADS PASSES BATCH_SIZE SAMPLES");
    struct fb_error e = {0};
    read_list(argv[1]);
    f.batch = strtoull(argv[4], NULL, 10);
    f.samples = strtoull(argv[5], NULL, 10);
    f.memory = need(f.batch * f.samples * sizeof(*f.memory));
    f.order = need(f.files * sizeof(*f.order));
    if (array_conversion_init(&f.conversion, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, NULL, &e) < 0)
        die("%s", e.cause);
    for (uint64_t i = 0; i < f.files; i++)
        f.order[i] = i;
    shuffle(f.order, f.files);
    f.total = f.files;
    body(NULL);
    f.total = f.files * strtoull(argv[3], NULL, 10);
    atomic_store(&f.next, 0);
    run_and_print(body, NULL, atoi(argv[2]), f.total);
    return 0;
}
