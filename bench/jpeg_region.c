/* How much faster regions of JPEG files are decoded from checkpoints than by libjpeg-turbo. One thread, bytes in memory.
 *
 *   jpeg_region FOLDER [ROUNDS] [FILES]
 *
 * Draws a RandomResizedCrop (scale 0.08-1, ratio 3/4-4/3) for each file and round. All ways decode the same files, a few at a time in turn,
 * so that a busy machine slows them alike; time is the thread's own. A figure is the median over rounds, with the lowest and highest. Every
 * seventh file's results are compared with libjpeg-turbo's in the first round. Photographs that `resize size=256 draft=1` would reduce are
 * also decoded so, at 1/2, 1/4 or 1/8.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "codec/image/jpeg/jpeg_plan.h"
#include "codec/image/jpeg/jpeg_turbo.h"
#include "work.h"

enum { TURN = 24, MOST_ROUNDS = 100 };
enum { DRAFT_SIDE = 256 };
enum way { FULL, TURBO_REGION, FIRST, KNOWN, FIRST_WHOLE, KNOWN_WHOLE, TURBO_DRAFT, FIRST_DRAFT, KNOWN_DRAFT, WAYS };
enum kind { COLOUR_444, COLOUR_420, ALL, REDUCED, KINDS };

static const char *const kind_names[KINDS] = {"4:4:4", "4:2:0", "all files", "reduced for a shorter side of 256 or more"};
static const struct {
    const char *name;
    enum way base; /* what it is compared with */
    bool is_whole, is_known, is_reduced;
} ways[WAYS] = {
    [FULL] = {"libjpeg-turbo, whole image", FULL, .is_whole = true},
    [TURBO_REGION] = {"libjpeg-turbo, region", FULL},
    [FIRST] = {"region, nothing learnt", TURBO_REGION},
    [KNOWN] = {"region, checkpoints", FULL, .is_known = true},
    [FIRST_WHOLE] = {"whole image, nothing learnt", FULL, .is_whole = true},
    [KNOWN_WHOLE] = {"whole image, checkpoints", FULL, .is_whole = true, .is_known = true},
    [TURBO_DRAFT] = {"libjpeg-turbo, reduced", FULL, .is_whole = true, .is_reduced = true},
    [FIRST_DRAFT] = {"reduced, nothing learnt", FIRST_WHOLE, .is_whole = true, .is_reduced = true},
    [KNOWN_DRAFT] = {"reduced, checkpoints", KNOWN_WHOLE, .is_whole = true, .is_known = true, .is_reduced = true},
};

struct photo {
    uint8_t *bytes, *record;
    size_t n, record_bytes;
    struct image_header header;
    struct region region;
    uint32_t scale; /* of draft=1 */
    bool is_in[KINDS];
};

struct bench {
    struct photo *photo;
    size_t count;
    struct codec_state state[WAYS];
    struct image out, reference;
    double ns[KINDS][WAYS][MOST_ROUNDS];
    uint64_t ways_taken[CODEC_WAYS];
};

/* The plainest use of libjpeg: what a loader without regions does. */
static void decode_whole(const struct photo *p, const struct image *out)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, p->bytes, p->n);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = out->data + out->stride * d.output_scanline;
        jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

static struct region draw(const struct image_header *h, struct rng *rng)
{
    for (int i = 0; i < 10; i++) {
        double area = (double)h->width * h->height * (0.08 + 0.92 * rng_double(rng));
        double ratio = exp(log(3. / 4) + rng_double(rng) * (log(4. / 3) - log(3. / 4)));
        uint32_t width = (uint32_t)lround(sqrt(area * ratio)), height = (uint32_t)lround(sqrt(area / ratio));
        if (width && height && width <= h->width && height <= h->height) {
            uint32_t top = (uint32_t)rng_below(rng, h->height - height + 1);
            return (struct region){top, (uint32_t)rng_below(rng, h->width - width + 1), height, width};
        }
    }
    uint32_t side = h->width < h->height ? h->width : h->height;
    return (struct region){(h->height - side) / 2, (h->width - side) / 2, side, side};
}

static void must(int rc, const struct fb_error *e)
{
    if (rc != 0)
        die("%s", e->cause);
}

