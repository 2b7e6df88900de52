/* The least that a build of raw rows must do: open, read, close, 16-bit samples to float32, write each row to its place, fsync.
 *
 *     find wavs -name '*.wav' | sort | floor_build OUT SAMPLES THREADS
 *
 * Headers are taken to be 44 bytes long and nothing is checked. Prints one JSON object.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { HEADER = 44, MOST = 1 << 20, ROWS_AT_ONCE = 8 };

static char **path;
static size_t paths, samples;
static int out;
static _Atomic size_t next;

static void convert(float *to, const uint8_t *from, size_t bytes)
{
    const int16_t *x = (const int16_t *)(const void *)from;
    size_t there = bytes / 2 < samples ? bytes / 2 : samples;
    for (size_t i = 0; i < there; i++)
        to[i] = (float)x[i] * (1.0f / 32768);
    memset(to + there, 0, (samples - there) * sizeof(*to));
}

static void *work(void *arg)
{
    uint8_t *bytes = malloc(MOST);
    float *rows = malloc(ROWS_AT_ONCE * samples * sizeof(*rows));
    (void)arg;
    for (size_t first; bytes && rows && (first = atomic_fetch_add(&next, ROWS_AT_ONCE)) < paths;) {
        size_t n = 0;
        for (; n < ROWS_AT_ONCE && first + n < paths; n++) {
            int fd = open(path[first + n], O_RDONLY | O_CLOEXEC);
            ssize_t got = fd < 0 ? -1 : pread(fd, bytes, MOST, 0);
            if (got < HEADER)
                exit(1);
            close(fd);
            convert(rows + n * samples, bytes + HEADER, (size_t)got - HEADER);
        }
        size_t row = samples * sizeof(*rows);
        if (pwrite(out, rows, n * row, (off_t)(first * row)) != (ssize_t)(n * row))
            exit(1);
    }
    free(rows);
    free(bytes);
    return NULL;
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

int main(int argc, char **argv)
{
    pthread_t thread[64];
    int threads = argc == 4 ? atoi(argv[3]) : 0;
    samples = argc == 4 ? (size_t)atol(argv[2]) : 0;
    if (threads < 1 || threads > 64 || samples < 1 || (out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) < 0)
        return 2;
    read_paths();
    uint64_t since = clock_now_ns();
    for (int i = 0; i < threads; i++)
        pthread_create(&thread[i], NULL, work, NULL);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    double written = (double)(clock_now_ns() - since) / 1e9;
    fsync(out);
    double all = (double)(clock_now_ns() - since) / 1e9;
    printf("{\"files\":%zu,\"files_per_s\":%.0f,\"files_per_s_with_fsync\":%.0f}\n", paths, (double)paths / written, (double)paths / all);
    return 0;
}
