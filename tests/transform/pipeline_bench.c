/* What CPU time a whole pipeline takes per image, planning and running apart, into the places of a batch that does not fit in the caches.
 *
 *     pipeline_bench [SPEC [DTYPE [LAYOUT [HEIGHT WIDTH]]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transform/image/kernels/image_kernels.h"
#include "transform/pipeline.h"

enum { IMAGES = 512, PLACES = 64, ROUNDS = 5 };

static const char default_spec[] =
    "random_resized_crop size=224; random_horizontal_flip; normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225";

/* A picture with structure and noise, so that clamping and branches see what they see in life. */
static uint8_t *make_source(uint32_t height, uint32_t width)
{
    uint8_t *p = malloc((size_t)height * width * 3);
    struct rng r = rng_stream(RNG_TRANSFORM, 1, 0, 0, 0);
    for (size_t i = 0; i < (size_t)height * width * 3; i++)
        p[i] = (uint8_t)(i / 3 % width / 2 + i / 3 / width / 3 + (rng_u32(&r) & 31));
    return p;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const char *spec = argc > 1 ? argv[1] : default_spec;
    enum fb_dtype dtype = argc > 2 ? fb_dtype_from_name(argv[2]) : 0;
    enum fb_layout layout = argc > 3 && strcmp(argv[3], "NHWC") == 0 ? FB_NHWC : FB_NCHW;
    struct image_header h = {
        .height = argc > 5 ? (uint32_t)atoi(argv[4]) : 400, .width = argc > 5 ? (uint32_t)atoi(argv[5]) : 470, .orientation = 1};
    struct fb_error e = {0};
    struct pipeline *p;
    uint32_t height, width;
    if (pipeline_open(&p, spec, dtype, layout, false, &e) < 0 || !pipeline_fixed_size(p, &height, &width)) {
        fprintf(stderr, "pipeline_bench: %s\n", e.code ? e.cause : "the size of the result must be fixed");
        return 2;
    }
    size_t place_bytes = (size_t)height * width * 3 * fb_dtype_size(pipeline_dtype(p));
    uint8_t *slot = memory_map(place_bytes * PLACES), *source = make_source(h.height, h.width),
            *work = malloc((size_t)h.height * h.width * 3);
    memset(slot, 1, place_bytes * PLACES);
    struct scratch scratch = {0};
    static struct plan plans[IMAGES];
    double run_us[ROUNDS], plan_us[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), running = 0;
        for (uint32_t i = 0; i < IMAGES; i++)
            if (pipeline_plan(p, &h, rng_stream(RNG_TRANSFORM, 1, 0, i, 0), &plans[i], &e) < 0)
                return 1;
        plan_us[round] = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) / 1000 / IMAGES;
        for (uint32_t i = 0; i < IMAGES; i++) {
            const struct region *r = &plans[i].region;
            struct image decoded = {work, (size_t)r->width * 3, r->width, r->height}; /* freshly written, as a decoder leaves it */
            for (uint32_t y = 0; y < r->height; y++)
                memcpy(work + y * decoded.stride, source + ((size_t)(r->top + y) * h.width + r->left) * 3, decoded.stride);
            struct place out = {slot + i % PLACES * place_bytes, pipeline_dtype(p), layout, plans[i].out_height, plans[i].out_width};
            start = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
            if (pipeline_run(p, &plans[i], &decoded, &out, &scratch, &e) < 0)
                return 1;
            running += clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start;
        }
        run_us[round] = (double)running / 1000 / IMAGES;
    }
    qsort(run_us, ROUNDS, sizeof(double), compare);
    qsort(plan_us, ROUNDS, sizeof(double), compare);
    printf("%s kernels: plan %.2f us, run %.1f us per image (median of %d x %d)\n", kernels()->name, plan_us[ROUNDS / 2],
           run_us[ROUNDS / 2], ROUNDS, IMAGES);
    pipeline_close(p);
    scratch_free(&scratch);
    memory_unmap(slot, place_bytes * PLACES);
    free(source);
    free(work);
    return 0;
}
