/* The unavoidable work per sample, and the little around it that floors share. */
#include "work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/rng.h"
#include "base/thread.h"

void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("floor: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void must(int rc, const struct fb_error *e)
{
    char line[1024];
    if (rc >= 0)
        return;
    fb_format_error(e, line, sizeof line);
    die("%s", line);
}

static void add_file(struct file_list *l, const char *path, size_t size)
{
    if (l->count == l->capacity) {
        l->capacity = l->capacity ? 2 * l->capacity : 1024;
        l->file = realloc(l->file, l->capacity * sizeof *l->file);
        if (!l->file)
            die("no memory");
    }
    l->file[l->count++] = (struct file){.path = strdup(path), .size = size};
    if (size > l->largest)
        l->largest = size;
}

static void list_folder(struct file_list *l, const char *folder)
{
    DIR *d = opendir(folder);
    if (!d)
        die("%s: %s", folder, strerror(errno));
    for (struct dirent *entry; (entry = readdir(d)) != NULL;) {
        char path[4096];
        struct stat st;
        if (entry->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path)
            continue;
        if (stat(path, &st) < 0)
            die("%s: %s", path, strerror(errno));
        if (S_ISDIR(st.st_mode))
            list_folder(l, path);
        else if (S_ISREG(st.st_mode))
            add_file(l, path, (size_t)st.st_size);
    }
    closedir(d);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->path, ((const struct file *)b)->path);
}

void work_open(struct work *w, const struct work_options *o)
{
    struct fb_error e = {0};
    memset(w, 0, sizeof *w);
    w->options = *o;
    list_folder(&w->files, o->source);
    if (w->files.count == 0)
        die("%s: no files", o->source);
    qsort(w->files.file, w->files.count, sizeof *w->files.file, by_path);
    if (!o->decode)
        return;
    uint32_t height, width;
    must(pipeline_open(&w->pipeline, o->transforms, o->dtype, o->layout, false, &e), &e);
    if (!pipeline_fixed_size(w->pipeline, &height, &width))
        die("the transforms give no fixed size");
    w->place_bytes = (size_t)height * width * 3 * fb_dtype_size(pipeline_dtype(w->pipeline));
    w->batch = memory_map(w->place_bytes * (size_t)o->batch_size);
    if (!w->batch)
        die("no memory for a batch");
}

void work_close(struct work *w)
{
    for (size_t i = 0; i < w->files.count; i++) {
        free(w->files.file[i].path);
        free(w->files.file[i].record);
    }
    free(w->files.file);
    if (w->pipeline)
        pipeline_close(w->pipeline);
    if (w->batch)
        memory_unmap(w->batch, w->place_bytes * (size_t)w->options.batch_size);
}