static void decode_by(struct bench *b, enum way way, const struct photo *p, const struct image *out)
{
    struct codec_state *s = &b->state[way];
    struct fb_error e = {0};
    s->known = ways[way].is_known ? p->record : NULL;
    s->known_bytes = ways[way].is_known ? p->record_bytes : 0;
    s->wants_record = true;
    if (way == FULL)
        decode_whole(p, out);
    else if (way == TURBO_REGION || way == TURBO_DRAFT)
        must(jpeg_turbo_decode(s, p->bytes, p->n, &p->header, &p->region, out, &e), &e);
    else
        must(codec_decode(s, &codec_jpeg, p->bytes, p->n, &p->header, &p->region, out, &e), &e);
    if (way == KNOWN)
        b->ways_taken[s->way]++;
}

static struct image sized(const struct image *memory, const struct region *r)
{
    return (struct image){memory->data, (size_t)3 * r->width, r->width, r->height};
}

/* What that way decodes: all of it or the region drawn, at full size or reduced. */
static struct photo seen_by(enum way way, const struct photo *p)
{
    struct photo seen = *p;
    if (ways[way].is_reduced) {
        seen.header.scale = (uint8_t)p->scale;
        seen.header.width = image_reduced(p->header.width, p->scale);
        seen.header.height = image_reduced(p->header.height, p->scale);
    }
    if (ways[way].is_whole)
        seen.region = (struct region){0, 0, seen.header.height, seen.header.width};
    return seen;
}

/* Our results and libjpeg-turbo's, the region cut out of its whole image. */
static void compare(struct bench *b, const struct photo *p)
{
    for (int way = 0; way < WAYS; way++) {
        struct photo seen = seen_by((enum way)way, p), all = seen_by(ways[way].is_reduced ? TURBO_DRAFT : FULL, p);
        struct image out = sized(&b->out, &seen.region), whole = sized(&b->reference, &all.region);
        decode_by(b, ways[way].is_reduced ? TURBO_DRAFT : FULL, &all, &whole);
        decode_by(b, (enum way)way, &seen, &out);
        for (uint32_t y = 0; y < out.height; y++)
            if (memcmp(out.data + y * out.stride, whole.data + (seen.region.top + y) * whole.stride + 3 * (size_t)seen.region.left,
                       out.stride))
                die("%s: row %u differs", ways[way].name, y);
    }
}

static void run_turn(struct bench *b, struct photo *photos, size_t n, int round)
{
    for (int way = 0; way < WAYS; way++)
        for (size_t i = 0; i < n; i++) {
            struct photo p = seen_by((enum way)way, &photos[i]);
            struct image out = sized(&b->out, &p.region);
            uint64_t start = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
            decode_by(b, (enum way)way, &p, &out);
            double ns = (double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start);
            for (int kind = 0; kind < KINDS; kind++)
                if (p.is_in[kind])
                    b->ns[kind][way][round] += ns;
        }
}

static void run_round(struct bench *b, int round)
{
    struct rng rng = rng_stream(RNG_TRANSFORM, 1, (uint64_t)round, 0, 0);
    for (size_t i = 0; i < b->count; i++)
        b->photo[i].region = draw(&b->photo[i].header, &rng);
    for (size_t i = 0; round == 0 && i < b->count; i += 7)
        compare(b, &b->photo[i]);
    for (size_t i = 0; i < b->count; i += TURN)
        run_turn(b, b->photo + i, b->count - i < TURN ? b->count - i : TURN, round);
}

static uint8_t *read_file(const struct file *f)
{
    FILE *in = fopen(f->path, "rb");
    uint8_t *bytes = malloc(f->size + 1);
    if (!in || !bytes || fread(bytes, 1, f->size, in) != f->size)
        die("%s: cannot read", f->path);
    fclose(in);
    return bytes;
}

