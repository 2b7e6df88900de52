/* fullbore pack SRC -o OUT.tar: one file instead of many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "jobs/decode.h"
#include "jobs/pack.h"
#include "jobs/pack_rechunk.h"

struct pack_options {
    const char *output;
    uint64_t shard_size;
    int64_t threads, resize_shorter, jpeg_quality, rechunk;
    const char *decode, *dtype;
    int fit, compress;
    bool skip_bad, resume, force, json, allow_external;
};

static const char *const fit_names[] = {"crop", "pad", "stretch", NULL};

static const char *const compress_names[] = {"keep", "none", "gzip", NULL}; /* as enum hdf5_rechunk_filters */

static const struct option options[] = {
    {"output", OPTION_STRING, offsetof(struct pack_options, output), .metavar = "OUT.tar", .help = "the pack; -o for short"},
    {"shard-size", OPTION_SIZE, offsetof(struct pack_options, shard_size), .metavar = "SIZE",
     .help = "several files OUT-000000.tar ... of at most this many bytes (1GiB suits object stores)"},
    {"threads", OPTION_INT, offsetof(struct pack_options, threads), 0, 1024, .metavar = "N",
     .help = "threads that read (default: cores, 2 to 16); the bytes of the pack do not depend on it"},
    {"skip-bad", OPTION_FLAG, offsetof(struct pack_options, skip_bad),
     .help = "leave out files that cannot be read or are not images; they are named, and the exit code is 4"},
    {"resize-shorter", OPTION_INT, offsetof(struct pack_options, resize_shorter), 1, 65500, .metavar = "PIXELS",
     .help = "LOSSY: pictures whose shorter side is longer become JPEGs of that size (default: bytes are copied)"},
    {"jpeg-quality", OPTION_INT, offsetof(struct pack_options, jpeg_quality), 1, 100, .metavar = "Q",
     .help = "quality of those JPEGs (default 92)"},
    {"decode", OPTION_STRING, offsetof(struct pack_options, decode), .metavar = "HxW",
     .help = "decode every picture to this size, into a plain OUT.npy with names and labels beside it"},
    {"fit", OPTION_CHOICE, offsetof(struct pack_options, fit), .choices = fit_names, .metavar = "F",
     .help = "of --decode: crop the middle (default), pad with black, or stretch"},
    {"dtype", OPTION_STRING, offsetof(struct pack_options, dtype), .metavar = "T", .help = "of --decode: only uint8 is possible"},
    {"rechunk", OPTION_INT, offsetof(struct pack_options, rechunk), 1, INT64_C(1) << 40, .metavar = "ROWS",
     .help = "rewrite an HDF5 file with this many rows in a chunk; everything else is kept"},
    {"compress", OPTION_CHOICE, offsetof(struct pack_options, compress), .choices = compress_names, .metavar = "C",
     .help = "of --rechunk: keep the filters (default), none, or gzip"},
    {"allow-external", OPTION_FLAG, offsetof(struct pack_options, allow_external),
     .help = "of --rechunk: data in other files may be read, links to them are kept"},
    {"resume", OPTION_FLAG, offsetof(struct pack_options, resume), .help = "go on with what an interrupted run has written"},
    {"force", OPTION_FLAG, offsetof(struct pack_options, force), .help = "replace an existing output once the new one is complete"},
    {"json", OPTION_FLAG, offsetof(struct pack_options, json), .help = "one JSON object on stdout"},
    {0},
};

/* ---- progress ---- */

struct shown {
    struct progress line;
    bool is_bytes; /* samples are not counted */
};

static void progress(void *ctx, const struct pack_progress *p)
{
    struct shown *s = ctx;
    char done[32], rate[32], rest[32], count[64] = "";
    double share = p->samples_total ? (double)p->samples / (double)p->samples_total : 0;
    if (!progress_is_due(&s->line, share, p->samples == p->samples_total, p->seconds))
        return;
    if (!s->is_bytes)
        snprintf(count, sizeof(count), "%llu of %llu samples, ", (unsigned long long)p->samples, (unsigned long long)p->samples_total);
    talk_raw(s->line.before);
    talk("packing: %s%s, %s/s, %s left", count, text_size(p->bytes, done, sizeof(done)),
         text_size(p->seconds > 0 ? (uint64_t)((double)p->bytes / p->seconds) : 0, rate, sizeof(rate)),
         progress_rest(p->bytes, p->bytes_total, p->seconds, rest, sizeof(rest)));
    talk_raw(s->line.after);
}

/* ---- results ---- */

static void print_json(const struct pack_result *r)
{
    say_value(J_OBJECT(NULL, J("name", r->name), J("samples", r->samples), J("bytes", r->bytes), J("pack_bytes", r->pack_bytes),
                       J("shards", r->shards), J("resumed_samples", r->resumed), J("skipped_samples", r->skipped),
                       J_HEX("source_fingerprint", r->fingerprint), J_FIXED("seconds", 6, r->seconds)));
}

