/* array_convert: how fast stored numbers become wanted ones, beside memcpy of the bytes that are written.
 *
 *     array_convert [KILOBYTES]     of output per call; default 96 (24,000 float32: half a second of sound), beyond the caches with 65536
 *
 * Prints one JSON object: for each conversion and each set of kernels GB/s of output, the best of several rounds. memcpy moves as many
 * bytes as are written, so a conversion from fewer bytes may be faster than it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "codec/array/convert/array_convert.h"
#include "codec/array/convert/array_convert_kernels.h"
#include "codec/sound/clip.h"

static const struct {
    const char *name;
    enum array_code code;
    enum fb_dtype from, to;
} cases[] = {
    {"s16_to_f32", ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32},  {"s24_to_f32", ARRAY_PCM_S24, FB_FLOAT32, FB_FLOAT32},
    {"s32_to_f32", ARRAY_PCM_S32, FB_FLOAT32, FB_FLOAT32},  {"u8_to_f32", ARRAY_PCM_U8, FB_FLOAT32, FB_FLOAT32},
    {"mulaw_to_f32", ARRAY_MULAW, FB_FLOAT32, FB_FLOAT32},  {"f32_copy", ARRAY_PLAIN, FB_FLOAT32, FB_FLOAT32},
    {"f32_to_f16", ARRAY_PLAIN, FB_FLOAT32, FB_FLOAT16},    {"f32_to_bf16", ARRAY_PLAIN, FB_FLOAT32, FB_BFLOAT16},
    {"f16_to_f32", ARRAY_PLAIN, FB_FLOAT16, FB_FLOAT32},    {"f64_to_f32", ARRAY_PLAIN, FB_FLOAT64, FB_FLOAT32},
    {"f32_swapped", ARRAY_SWAPPED, FB_FLOAT32, FB_FLOAT32}, {"s16_swapped_to_f32", ARRAY_SWAPPED, FB_INT16, FB_FLOAT32},
    {"int64_to_int32", ARRAY_PLAIN, FB_INT64, FB_INT32},    {"f64_to_int64", ARRAY_PLAIN, FB_FLOAT64, FB_INT64},
};
enum { CASES = sizeof(cases) / sizeof(cases[0]), ROUNDS = 7 };

struct job {
    const struct array_conversion *c;
    uint32_t channels; /* 0: array_convert; else clip_planes */
    const void *from;
    void *to;
    size_t count;
};

static void run_once(const struct job *j)
{
    if (!j->c)
        memcpy(j->to, j->from, j->count);
    else if (j->channels)
        clip_planes(j->c, j->from, j->count / j->channels, 0, j->channels, j->to, j->count / j->channels, NULL);
    else
        array_convert(j->c, j->from, j->to, j->count);
}

/* GB/s of output; rounds of at least 20 ms. */
static double measure(const struct job *j, size_t out_bytes)
{
    double best = 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), calls = 0, spent;
        do {
            run_once(j);
            calls++;
        } while ((spent = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) < 20000000);
        double rate = (double)out_bytes * (double)calls / (double)spent;
        best = rate > best ? rate : best;
    }
    return best;
}

static void bench_set(const struct array_kernels *k, const uint8_t *from, uint8_t *to, size_t bytes)
{
    array_kernels_use(k);
    printf(", \"%s\": {", k->name);
    for (int i = 0; i < CASES; i++) {
        struct array_conversion c;
        if (array_conversion_init(&c, cases[i].code, cases[i].from, cases[i].to, NULL, NULL) < 0)
            exit(1);
        struct job job = {&c, 0, from, to, bytes / c.to_bytes};
        printf("\"%s\": %.2f, ", cases[i].name, measure(&job, job.count * c.to_bytes));
    }
    static const float mean[1] = {0.1f}, inv[1] = {2};
    struct array_norm norm = {mean, inv, 1, 1};
    struct array_conversion c;
    if (array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, &norm, NULL) < 0)
        exit(1);
    printf("\"s16_normalised\": %.2f, ", measure(&(struct job){&c, 0, from, to, bytes / 4}, bytes));
    if (array_conversion_init(&c, ARRAY_PCM_S16, FB_FLOAT32, FB_FLOAT32, NULL, NULL) < 0)
        exit(1);
    printf("\"s16_stereo_planes\": %.2f}", measure(&(struct job){&c, 2, from, to, bytes / 4}, bytes));
}

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 96) * 1000 / 16 * 16;
    uint8_t *from = aligned_alloc(64, (bytes * 8 + 64) / 64 * 64), *to = aligned_alloc(64, (bytes + 64) / 64 * 64);
    if (!from || !to || !bytes)
        return 1;
    for (size_t i = 0; i < bytes * 8; i++) /* small floats in any width: no NaNs, which the processor may treat more slowly */
        from[i] = (uint8_t)(i % 8 == 7 || i % 4 == 3 ? 0x3f : i * 7);
    memset(to, 0, bytes);
    printf("{\"output_bytes\": %zu, \"unit\": \"GB/s of output\", \"memcpy\": %.2f", bytes,
           measure(&(struct job){NULL, 0, from, to, bytes}, bytes));
    bench_set(&array_kernels_c, from, to, bytes);
    if (array_kernels_by_name("avx2"))
        bench_set(array_kernels_by_name("avx2"), from, to, bytes);
    printf("}\n");
    free(from);
    free(to);
    return 0;
}
