/* pack_open: how long it takes to open the index of a large pack, and how much memory that needs.
 *
 *     pack_open FOLDER [SAMPLES]
 *
 * Writes a pack of SAMPLES (1.2 million) empty records into FOLDER: its members are a hole, its index is real. Then opens it as a loader
 * would, in a child of its own, with its pages evicted and with them in memory. Prints one JSON object.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "dataset/dataset.h"
#include "jobs/pack/pack_shard.h"

static void die(const char *what, const struct fb_error *e)
{
    fprintf(stderr, "pack_open: %s: %s\n", what, e ? e->cause : "");
    exit(1);
}

static struct catalog *make_source(uint64_t n)
{
    struct fb_error e = {0};
    struct catalog_writer *w;
    struct catalog *c;
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true};
    if (catalog_writer_open(&w, &e) < 0 || catalog_add_field(w, &label, &e) < 0)
        die("catalog", &e);
    for (uint64_t i = 0; i < n; i++) {
        char key[64], class[16];
        snprintf(class, sizeof(class), "n%08u", (unsigned)(i % 1000));
        snprintf(key, sizeof(key), "%s/%s_%08llu.JPEG", class, class, (unsigned long long)i);
        int64_t number = catalog_add_class(w, class, &e);
        struct catalog_sample s = {.key = key, .length = 110000, .object_size = 110000, .mtime_ns = 1};
        if (number < 0 || catalog_add_sample(w, &s, (const void *const[]){&number}, &e) < 0)
            die("sample", &e);
    }
    if (catalog_finish(w, NULL, &c, &e) < 0)
        die("finish", &e);
    return c;
}

static void make_pack(const char *path, uint64_t n)
{
    struct fb_error e = {0};
    struct catalog *source = make_source(n);
    struct pack_shard s;
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || pack_shard_open(&s, fd, 0, source, &e) < 0)
        die(path, &e);
    for (uint64_t i = 0; i < n; i++) {
        struct pack_entry entry = {
            .sample = i, .start = i * 112128, .length = 112128, .data_offset = i * 112128 + 512, .data_length = 110000};
        if (pack_shard_add(&s, source, &entry, NULL, &e) < 0)
            die("record", &e);
    }
    if (pack_shard_finish(&s, source, NULL, true, &e) < 0)
        die("index", &e);
    pack_shard_close(&s);
    catalog_close(source);
}

struct figures {
    double seconds, first_sample_seconds, rss_bytes, count;
};

static double resident(void)
{
    long pages = 0, rss = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld %ld", &pages, &rss) != 2)
        die("statm", NULL);
    fclose(f);
    return (double)rss * (double)sysconf(_SC_PAGESIZE);
}

static struct figures open_once(const char *path, const char *cache)
{
    struct fb_error e = {0};
    struct dataset d;
    struct catalog_sample s;
    struct dataset_request r = {.source = path, .catalog_dir = cache};
    double before = resident();
    uint64_t since = clock_now_ns();
    if (dataset_open(&d, &r, &e) < 0)
        die("open", &e);
    struct figures f = {.seconds = (double)(clock_now_ns() - since) / 1e9, .count = (double)catalog_count(d.catalog)};
    for (uint64_t i = 0; i < 64; i++) /* a batch */
        if (catalog_sample(d.catalog, i * 7919 % catalog_count(d.catalog), &s, &e) < 0)
            die("sample", &e);
    f.first_sample_seconds = (double)(clock_now_ns() - since) / 1e9;
    f.rss_bytes = resident() - before;
    dataset_close(&d);
    return f;
}

/* In a process of its own, so that nothing of it is in memory yet. */
static struct figures measure(const char *path, const char *cache, int is_cold)
{
    struct figures f = {0};
    int ends[2], status;
    if (is_cold) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        fdatasync(fd);
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    if (pipe(ends) < 0)
        die("pipe", NULL);
    pid_t child = fork();
    if (child == 0) {
        f = open_once(path, cache);
        _exit(write(ends[1], &f, sizeof(f)) == sizeof(f) ? 0 : 1);
    }
    if (read(ends[0], &f, sizeof(f)) != sizeof(f) || waitpid(child, &status, 0) < 0 || status)
        die("child", NULL);
    close(ends[0]);
    close(ends[1]);
    return f;
}

int main(int argc, char **argv)
{
    char path[4096], cache[4096];
    if (argc < 2)
        die("usage: pack_open FOLDER [SAMPLES]", NULL);
    uint64_t n = argc > 2 ? strtoull(argv[2], NULL, 10) : 1200000;
    snprintf(path, sizeof(path), "%s/open.tar", argv[1]);
    snprintf(cache, sizeof(cache), "%s/catalogs", argv[1]);
    make_pack(path, n);
    struct figures cold = measure(path, cache, 1), warm = measure(path, cache, 0);
    if (cold.count != (double)n || warm.count != (double)n)
        die("samples are missing", NULL);
    printf("{\"samples\": %llu, \"open_cold_seconds\": %.6f, \"open_warm_seconds\": %.6f, \"batch_known_cold_seconds\": %.6f, "
           "\"rss_bytes\": %.0f}\n",
           (unsigned long long)n, cold.seconds, warm.seconds, cold.first_sample_seconds, cold.rss_bytes);
    unlink(path);
    return 0;
}
