/* The least that a build must do, and what it would be without files.
 *
 *     find wavs -name '*.wav' | sort | floor_build OUT SAMPLES THREADS [raw | log-mel | exact | memory | memory-exact]
 *
 * raw          open, read, close, 16-bit samples to float32, write each row to its place, fsync
 * log-mel      the same with our log-mel kernel between converting and writing; exact: in float64
 * memory       converting and the kernel alone: all samples lie in memory before, all rows afterwards. Its files_per_s over that of log-mel
 *              is what files cost anybody, and so the most that a build can have of the kernel's speed
 *
 * Headers are taken to be 44 bytes long and nothing is checked. Only as much is read as a row needs. Prints one JSON object.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "transform/sound/log_mel/log_mel.h"

enum { HEADER = 44, ROWS_AT_ONCE = 8, MELS_ROWS_AT_ONCE = 40, MOST_ROWS_AT_ONCE = 40, RATE = 48000 };

static char **path;
static size_t paths, samples, at_once, row_numbers;
static struct log_mel *mel;
static bool is_from_memory;
static uint8_t *all_bytes; /* of all recordings, each as long as a row needs, then silence */
static float *all_rows;
static int out;
static _Atomic size_t next;

struct worker {
    pthread_t thread;
    uint8_t *bytes;
    float *signal, *rows;
    void *work;
    double cpu_s;
};

/* ---- a row ---- */

static size_t bytes_of_row(void)
{
    return samples * sizeof(int16_t);
}

static void convert(float *to, const uint8_t *from, size_t bytes)
{
    const int16_t *x = (const int16_t *)(const void *)from;
    size_t there = bytes / 2 < samples ? bytes / 2 : samples;
    for (size_t i = 0; i < there; i++)
        to[i] = (float)x[i] * (1.0f / 32768);
    memset(to + there, 0, (samples - there) * sizeof(*to));
}

static void make_row(struct worker *w, const uint8_t *from, size_t bytes, float *to)
{
    convert(mel ? w->signal : to, from, bytes);
    if (mel && log_mel_run(mel, w->signal, samples, to, log_mel_frames(mel, samples), w->work, NULL) < 0)
        exit(1);
}

static size_t read_file(size_t i, uint8_t *to)
{
    int fd = open(path[i], O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : pread(fd, to, HEADER + bytes_of_row(), 0);
    if (got < HEADER)
        exit(1);
    close(fd);
    return (size_t)got;
}

/* ---- all of them ---- */

static void run_some(struct worker *w, size_t first)
{
    size_t n = 0, row = row_numbers * sizeof(float);
    for (; n < at_once && first + n < paths; n++)
        if (is_from_memory)
            make_row(w, all_bytes + (first + n) * bytes_of_row(), bytes_of_row(), all_rows + (first + n) * row_numbers);
        else
            make_row(w, w->bytes + HEADER, read_file(first + n, w->bytes) - HEADER, w->rows + n * row_numbers);
    if (!is_from_memory && pwrite(out, w->rows, n * row, (off_t)(first * row)) != (ssize_t)(n * row))
        exit(1);
}

static void *work(void *arg)
{
    struct worker *w = arg;
    uint64_t since = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    for (size_t first; (first = atomic_fetch_add(&next, at_once)) < paths;)
        run_some(w, first);
    w->cpu_s = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - since) / 1e9;
    return NULL;
}

static void make_worker(struct worker *w)
{
    w->bytes = malloc(HEADER + bytes_of_row());
    w->signal = calloc(samples + 16, sizeof(float));
    w->rows = calloc(MOST_ROWS_AT_ONCE * row_numbers, sizeof(float));
    w->work = mel ? aligned_alloc(64, (log_mel_work_bytes(mel) + 63) / 64 * 64) : NULL;
    if (!w->bytes || !w->signal || !w->rows || (mel && !w->work))
        exit(1);
}

static void read_paths(void)
{
    char *line = NULL;
    size_t room = 0, most = 0;
    for (ssize_t n; (n = getline(&line, &room, stdin)) > 0; paths++) {
        line[strcspn(line, "\n")] = 0;
        if (paths == most && !(path = realloc(path, (most = most * 2 + 1024) * sizeof(*path))))
            exit(1);
        path[paths] = strdup(line);
    }
    free(line);
}

/* Everything into memory; rows are written once, so that their pages are there. */
static void read_all(void)
{
    uint8_t *one = malloc(HEADER + bytes_of_row());
    all_bytes = calloc(paths + 1, bytes_of_row());
    all_rows = malloc((paths + 1) * row_numbers * sizeof(float));
    if (!one || !all_bytes || !all_rows)
        exit(1);
    memset(all_rows, 1, paths * row_numbers * sizeof(float));
    for (size_t i = 0; i < paths; i++) {
        size_t got = read_file(i, one) - HEADER;
        memcpy(all_bytes + i * bytes_of_row(), one + HEADER, got);
    }
    free(one);
}

static bool choose(const char *mode)
{
    struct log_mel_options o;
    is_from_memory = strncmp(mode, "memory", 6) == 0;
    row_numbers = samples;
    at_once = ROWS_AT_ONCE;
    if (strcmp(mode, "raw") == 0)
        return true;
    log_mel_defaults(&o);
    o.rate = RATE;
    o.top_db = 0;
    o.is_exact = strstr(mode, "exact") != NULL;
    if (log_mel_make(&mel, &o, NULL) < 0)
        return false;
    row_numbers = o.n_mels * log_mel_frames(mel, samples);
    at_once = MELS_ROWS_AT_ONCE; /* about a megabyte */
    return true;
}

int main(int argc, char **argv)
{
    struct worker worker[64] = {0};
    int threads = argc >= 4 ? atoi(argv[3]) : 0;
    samples = argc >= 4 ? (size_t)atol(argv[2]) : 0;
    if (threads < 1 || threads > 64 || samples < 1 || (out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0 ||
        !choose(argc > 4 ? argv[4] : "raw"))
        return 2;
    read_paths();
    if (is_from_memory)
        read_all();
    for (int i = 0; i < threads; i++)
        make_worker(&worker[i]);
    uint64_t since = clock_now_ns();
    double cpu_s = 0;
    for (int i = 0; i < threads; i++)
        pthread_create(&worker[i].thread, NULL, work, &worker[i]);
    for (int i = 0; i < threads; i++) {
        pthread_join(worker[i].thread, NULL);
        cpu_s += worker[i].cpu_s;
    }
    double written = (double)(clock_now_ns() - since) / 1e9;
    fsync(out);
    double all = (double)(clock_now_ns() - since) / 1e9;
    printf("{\"files\":%zu,\"files_per_s\":%.0f,\"files_per_s_with_fsync\":%.0f,\"cpu_us_per_file\":%.2f}\n", paths,
           (double)paths / written, (double)paths / all, 1e6 * cpu_s / (double)paths);
    return 0;
}
