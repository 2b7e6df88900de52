/* The array formats on a pipe, so that other programs' readers can be the oracle. Commands on stdin, answers on stdout:
 *
 *   load N\n<N bytes>               -> ok FORMAT COUNT\n, then for each array: DTYPE CODE STORAGE RATE NDIM SHAPE... NAME\n
 *   rows INDEX FIRST ROWS DTYPE\n   -> ok BYTES\n<numbers>           rows of an array of the last file, as DTYPE ("-": its own)
 *   convert CODE FROM TO COUNT PERIOD REPEAT N\n<N bytes>            COUNT stored numbers, then PERIOD float32 means and as many inverse
 *                                   -> ok BYTES\n<numbers>           deviations (PERIOD 0: none)
 *   planes|mono CODE TO CHANNELS FRAMES AFTER N\n<N bytes>           frames of sound into planes, or mixed
 *                                   -> ok BYTES\n<numbers>
 *   anything that fails             -> error CODE OFFSET CAUSE\n
 *
 * Files lie in memory of exactly their size, results are followed by marked bytes: a step that writes there is an error too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "array_bytes.h"
#include "codec/sound/clip.h"

enum { GAP = 64, MARK = 0xa5 };

static struct array_bytes bytes;
static struct array_file file;

static void say_error(int rc, const struct fb_error *e)
{
    printf("error %d %lld %s%s%s\n", rc, (long long)e->offset, e->cause, e->remedy[0] ? "; " : "", e->remedy);
}

static void *need(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p)
        exit(1);
    return p;
}

static uint8_t *take_input(size_t n)
{
    uint8_t *p = need(n);
    if (fread(p, 1, n, stdin) != n)
        exit(1);
    return p;
}

static uint8_t *make_place(size_t n)
{
    uint8_t *p = need(n + GAP);
    memset(p, MARK, n + GAP);
    return p;
}

static void say_place(uint8_t *place, size_t n)
{
    bool is_whole = true;
    for (int i = 0; i < GAP; i++)
        is_whole = is_whole && place[n + (size_t)i] == MARK;
    if (is_whole) {
        printf("ok %zu\n", n);
        fwrite(place, 1, n, stdout);
    } else {
        printf("error 1 -1 wrote beyond the place\n");
    }
    free(place);
}

static void load(size_t n)
{
    struct fb_error e = {0};
    static const char *const storage[] = {"contiguous", "chunked", "inline", "opaque"};
    free((void *)bytes.data);
    array_file_free(&file);
    bytes = (struct array_bytes){.data = take_input(n), .size = n, .fails_at = UINT64_MAX};
    struct array_source s = array_bytes_source(&bytes);
    const struct array_ops *format = array_find_format(bytes.data, n < ARRAY_PROBE_BYTES ? n : ARRAY_PROBE_BYTES);
    error_clear(&e);
    int rc = format ? format->describe(&s, &file, &e) : error_set(&e, FB_E_UNSUPPORTED, "test", "no format of ours");
    if (rc < 0) {
        say_error(rc, &e);
        return;
    }
    printf("ok %s %d\n", file.format, file.count);
    for (int i = 0; i < file.count; i++) {
        const struct array_layout *a = &file.array[i];
        printf("%s %d %s %u %d", fb_dtype_name(a->dtype), (int)a->code, storage[a->storage], a->rate, a->ndim);
        for (int d = 0; d < a->ndim; d++)
            printf(" %llu", (unsigned long long)a->shape[d]);
        printf(" %s\n", a->name);
    }
}

static void rows(int index, unsigned long long first, unsigned long long count, const char *dtype)
{
    struct fb_error e = {0};
    error_clear(&e);
    if (index < 0 || index >= file.count || first + count > array_rows(&file.array[index]))
        exit(1);
    const struct array_layout *a = &file.array[index];
    struct array_conversion c;
    enum fb_dtype to = dtype[0] == '-' ? a->dtype : fb_dtype_from_name(dtype);
    int rc = array_conversion_init(&c, a->code, a->dtype, to, NULL, &e);
    size_t stored_bytes = (size_t)(array_row_bytes(a) * count), numbers = stored_bytes / c.from_bytes;
    uint8_t *stored = need(stored_bytes), *place = make_place(numbers * c.to_bytes);
    struct array_source s = array_bytes_source(&bytes);
    if (rc == 0)
        rc = array_bytes_rows(&s, file.format, a, first, count, stored, &e);
    if (rc == 0) {
        array_convert(&c, stored, place, numbers);
        say_place(place, numbers * c.to_bytes);
    } else {
        say_error(rc, &e);
        free(place);
    }
    free(stored);
}

static void convert(int code, const char *from, const char *to, size_t count, uint64_t period, uint64_t repeat, size_t n)
{
    struct fb_error e = {0};
    struct array_conversion c;
    uint8_t *in = take_input(n);
    error_clear(&e);
    float *pairs = need((size_t)period * 8);
    memcpy(pairs, in + n - period * 8, (size_t)period * 8);
    struct array_norm norm = {pairs, pairs + period, period, repeat};
    int rc = array_conversion_init(&c, (enum array_code)code, fb_dtype_from_name(from), fb_dtype_from_name(to), period ? &norm : NULL, &e);
    if (rc < 0) {
        say_error(rc, &e);
    } else {
        uint8_t *place = make_place(count * c.to_bytes);
        array_convert(&c, in, place, count);
        say_place(place, count * c.to_bytes);
    }
    free(pairs);
    free(in);
}

static void shape_sound(bool is_mono, int code, const char *to, unsigned channels, uint64_t frames, uint64_t after, size_t n)
{
    struct fb_error e = {0};
    struct array_conversion c;
    uint8_t *in = take_input(n);
    error_clear(&e);
    int rc = array_conversion_init(&c, (enum array_code)code, FB_FLOAT32, fb_dtype_from_name(to), NULL, &e);
    if (rc < 0) {
        say_error(rc, &e);
    } else {
        size_t numbers = (size_t)(frames + after) * (is_mono ? 1 : channels);
        uint8_t *place = make_place(numbers * c.to_bytes);
        rc = is_mono ? clip_mono(&c, in, frames, after, channels, place, &e)
                     : clip_planes(&c, in, frames, after, channels, place, (size_t)(frames + after), &e);
        if (rc < 0)
            say_error(rc, &e);
        else
            say_place(place, numbers * c.to_bytes);
    }
    free(in);
}

int main(void)
{
    char line[256], a[32], b[32];
    size_t n, count;
    int code;
    unsigned channels;
    unsigned long long x, y;
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "load %zu", &n) == 1)
            load(n);
        else if (sscanf(line, "rows %d %llu %llu %31s", &code, &x, &y, a) == 4)
            rows(code, x, y, a);
        else if (sscanf(line, "convert %d %31s %31s %zu %llu %llu %zu", &code, a, b, &count, &x, &y, &n) == 7)
            convert(code, a, b, count, x, y, n);
        else if (sscanf(line, "planes %d %31s %u %llu %llu %zu", &code, a, &channels, &x, &y, &n) == 6)
            shape_sound(false, code, a, channels, x, y, n);
        else if (sscanf(line, "mono %d %31s %u %llu %llu %zu", &code, a, &channels, &x, &y, &n) == 6)
            shape_sound(true, code, a, channels, x, y, n);
        else
            return 2;
        fflush(stdout);
    }
    free((void *)bytes.data);
    array_file_free(&file);
    return 0;
}
