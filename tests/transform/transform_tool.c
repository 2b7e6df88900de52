/* Runs pipelines on raw pixels for tests in other languages: requests on stdin, answers on stdout, until stdin ends.
 *
 * A request is one line, then the bytes it announces:
 *     run DTYPE LAYOUT EXIF SEED POSITION ORIENTATION HEIGHT WIDTH SPEC_BYTES     then the spec, then HEIGHT * WIDTH * 3 bytes
 *     resize FILTER CHANNELS HEIGHT WIDTH OUT_HEIGHT OUT_WIDTH                    then HEIGHT * WIDTH * CHANNELS bytes
 *     draws COUNT SEED HEIGHT WIDTH SPEC_BYTES                                    then the spec; positions 0 .. COUNT - 1
 * An answer is "CODE TEXT_BYTES DATA_BYTES\n", the text (JSON, or the error), the data. Only the planned region of the pixels is given to
 * the pipeline, in a buffer of exactly its size, so that a sanitizer sees any byte read outside of it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "base/text/json_writer.h"
#include "transform/pipeline.h"

struct answer {
    struct fb_error error;
    struct text text;
    uint8_t *data;
    size_t bytes;
};

static void *take(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p || fread(p, 1, bytes, stdin) != bytes) {
        fprintf(stderr, "transform_tool: request cut short\n");
        exit(2);
    }
    return p;
}

static char *take_text(size_t bytes)
{
    char *raw = take(bytes), *text = calloc(1, bytes + 1);
    memcpy(text, raw, bytes);
    free(raw);
    return text;
}

static void give(struct answer *a)
{
    char line[1600];
    if (a->error.code)
        fb_format_error(&a->error, line, sizeof(line));
    const char *text = a->error.code ? line : a->text.data ? a->text.data : "";
    size_t bytes = a->error.code ? 0 : a->bytes;
    printf("%d %zu %zu\n", a->error.code, strlen(text), bytes);
    fwrite(text, 1, strlen(text), stdout);
    if (bytes)
        fwrite(a->data, 1, bytes, stdout);
    fflush(stdout);
    free(a->data);
    text_free(&a->text);
}

static struct image cut_region(const uint8_t *pixels, uint32_t width, const struct region *r)
{
    struct image out = {malloc((size_t)r->height * r->width * 3), (size_t)r->width * 3, r->width, r->height};
    for (uint32_t y = 0; y < r->height; y++)
        memcpy(out.data + y * out.stride, pixels + ((size_t)(r->top + y) * width + r->left) * 3, out.stride);
    return out;
}

enum { MOST_DRAWS = 4 + PIPELINE_MAX_STEPS * STEP_VALUES };

static void describe(struct text *t, struct pipeline *p, const struct plan *plan, bool is_identity)
{
    double record[MOST_DRAWS];
    struct json_writer w = {.out = t};
    pipeline_keep_draws(&p, 0, plan, record);
    json_begin_object(&w, NULL);
    json_begin_object(&w, "draw");
    pipeline_show_draws(&p, 1, record, &w);
    json_end(&w);
    text_printf(t, ",\"steps\":[");
    for (int i = 0; i < PIPELINE_MAX_STEPS; i++)
        for (int k = 0; k < 8; k++)
            text_printf(t, "%s%s%.17g%s", i && !k ? "," : "", k ? "," : "[", plan->step[i].value[k], k == 7 ? "]" : "");
    text_printf(t, "],\"out\":[%u,%u],\"region\":[%u,%u,%u,%u],\"scratch_bytes\":%zu,\"is_identity\":%s}", plan->out_height,
                plan->out_width, plan->region.top, plan->region.left, plan->region.height, plan->region.width, plan->scratch_bytes,
                is_identity ? "true" : "false");
}

static void run_planned(struct pipeline *p, const struct plan *plan, const uint8_t *pixels, struct answer *a)
{
    bool is_digest = pipeline_dtype(p) == FB_UINT64;
    uint32_t height = is_digest ? 1 : plan->out_height, width = is_digest ? 1 : plan->out_width;
    a->bytes = is_digest ? 8 : (size_t)height * width * 3 * fb_dtype_size(pipeline_dtype(p));
    a->data = malloc(a->bytes);
    struct image decoded = cut_region(pixels, plan->header.width, &plan->region);
    struct place out = {a->data, pipeline_dtype(p), pipeline_layout(p), height, width};
    struct scratch scratch = {0};
    pipeline_run(p, plan, &decoded, &out, &scratch, &a->error);
    describe(&a->text, p, plan, pipeline_is_identity(p, plan));
    scratch_free(&scratch);
    free(decoded.data);
}

static void run(const char *line)
{
    char dtype[16], layout[16];
    int exif, orientation;
    uint64_t seed, position;
    uint32_t height, width;
    size_t spec_bytes;
    if (sscanf(line, "run %15s %15s %d %" SCNu64 " %" SCNu64 " %d %u %u %zu", dtype, layout, &exif, &seed, &position, &orientation, &height,
               &width, &spec_bytes) != 9)
        exit(2);
    char *spec = take_text(spec_bytes);
    uint8_t *pixels = take((size_t)height * width * 3);
    struct answer a = {.text.limit = 1 << 16};
    struct image_header h = {width, height, (uint8_t)orientation};
    enum fb_layout l = strcmp(layout, "NHWC") == 0 ? FB_NHWC : strcmp(layout, "channels_last") == 0 ? FB_CHANNELS_LAST : FB_NCHW;
    struct pipeline *p = NULL;
    struct plan plan = {0};
    if (pipeline_open(&p, spec, strcmp(dtype, "auto") == 0 ? 0 : fb_dtype_from_name(dtype), l, exif, &a.error) == 0 &&
        pipeline_plan(p, &h, rng_stream(RNG_TRANSFORM, seed, 0, position, 0), &plan, &a.error) == 0)
        run_planned(p, &plan, pixels, &a);
    give(&a);
    pipeline_close(p);
    free(pixels);
    free(spec);
}

static void resize(const char *line)
{
    int filter, channels;
    uint32_t height, width, out_height, out_width;
    if (sscanf(line, "resize %d %d %u %u %u %u", &filter, &channels, &height, &width, &out_height, &out_width) != 6)
        exit(2);
    uint8_t *pixels = take((size_t)height * width * (size_t)channels);
    struct answer a = {.text.limit = 64, .bytes = (size_t)out_height * out_width * (size_t)channels};
    a.data = malloc(a.bytes);
    resize_image(pixels, height, width, channels, (enum fb_filter)filter, out_height, out_width, a.data, &a.error);
    give(&a);
    free(pixels);
}

/* The data are the records of draws: what is seen (4 numbers), then STEP_VALUES of each step that shows some. */
static void draws(const char *line)
{
    uint64_t seed, count;
    uint32_t height, width;
    size_t spec_bytes;
    if (sscanf(line, "draws %" SCNu64 " %" SCNu64 " %u %u %zu", &count, &seed, &height, &width, &spec_bytes) != 5)
        exit(2);
    char *spec = take_text(spec_bytes);
    struct answer a = {.text.limit = 64};
    struct image_header h = {width, height, 1};
    struct pipeline *p = NULL;
    struct plan plan;
    int rc = pipeline_open(&p, spec, 0, FB_NCHW, false, &a.error);
    size_t numbers = rc == 0 ? pipeline_draw_numbers(&p, 1) : 0;
    a.bytes = count * numbers * sizeof(double);
    a.data = malloc(a.bytes);
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        rc = pipeline_plan(p, &h, rng_stream(RNG_TRANSFORM, seed, 0, i, 0), &plan, &a.error);
        pipeline_keep_draws(&p, 0, &plan, (double *)(void *)a.data + i * numbers);
    }
    give(&a);
    pipeline_close(p);
    free(spec);
}

int main(void)
{
    char line[512];
    while (fgets(line, sizeof(line), stdin)) {
        if (strncmp(line, "run ", 4) == 0)
            run(line);
        else if (strncmp(line, "resize ", 7) == 0)
            resize(line);
        else if (strncmp(line, "draws ", 6) == 0)
            draws(line);
        else
            return 2;
    }
    return 0;
}
