/* The codecs on a pipe, so that another program's decoder can be the oracle. Commands on stdin, answers on stdout:
 *
 *   load N\n<N bytes>                 -> ok CODEC WIDTH HEIGHT ORIENTATION\n   the header of the whole file
 *   part N\n                          -> more\n, or as load                    the header of its first N bytes
 *   decode TOP LEFT HEIGHT WIDTH\n    -> ok BYTES\n<RGB>                       a region of the file that was loaded last
 *   anything that fails               -> error CODE OFFSET CAUSE\n
 *
 * Bytes between the rows of the output are watched: a codec that writes there is an error too. Each file and each part of it sits in memory
 * of exactly its size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "codec/image/codec.h"

enum { GAP = 13, MARK = 0xa5 };

static struct codec_state state;
static struct image_header header;
static const struct codec_ops *codec;
static uint8_t *file;
static size_t file_bytes;

static void say_error(const struct fb_error *e)
{
    printf("error %d %lld %s\n", e->code, (long long)e->offset, e->cause);
}

static void say_header(int rc, const struct image_header *h, const struct codec_ops *c, const struct fb_error *e)
{
    if (rc == 0)
        printf("ok %s %u %u %u\n", c->name, h->width, h->height, h->orientation);
    else if (rc > 0)
        printf("more\n");
    else
        say_error(e);
}

static void load(size_t n)
{
    struct fb_error e = {0};
    free(file);
    file = malloc(n ? n : 1);
    file_bytes = n;
    if (!file || fread(file, 1, n, stdin) != n)
        exit(1);
    int rc = codec_header(file, n, &header, &codec, &e);
    if (rc)
        codec = NULL;
    say_header(rc, &header, codec, &e);
}

static void part(size_t n)
{
    struct fb_error e = {0};
    struct image_header h;
    const struct codec_ops *c;
    if (n > file_bytes)
        exit(1);
    uint8_t *bytes = malloc(n ? n : 1);
    if (!bytes)
        exit(1);
    memcpy(bytes, file, n);
    int rc = codec_header_part(bytes, n, &h, &c, &e);
    say_header(rc, &h, c, &e);
    free(bytes);
}

static bool is_untouched(const struct image *out)
{
    for (uint32_t y = 0; y < out->height; y++)
        for (size_t i = (size_t)3 * out->width; i < out->stride; i++)
            if (out->data[y * out->stride + i] != MARK)
                return false;
    return true;
}

static void decode(const struct region *r)
{
    struct fb_error e = {0};
    size_t stride = (size_t)3 * r->width + GAP;
    struct image out = {malloc(stride * r->height), stride, r->width, r->height};
    if (!codec || !out.data)
        exit(1);
    memset(out.data, MARK, stride * r->height);
    int rc = codec_decode(&state, codec, file, file_bytes, &header, r, &out, &e);
    if (rc < 0) {
        say_error(&e);
    } else if (!is_untouched(&out)) {
        printf("error 1 -1 wrote between the rows\n");
    } else {
        printf("ok %zu\n", (size_t)3 * r->width * r->height);
        for (uint32_t y = 0; y < r->height; y++)
            fwrite(out.data + y * stride, 1, (size_t)3 * r->width, stdout);
    }
    free(out.data);
}

int main(void)
{
    char line[256];
    size_t n;
    struct region r;
    codec_state_init(&state, NULL);
    while (fgets(line, sizeof(line), stdin)) {
        if (sscanf(line, "load %zu", &n) == 1)
            load(n);
        else if (sscanf(line, "part %zu", &n) == 1)
            part(n);
        else if (sscanf(line, "decode %u %u %u %u", &r.top, &r.left, &r.height, &r.width) == 4)
            decode(&r);
        else
            return 2;
        fflush(stdout);
    }
    codec_state_free(&state);
    free(file);
    return 0;
}
