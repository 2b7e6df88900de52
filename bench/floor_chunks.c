/* floor_chunks: threads that read extents of files, and inflate them by libdeflate if they are compressed. Nothing else.
 *
 *     floor_chunks LIST THREADS PASSES INFLATED_BYTES BATCH_BYTES
 *
 * LIST has a line for each unit of work: PATH OFFSET:LENGTH OFFSET:LENGTH ... A unit is a bag (all its extents, adjacent chunks merged) or
 * a chunk. Its file is opened, its extents are read one after another, and the file is closed. INFLATED_BYTES 0: they are what is wanted;
 * else each is a zlib stream of at most so many bytes. What is wanted goes into a batch of BATCH_BYTES, of which each thread has a part
 * that it fills again and again; a unit that is larger is put at its beginning. A first pass warms up. Prints one JSON object; "samples"
 * are units.
 */
#include <fcntl.h>
#include <libdeflate.h>
#include <stdatomic.h>

#include "floor_bare.h"

struct unit {
    char *path;
    uint64_t count, bytes;
    struct {
        uint64_t offset, length;
    } *extent;
};

static struct {
    struct unit *unit;
    uint64_t units, total, largest, inflated, part_bytes, threads;
    uint64_t *order;
    uint8_t *batch;
    _Atomic uint64_t next, bodies;
} f;

struct part {
    uint8_t *memory;
    uint64_t used;
};

static void parse_extents(struct unit *u, char *text)
{
    for (char *p = text; *p; p++)
        u->count += *p == ':';
    u->extent = need(u->count * sizeof(*u->extent) + 1);
    uint64_t n = 0;
    for (char *word = strtok(text, " \n"); word; word = strtok(NULL, " \n"), n++) {
        char *colon = strchr(word, ':');
        if (!colon || n == u->count)
            die("%s is no OFFSET:LENGTH", word);
        u->extent[n].offset = strtoull(word, NULL, 10);
        u->extent[n].length = strtoull(colon + 1, NULL, 10);
        u->bytes += u->extent[n].length;
    }
}

static void read_list(const char *path)
{
    FILE *list = fopen(path, "r");
    char *line = NULL;
    size_t capacity = 0;
    if (!list)
        die("%s: %s", path, strerror(errno));
    while (getline(&line, &capacity, list) > 0) {
        f.unit = realloc(f.unit, (f.units + 1) * sizeof(*f.unit));
        if (!f.unit)
            die("no memory");
        char *space = line + strcspn(line, " ");
        struct unit *u = &f.unit[f.units++];
        *u = (struct unit){.path = strndup(line, (size_t)(space - line))};
        parse_extents(u, space);
        f.largest = u->bytes > f.largest ? u->bytes : f.largest;
    }
    free(line);
    fclose(list);
}

/* The next `bytes` of the thread's part of the batch. */
static uint8_t *place(struct part *p, uint64_t bytes)
{
    uint64_t at = bytes <= f.part_bytes - p->used ? p->used : 0;
    p->used = at + bytes;
    return p->memory + at;
}

static void do_unit(const struct unit *u, uint8_t *memory, struct part *part, struct libdeflate_decompressor *d)
{
    if (!f.inflated)
        memory = place(part, u->bytes);
    int fd = open(u->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", u->path, strerror(errno));
    uint64_t at = 0;
    for (uint64_t i = 0; i < u->count; at += u->extent[i++].length)
        read_all(fd, memory + at, u->extent[i].length, u->extent[i].offset, u->path);
    close(fd);
    at = 0;
    for (uint64_t i = 0; f.inflated && i < u->count; at += u->extent[i++].length) {
        size_t got;
        if (libdeflate_zlib_decompress(d, memory + at, u->extent[i].length, place(part, f.inflated), f.inflated, &got) !=
            LIBDEFLATE_SUCCESS)
            die("%s at %llu: no zlib stream", u->path, (unsigned long long)u->extent[i].offset);
    }
}

static void *body(void *arg)
{
    (void)arg;
    uint8_t *memory = need(f.largest + 1);
    struct part part = {f.batch + atomic_fetch_add(&f.bodies, 1) % f.threads * f.part_bytes, 0};
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    for (uint64_t i; (i = atomic_fetch_add(&f.next, 1)) < f.total;)
        do_unit(&f.unit[f.order[i % f.units]], memory, &part, d);
    libdeflate_free_decompressor(d);
    free(memory);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage: floor_chunks LIST THREADS PASSES INFLATED_BYTES BATCH_BYTES");
    read_list(argv[1]);
    if (!f.units)
        die("%s: nothing to do", argv[1]);
    f.inflated = strtoull(argv[4], NULL, 10);
    f.threads = strtoull(argv[2], NULL, 10);
    if (!f.threads)
        die("no threads");
    f.part_bytes = strtoull(argv[5], NULL, 10) / f.threads;
    uint64_t least = f.inflated > f.largest ? f.inflated : f.largest;
    f.part_bytes = f.part_bytes > least ? f.part_bytes : least;
    f.batch = need(f.part_bytes * f.threads);
    f.order = need(f.units * sizeof(*f.order));
    for (uint64_t i = 0; i < f.units; i++)
        f.order[i] = i;
    shuffle(f.order, f.units);
    f.total = f.units;
    body(NULL);
    f.total = f.units * strtoull(argv[3], NULL, 10);
    atomic_store(&f.next, 0);
    run_and_print(body, NULL, (int)f.threads, f.total);
    return 0;
}