static void print_table(const struct pack_result *r)
{
    char a[32], b[32], c[32], name[1100];
    say("%-10s %s\n", "pack", text_escape(r->name, name, sizeof(name)));
    say("%-10s %llu, %s; %s with labels and index%s\n", "samples", (unsigned long long)r->samples, text_size(r->bytes, a, sizeof(a)),
        text_size(r->pack_bytes, b, sizeof(b)), r->shards > 1 ? ", in shards" : "");
    if (r->resumed)
        say("%-10s %llu samples were there from before\n", "resumed", (unsigned long long)r->resumed);
    if (r->skipped)
        say("%-10s %llu bad samples\n", "left out", (unsigned long long)r->skipped);
    say("%-10s %.1f s, %s/s\n", "took", r->seconds, text_size((uint64_t)((double)r->bytes / (r->seconds + 1e-9)), c, sizeof(c)));
}

/* ---- decoding ---- */

static void foretell(void *ctx, const struct decode_forecast *f)
{
    (void)ctx;
    char bytes[32], disk[32], memory[32];
    talk("%llu pictures will take %s; %s are free there, %s of memory%s\n", (unsigned long long)f->samples,
         text_size(f->bytes, bytes, sizeof(bytes)), text_size(f->disk_free, disk, sizeof(disk)),
         text_size(f->memory_free, memory, sizeof(memory)),
         f->bytes < f->memory_free ? ": all of it will stay in memory once read"
                                   : ", less than that: every epoch reads from the disk again");
    if (f->decode_rate > 0)
        talk("decoding gives %.0f pictures/s here on %d threads; copying decoded ones from memory %.0f per thread\n", f->decode_rate,
             f->threads, f->copy_rate);
}

static int fail(const struct pack_result *r, const struct fb_error *e)
{
    int code = cli_fail(e);
    if (r->is_kept)
        talk("  %llu samples are written and kept beside the pack; "
             "repeat the command with --resume to continue, or without it to start again\n",
             (unsigned long long)r->samples);
    return code;
}

static int decode(const char *source, const struct pack_options *c)
{
    struct shown shown = {.line = progress_start()};
    struct decode_request q = {.output = c->output,
                               .fit = (enum decode_fit)c->fit,
                               .skips_bad = c->skip_bad,
                               .resumes = c->resume,
                               .overwrites = c->force,
                               .foretell = foretell,
                               .progress = progress,
                               .ctx = &shown};
    struct pack_result r = {0};
    struct fb_error e = {0};
    char more;
    if (sscanf(c->decode, "%5ux%5u%c", &q.height, &q.width, &more) != 2 || q.height < 1 || q.width < 1 || q.height > 65500 ||
        q.width > 65500) {
        talk("fullbore pack: --decode %s is not a size such as 224x224 (height x width)\n", c->decode);
        return EXIT_USAGE;
    }
    cli_init_options(&q.options, source);
    q.options.threads = (int)c->threads;
    int rc = decode_run(&q, &r, &e);
    error_reword(&e, "on_error=\"skip\" goes on with another sample in its place", "--skip-bad leaves it out");
    int code = rc < 0 ? fail(&r, &e) : r.skipped ? EXIT_PARTLY : EXIT_DONE;
    if (rc == 0 && c->json)
        print_json(&r);
    else if (rc == 0)
        print_table(&r);
    if (rc == 0 && r.skipped)
        talk_list("fullbore: %llu pictures could not be decoded and were left out:\n", r.skipped, r.skipped_list);
    pack_result_free(&r);
    return code;
}

/* ---- other chunks ---- */

static void print_rechunked(const struct pack_options *c, const struct rechunk_result *r)
{
    char was[32], is[32], name[1100];
    if (c->json) {
        say_value(J_OBJECT(NULL, J("name", c->output), J("datasets", r->datasets), J("rechunked", r->rechunked),
                           J("source_bytes", r->source_bytes), J("bytes", r->bytes), J_FIXED("seconds", 6, r->seconds)));
        return;
    }
    say("%-10s %s\n", "file", text_escape(c->output, name, sizeof(name)));
    say("%-10s %llu, %llu of them in chunks of %lld rows (more where rows are tiny)\n", "datasets", (unsigned long long)r->datasets,
        (unsigned long long)r->rechunked, (long long)c->rechunk);
    say("%-10s %s; it was %s\n", "size", text_size(r->bytes, is, sizeof(is)), text_size(r->source_bytes, was, sizeof(was)));
    say("%-10s %.1f s\n", "took", r->seconds);
}

