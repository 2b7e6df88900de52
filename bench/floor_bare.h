/* What the floors of arrays and sound share: threads, a clock, one JSON object, and dying in words. */
#ifndef FB_BENCH_FLOOR_BARE_H
#define FB_BENCH_FLOOR_BARE_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) _Noreturn static void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    exit(1);
}

static inline void *need(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (!p)
        die("no memory for %zu bytes", bytes);
    memset(p, 0, bytes); /* touched before anything is measured */
    return p;
}

static inline double seconds_of(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline void read_all(int fd, void *to, uint64_t length, uint64_t offset, const char *path)
{
    for (uint64_t got = 0; got < length;) {
        ssize_t n = pread(fd, (char *)to + got, length - got, (off_t)(offset + got));
        if (n <= 0)
            die("%s: %s", path, n ? strerror(errno) : "shorter than it was");
        got += (uint64_t)n;
    }
}

/* Fisher and Yates, from a fixed seed. */
static inline void shuffle(uint64_t *x, uint64_t n)
{
    uint64_t state = 88172645463325252u;
    for (uint64_t i = n; i > 1; i--) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        uint64_t j = state % i, swap = x[i - 1];
        x[i - 1] = x[j];
        x[j] = swap;
    }
}

/* Runs `body` on every thread and prints what that took: `samples` of them in all, counted by the caller. */
static inline void run_and_print(void *(*body)(void *), void *arg, int threads, uint64_t samples)
{
    pthread_t thread[256];
    if (threads < 1 || threads > 256)
        die("1 to 256 threads");
    double since = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    for (int i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, body, arg))
            die("no threads");
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    double wall = seconds_of(CLOCK_MONOTONIC) - since;
    cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("{\"threads\": %d, \"samples\": %llu, \"wall_seconds\": %.6f, \"samples_per_second\": %.1f, "
           "\"cpu_seconds_per_1000_samples\": %.9f}\n",
           threads, (unsigned long long)samples, wall, (double)samples / wall, cpu / (double)samples * 1000);
}

#endif