/* Clean pages only can be dropped, so what is dirty is written first. */
static void evict(const struct file *f)
{
    int fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        die("%s: %s", f->path, strerror(errno));
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

void work_start_epoch(struct work *w, uint64_t epoch, bool cold)
{
    if (cold)
        for (size_t i = 0; i < w->files.count; i++)
            evict(&w->files.file[i]);
    order_init(&w->order, w->files.count, w->options.seed, epoch, true, NULL);
    w->epoch = epoch;
    atomic_store(&w->next, 0);
    atomic_store(&w->done, 0);
    atomic_store(&w->bytes, 0);
    atomic_store(&w->byte_sum, 0);
}

struct file *work_take(struct work *w, uint64_t *position)
{
    *position = atomic_fetch_add(&w->next, 1);
    return *position < w->files.count ? &w->files.file[order_at(&w->order, *position)] : NULL;
}

void hand_open(struct hand *h, struct work *w)
{
    memset(h, 0, sizeof *h);
    h->work = w;
    codec_state_init(&h->codec, NULL);
}

void hand_close(struct hand *h)
{
    codec_state_free(&h->codec);
    scratch_free(&h->scratch);
    scratch_free(&h->pixels);
}

static uint64_t sum_of(const uint8_t *bytes, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += bytes[i];
    return sum;
}

static void decode(struct hand *h, const struct codec_ops *codec, const uint8_t *bytes, size_t n, const struct image_header *header,
                   const struct region *r, struct image *out)
{
    struct fb_error e = {0};
    size_t stride = ((size_t)r->width * 3 + 63) & ~(size_t)63;
    *out = (struct image){scratch_need(&h->pixels, stride * r->height, &e), stride, r->width, r->height};
    must(out->data ? 0 : e.code, &e);
    must(codec_decode(&h->codec, codec, bytes, n, header, r, out, &e), &e);
}

static void decode_into_place(struct hand *h, const struct file *f, uint64_t position, const uint8_t *bytes, size_t n)
{
    struct work *w = h->work;
    struct fb_error e = {0};
    struct image_header header;
    const struct codec_ops *codec;
    struct plan plan;
    struct image pixels;
    must(codec_header(bytes, n, &header, &codec, &e), &e);
    must(pipeline_plan(w->pipeline, &header, rng_stream(RNG_TRANSFORM, w->options.seed, w->epoch, position, 0), &plan, &e), &e);
    h->codec.known = f->record;
    h->codec.known_bytes = f->record_bytes;
    decode(h, codec, bytes, n, &plan.header, &plan.region, &pixels);

    uint8_t *data = w->batch + w->place_bytes * (position % (uint64_t)w->options.batch_size);
    struct place place = {data, pipeline_dtype(w->pipeline), w->options.layout, plan.out_height, plan.out_width};
    must(pipeline_run(w->pipeline, &plan, &pixels, &place, &h->scratch, &e), &e);
    if (w->options.sums_bytes)
        atomic_fetch_add(&w->byte_sum, sum_of(data, w->place_bytes));
}

void hand_learn(struct hand *h, struct file *f, const uint8_t *bytes, size_t n)
{
    struct fb_error e = {0};
    struct image_header header;
    const struct codec_ops *codec;
    struct image pixels;
    must(codec_header(bytes, n, &header, &codec, &e), &e);
    h->codec.known = NULL;
    h->codec.known_bytes = 0;
    h->codec.wants_record = true;
    decode(h, codec, bytes, n, &header, &(struct region){0, 0, header.height, header.width}, &pixels);
    h->codec.wants_record = false;
    if (h->codec.record_bytes == 0)
        return;
    f->record = malloc(h->codec.record_bytes);
    if (!f->record)
        die("no memory for records");
    memcpy(f->record, h->codec.record.data, h->codec.record_bytes);
    f->record_bytes = h->codec.record_bytes;
}

void hand_do(struct hand *h, const struct file *f, uint64_t position, const uint8_t *bytes, size_t n)
{
    if (h->work->options.decode)
        decode_into_place(h, f, position, bytes, n);
    atomic_fetch_add(&h->work->bytes, n);
    atomic_fetch_add(&h->work->done, 1);
}

void work_run_threads(int n, void *(*body)(void *), void *arg)
{
    pthread_t thread[256];
    struct fb_error e = {0};
    if (n < 1 || n > 256)
        die("1 to 256 threads");
    for (int i = 0; i < n; i++)
        must(thread_start(&thread[i], "floor", body, arg, &e), &e);
    for (int i = 0; i < n; i++)
        pthread_join(thread[i], NULL);
}

void stretch_start(struct stretch *s)
{
    s->started_ns = clock_now_ns();
    s->cpu_started_ns = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void stretch_end(struct stretch *s)
{
    s->seconds = (double)(clock_now_ns() - s->started_ns) * 1e-9;
    s->cpu_seconds = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - s->cpu_started_ns) * 1e-9;
}

void work_print_json(const struct work *w, const struct stretch *s, uint64_t samples, uint64_t bytes)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("\"samples\": %llu, \"bytes\": %llu, \"seconds\": %.6f, \"samples_per_second\": %.2f, \"cpu_seconds_per_1000_samples\": %.6f, "
           "\"rss_peak_bytes\": %llu, \"byte_sum\": %llu",
           (unsigned long long)samples, (unsigned long long)bytes, s->seconds, (double)samples / s->seconds,
           s->cpu_seconds * 1000 / (double)samples, (unsigned long long)usage.ru_maxrss * 1024,
           (unsigned long long)atomic_load(&w->byte_sum));
}