static int rechunk(const char *source, const struct pack_options *c)
{
    struct shown shown = {.line = progress_start(), .is_bytes = true};
    struct rechunk_request q = {.output = c->output,
                                .rows = (uint64_t)c->rechunk,
                                .filters = (enum hdf5_rechunk_filters)c->compress,
                                .allows_external = c->allow_external,
                                .overwrites = c->force,
                                .progress = progress,
                                .ctx = &shown};
    struct rechunk_result r;
    struct fb_error e = {0};
    cli_init_options(&q.options, source);
    q.options.threads = (int)c->threads;
    if (pack_rechunk_run(&q, &r, &e) < 0)
        return cli_fail(&e);
    print_rechunked(c, &r);
    return EXIT_DONE;
}

/* ---- the verb ---- */

static int pack(const char *source, const struct pack_options *c)
{
    struct shown shown = {.line = progress_start()};
    struct pack_request q = {.output = c->output,
                             .shard_bytes = c->shard_size,
                             .skips_bad = c->skip_bad,
                             .resumes = c->resume,
                             .overwrites = c->force,
                             .shorter = (int)c->resize_shorter,
                             .quality = c->jpeg_quality ? (int)c->jpeg_quality : 92,
                             .progress = progress,
                             .ctx = &shown};
    struct pack_result r;
    struct fb_error e = {0};
    cli_init_options(&q.options, source);
    q.options.threads = (int)c->threads;
    int rc = pack_run(&q, &r, &e);
    int code = rc < 0 ? fail(&r, &e) : r.skipped ? EXIT_PARTLY : EXIT_DONE;
    if (rc == 0 && c->json)
        print_json(&r);
    else if (rc == 0)
        print_table(&r);
    if (r.skipped)
        talk_list("fullbore: %llu samples were left out:\n", r.skipped, r.skipped_list);
    pack_result_free(&r);
    return code;
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct pack_options c = {0};
    const char *source[1];
    cli_expand_output(argc, argv);
    int rc = cli_parse(&verb_pack, argc, argv, &c, source, 1);
    if (rc < 0)
        return -1 - rc;
    if (!c.output) {
        talk("fullbore pack: -o OUT.tar is missing\nusage: fullbore pack %s\n", verb_pack.usage);
        return EXIT_USAGE;
    }
    if (c.jpeg_quality && !c.resize_shorter) {
        talk("fullbore pack: --jpeg-quality is for pictures made smaller by --resize-shorter; others keep their bytes\n");
        return EXIT_USAGE;
    }
    if (c.rechunk ? c.shard_size || c.skip_bad || c.resize_shorter || c.decode || c.fit || c.dtype || c.resume
                  : c.compress || c.allow_external) {
        talk("fullbore pack: --rechunk can be combined with --compress, --allow-external, --force and --threads only, "
             "and the first two need --rechunk\n");
        return EXIT_USAGE;
    }
    if (c.rechunk)
        return rechunk(source[0], &c);
    bool is_npy = strlen(c.output) > 4 && strcmp(c.output + strlen(c.output) - 4, ".npy") == 0;
    if (is_npy != (c.decode != NULL) || (c.decode && (c.shard_size || c.resize_shorter)) || (!c.decode && (c.fit || c.dtype))) {
        talk("fullbore pack: --decode and --fit need -o OUT.npy, and cannot be combined with --shard-size or --resize-shorter\n");
        return EXIT_USAGE;
    }
    if (c.dtype && strcmp(c.dtype, "uint8") != 0) {
        talk("fullbore pack: decoded pictures are uint8; the loader makes other types of them\n");
        return EXIT_USAGE;
    }
    return c.decode ? decode(source[0], &c) : pack(source[0], &c);
}

const struct verb verb_pack = {
    .name = "pack",
    .usage = "DATA -o OUT.tar [--shard-size SIZE] [--skip-bad] [--resume] [--force] [--resize-shorter PIXELS] | "
             "DATA -o OUT.npy --decode HxW [--fit F] | "
             "DATA.h5 -o OUT.h5 --rechunk ROWS [--compress C]",
    .summary = "put a data set into one file, or a few, that tar, WebDataset and fullbore read",
    .examples =
        "  fullbore pack photos/ -o photos.tar                      every sample with its label; same order and fingerprint as the folder\n"
        "  fullbore pack labels.csv -o train.tar --shard-size 1GiB  train-000000.tar and so on, for object stores\n"
        "  fullbore pack photos/ -o photos.npy --decode 224x224     decoded pictures that numpy opens, for small data and fast loaders\n"
        "  fullbore pack bags.h5 -o rows.h5 --rechunk 1             an HDF5 file whose rows can be read one by one\n"
        "  fullbore pack photos/ -o photos.tar --resume             go on after an interruption\n",
    .options = options,
    .run = run,
};