/* Learns the whole file; false: not a JPEG. */
static bool load_photo(struct bench *b, struct photo *p, const struct file *f)
{
    struct fb_error e = {0};
    const struct codec_ops *codec;
    struct jpeg_plan plan;
    *p = (struct photo){.bytes = read_file(f), .n = f->size, .is_in = {[ALL] = true}};
    if (codec_header(p->bytes, p->n, &p->header, &codec, &e) < 0 || codec != &codec_jpeg)
        return false;
    size_t pixels = (size_t)3 * p->header.width * p->header.height;
    b->out.data = realloc(b->out.data, pixels > b->out.stride ? pixels : b->out.stride);
    b->reference.data = realloc(b->reference.data, pixels > b->out.stride ? pixels : b->out.stride);
    b->out.stride = pixels > b->out.stride ? pixels : b->out.stride; /* here: how much memory there is */
    if (!b->out.data || !b->reference.data)
        die("no memory");
    p->region = (struct region){0, 0, p->header.height, p->header.width};
    uint32_t side = (p->header.width < p->header.height ? p->header.width : p->header.height) / DRAFT_SIDE;
    p->scale = side >= 8 ? 8 : side >= 4 ? 4 : side >= 2 ? 2 : 1;
    p->is_in[REDUCED] = p->scale > 1;
    struct image out = sized(&b->out, &p->region);
    decode_by(b, FIRST, p, &out);
    p->record_bytes = b->state[FIRST].record_bytes;
    p->record = malloc(p->record_bytes + 1);
    memcpy(p->record, b->state[FIRST].record.data, p->record_bytes);
    if (jpeg_plan_read(&plan, p->bytes, p->n) && plan.components == 3) {
        p->is_in[COLOUR_444] = plan.across == 1 && plan.down == 1;
        p->is_in[COLOUR_420] = plan.across == 2 && plan.down == 2;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_kind(const struct bench *b, enum kind kind, int rounds)
{
    size_t count = 0, bytes = 0, record_bytes = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->photo[i].is_in[kind]) {
            count++;
            bytes += b->photo[i].n;
            record_bytes += b->photo[i].record_bytes;
        }
    if (!count)
        return;
    printf("%s: %zu files, %.1f KB each, records %.0f bytes each = %.2f %% of the bytes\n", kind_names[kind], count,
           (double)bytes / 1e3 / (double)count, (double)record_bytes / (double)count, 100. * (double)record_bytes / (double)bytes);
    for (int way = 0; way < WAYS; way++) {
        double ratio[MOST_ROUNDS], us[MOST_ROUNDS];
        enum way base = ways[way].base;
        if (kind == REDUCED ? !ways[way].is_whole : ways[way].is_reduced)
            continue;
        for (int i = 0; i < rounds; i++) {
            ratio[i] = b->ns[kind][base][i] / b->ns[kind][way][i];
            us[i] = b->ns[kind][way][i] / 1e3 / (double)count;
        }
        qsort(ratio, (size_t)rounds, sizeof(double), by_value);
        qsort(us, (size_t)rounds, sizeof(double), by_value);
        printf("  %-28s %8.1f us  %5.2fx of %s (%.2f - %.2f)\n", ways[way].name, us[rounds / 2], ratio[rounds / 2], ways[base].name,
               ratio[0], ratio[rounds - 1]);
    }
}

int main(int argc, char **argv)
{
    static struct bench b;
    struct work w;
    int rounds = argc > 2 ? atoi(argv[2]) : 7;
    size_t most = argc > 3 ? (size_t)atol(argv[3]) : 600;
    if (argc < 2 || rounds < 1 || rounds > MOST_ROUNDS || most < 1)
        die("usage: jpeg_region FOLDER [ROUNDS (1-%d)] [FILES]", MOST_ROUNDS);
    work_open(&w, &(struct work_options){.source = argv[1]});
    for (int way = 0; way < WAYS; way++)
        codec_state_init(&b.state[way], NULL);
    size_t step = w.files.count > most ? w.files.count / most : 1;
    b.photo = calloc(w.files.count, sizeof(*b.photo));
    for (size_t i = 0; b.photo && i < w.files.count && b.count < most; i += step)
        b.count += load_photo(&b, &b.photo[b.count], &w.files.file[i]);
    for (int round = 0; round < rounds; round++)
        run_round(&b, round);
    for (int kind = 0; kind < KINDS; kind++)
        print_kind(&b, (enum kind)kind, rounds);
    printf("regions with checkpoints: %llu by record, %llu plainly, %llu by fall-back\n", (unsigned long long)b.ways_taken[CODEC_BY_RECORD],
           (unsigned long long)b.ways_taken[CODEC_PLAIN], (unsigned long long)b.ways_taken[CODEC_FALLBACK]);
    return 0;
}
