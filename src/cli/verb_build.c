/* fullbore build SRC -o OUT.h5: recordings into one HDF5 file of features. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "jobs/build.h"
#include "jobs/build_report.h"

struct build_options {
    const char *output, *labels, *split, *dtype, *compress, *report;
    const char *length, *segment, *stride;
    int64_t log_mel, n_fft, hop, rate, threads, chunk_rows, seed;
    double f_min, f_max, top_db;
    uint64_t memory;
    int mel_scale;
    bool raw, mono, exact, skip_bad, resume, json, force;
};

static const char *const mel_scales[] = {"slaney", "htk", NULL};

static const struct option options[] = {
    {"output", OPTION_STRING, offsetof(struct build_options, output), .metavar = "OUT.h5", .help = "the HDF5 file; -o for short"},
    {"log-mel", OPTION_INT, offsetof(struct build_options, log_mel), 1, 4096, .metavar = "MELS",
     .help = "rows are log-mel spectrograms in dB, as librosa defines them, with this many mels (default 64)"},
    {"raw", OPTION_FLAG, offsetof(struct build_options, raw), .help = "rows are the samples themselves, from -1 to 1"},
    {"n-fft", OPTION_INT, offsetof(struct build_options, n_fft), 4, 65536, .metavar = "N", .help = "samples of a frame (default 1024)"},
    {"hop", OPTION_INT, offsetof(struct build_options, hop), 1, 65536, .metavar = "N", .help = "samples from frame to frame (default 256)"},
    {"f-min", OPTION_DOUBLE, offsetof(struct build_options, f_min), 0, 1e6, .metavar = "HZ", .help = "lowest frequency (default 0)"},
    {"f-max", OPTION_DOUBLE, offsetof(struct build_options, f_max), 0, 1e6, .metavar = "HZ", .help = "highest (default: half the rate)"},
    {"mel-scale", OPTION_CHOICE, offsetof(struct build_options, mel_scale), .choices = mel_scales, .metavar = "SCALE",
     .help = "slaney (librosa, default) or htk (torchaudio, without area norm)"},
    {"top-db", OPTION_DOUBLE, offsetof(struct build_options, top_db), 0, 1000, .metavar = "DB",
     .help = "cut off what is further below a row's loudest (default 80; 0: no limit)"},
    {"exact", OPTION_FLAG, offsetof(struct build_options, exact),
     .help = "transform in float64 as librosa does, about half as fast; without: in float32 as torch does"},
    {"rate", OPTION_INT, offsetof(struct build_options, rate), 1, 10000000, .metavar = "HZ",
     .help = "sample rate of the recordings (default: that of the first); others are bad: nothing is resampled"},
    {"mono", OPTION_FLAG, offsetof(struct build_options, mono), .help = "mix channels into one; without it, several are an error"},
    {"length", OPTION_STRING, offsetof(struct build_options, length), .metavar = "LEN",
     .help = "one row per recording: its first 0.5s, 500ms or 24000 (samples); silence follows shorter ones"},
    {"segment", OPTION_STRING, offsetof(struct build_options, segment), .metavar = "LEN",
     .help = "many rows per recording, each this long"},
    {"stride", OPTION_STRING, offsetof(struct build_options, stride), .metavar = "LEN",
     .help = "from the beginning of a segment to that of the next (default: as --segment)"},
    {"labels", OPTION_STRING, offsetof(struct build_options, labels), .metavar = "CSV",
     .help = "paths and labels (.csv .tsv .jsonl); `folder`: names of folders; `none` (default: what the source has)"},
    {"split", OPTION_STRING, offsetof(struct build_options, split), .metavar = "A/B/C",
     .help = "train/val/test shares, as 80/10/10; by recording, so that a key keeps its side"},
    {"seed", OPTION_INT, offsetof(struct build_options, seed), 0, 9e15, .metavar = "N", .help = "seed of --split (default 0)"},
    {"dtype", OPTION_STRING, offsetof(struct build_options, dtype), .metavar = "T", .help = "float32 (default) or float16"},
    {"chunk-rows", OPTION_INT, offsetof(struct build_options, chunk_rows), 1, 1 << 24, .metavar = "N",
     .help = "rows of a chunk (default: contiguous; compressed: about 1 MiB)"},
    {"compress", OPTION_STRING, offsetof(struct build_options, compress), .metavar = "HOW",
     .help = "none (default), gzip, or gzip-1 to gzip-9"},
    {"threads", OPTION_INT, offsetof(struct build_options, threads), 0, 256, .metavar = "N",
     .help = "workers (default: all cores); the file does not depend on it"},
    {"memory", OPTION_SIZE, offsetof(struct build_options, memory), .metavar = "SIZE",
     .help = "budget (default: a quarter of what is free, at most 1GiB)"},
    {"skip-bad", OPTION_FLAG, offsetof(struct build_options, skip_bad),
     .help = "leave out recordings that cannot be used; they are named, and the exit code is 4"},
    {"resume", OPTION_FLAG, offsetof(struct build_options, resume), .help = "go on with what an interrupted run has written"},
    {"force", OPTION_FLAG, offsetof(struct build_options, force), .help = "replace an existing OUT.h5 once the new one is complete"},
    {"report", OPTION_STRING, offsetof(struct build_options, report), .metavar = "FILE",
     .help = "write the report there (default: stderr)"},
    {"json", OPTION_FLAG, offsetof(struct build_options, json), .help = "one JSON object on stdout"},
    {0},
};

/* ---- words -> numbers ---- */

/* "0.5s", "500ms", "24000". */
static bool parse_span(const char *text, struct build_span *out)
{
    const char *end;
    double x;
    if (!text)
        return true;
    if (!text_parse_double(text, &x, &end) || !(x > 0) || x > 1e9)
        return false;
    if (strcmp(end, "s") == 0)
        out->seconds = x;
    else if (strcmp(end, "ms") == 0)
        out->seconds = x / 1000;
    else if (*end == 0 && x >= 1 && x == (double)(uint64_t)x)
        out->samples = (uint64_t)x;
    else
        return false;
    return true;
}

static bool parse_shares(const char *text, double *share)
{
    double sum = 0;
    for (int i = 0; text && i < BUILD_MAX_SPLITS; i++) {
        const char *end;
        if (!text_parse_double(text, &share[i], &end) || share[i] < 0)
            return false;
        sum += share[i];
        if (*end == 0)
            return sum > 0 && i > 0;
        if (*end != '/')
            return false;
        text = end + 1;
    }
    return !text;
}

/* -1: no such thing. */
static int parse_compression(const char *text)
{
    if (!text || strcmp(text, "none") == 0)
        return 0;
    if (strcmp(text, "gzip") == 0)
        return 4;
    if (strncmp(text, "gzip-", 5) == 0 && text[5] >= '1' && text[5] <= '9' && text[6] == 0)
        return text[5] - '0';
    return -1;
}

static int usage(const char *format, const char *value)
{
    talk("fullbore build: ");
    talk(format, value);
    talk("\nusage: fullbore build %s\n", verb_build.usage);
    return EXIT_USAGE;
}

/* 0, or an exit code. */
static int fill_request(struct build_request *q, const struct build_options *c)
{
    if (!parse_span(c->length, &q->length) || !parse_span(c->segment, &q->segment) || !parse_span(c->stride, &q->stride))
        return usage("lengths are written as 0.5s, 500ms or, in samples, 24000%s", "");
    if (!parse_shares(c->split, q->share))
        return usage("--split %s: shares of train, val and test are written as 80/10/10 or 90/10", c->split);
    if ((q->deflate = parse_compression(c->compress)) < 0)
        return usage("--compress %s: it must be none, gzip, or gzip-1 to gzip-9", c->compress);
    q->dtype = c->dtype ? fb_dtype_from_name(c->dtype) : FB_FLOAT32;
    if (q->dtype != FB_FLOAT32 && q->dtype != FB_FLOAT16)
        return usage("--dtype %s: it must be float32 or float16", c->dtype);
    if (c->raw && (c->log_mel || c->n_fft || c->hop || c->exact || c->f_min > 0 || c->f_max > 0))
        return usage("--raw keeps the samples as they are: it cannot be combined with --log-mel, --n-fft, --hop and the like%s", "");
    q->is_raw = c->raw;
    q->n_mels = (uint32_t)c->log_mel;
    q->n_fft = (uint32_t)c->n_fft;
    q->hop_length = (uint32_t)c->hop;
    q->f_min = c->f_min;
    q->f_max = c->f_max;
    q->is_htk = c->mel_scale == 1;
    q->top_db = c->top_db;
    q->is_exact = c->exact;
    q->rate = (uint32_t)c->rate;
    q->is_mono = c->mono;
    q->labels = c->labels;
    q->seed = (uint64_t)c->seed;
    q->chunk_rows = (uint64_t)c->chunk_rows;
    q->skips_bad = c->skip_bad;
    q->resumes = c->resume;
    q->overwrites = c->force;
    q->output = c->output;
    return 0;
}

/* ---- progress ---- */

static void progress(void *ctx, const struct build_progress *p)
{
    struct progress *line = ctx;
    char rest[32];
    uint64_t done = p->files - p->files_before;
    double share = p->files_total ? (double)p->files / (double)p->files_total : 0;
    int width = 24, full = (int)(width * share);
    if (!progress_is_due(line, share, p->files == p->files_total, p->seconds))
        return;
    talk_raw(line->before);
    talk("building [%.*s%.*s] %llu of %llu files, %.0f files/s, %llu rows, %s left, most time: %s", full,
         "========================", width - full, "                        ", (unsigned long long)p->files,
         (unsigned long long)p->files_total, p->seconds > 0 ? (double)done / p->seconds : 0, (unsigned long long)p->rows,
         progress_rest(done, p->files_total - p->files_before, p->seconds, rest, sizeof(rest)), build_stage_names[p->bottleneck]);
    talk_raw(line->after);
}

/* ---- results ---- */

static int write_report(const struct build_result *r, const char *path, const struct build_request *q)
{
    struct text t = {.limit = 1 << 20};
    build_report_text(r, q, &t);
    FILE *f = path ? fopen(path, "we") : stderr;
    bool is_written = f && t.data && say_lines_to(f, t.data);
    if (path && f && fclose(f) != 0)
        is_written = false;
    if (!is_written)
        talk("fullbore build: the report could not be written%s%s\n", path ? " to " : "", path ? path : "");
    text_free(&t);
    return is_written ? EXIT_DONE : EXIT_FAILED;
}

static void print_json(const struct build_result *r, const struct build_request *q)
{
    struct text t = {.limit = 1 << 20};
    build_report_json(r, q, &t);
    say_json(&t);
}

static int fail(const struct build_result *r, const struct fb_error *e)
{
    int code = cli_fail(e);
    if (r->is_kept)
        talk("  %llu rows are written and kept beside the output; "
             "repeat the command with --resume to continue, or without it to start again\n",
             (unsigned long long)r->rows);
    return code;
}

static int build(const char *source, const struct build_options *c)
{
    struct progress line = progress_start();
    struct build_request q = {.progress = progress, .ctx = &line};
    struct build_result r;
    struct fb_error e = {0};
    int code = fill_request(&q, c);
    if (code)
        return code;
    cli_init_options(&q.options, source);
    q.options.threads = (int)c->threads;
    q.options.memory = c->memory;
    mallopt(M_MMAP_THRESHOLD, 1 << 20); /* fixed: a large buffer that is given back leaves the process, as --memory counts it */
    int rc = build_run(&q, &r, &e);
    code = rc < 0 ? fail(&r, &e) : r.skipped ? EXIT_PARTLY : EXIT_DONE;
    if (rc == 0 && (c->report || !c->json) && write_report(&r, c->report, &q) != EXIT_DONE)
        code = EXIT_FAILED;
    if (rc == 0 && c->json)
        print_json(&r, &q);
    else if (rc == 0)
        say("%s: %llu rows of %llu files\n", c->output, (unsigned long long)r.rows, (unsigned long long)r.files);
    if (r.skipped)
        talk_list("fullbore: %llu recordings were left out:\n", r.skipped, r.skipped_list);
    build_result_free(&r);
    return code;
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct build_options c = {.top_db = 80};
    const char *source[1];
    cli_expand_output(argc, argv);
    int rc = cli_parse(&verb_build, argc, argv, &c, source, 1);
    if (rc < 0)
        return -1 - rc;
    return c.output ? build(source[0], &c) : usage("-o OUT.h5 is missing%s", "");
}

const struct verb verb_build = {
    .name = "build",
    .usage = "DATA -o OUT.h5 [--log-mel MELS | --raw] [--length LEN | --segment LEN] [--split A/B/C] [--compress gzip] [--resume]",
    .summary = "turn recordings into one HDF5 file of features, on all cores",
    .examples = "  fullbore build wavs/ -o train.h5 --log-mel 64 --length 0.5s                 one spectrogram per recording\n"
                "  fullbore build wavs/ -o train.h5 --segment 1s --stride 0.5s --split 80/10/10  many per recording; split by recording\n"
                "  fullbore build wavs/ -o raw.h5 --raw --length 24000 --dtype float16         the samples themselves\n"
                "  fullbore build wavs/ -o train.h5 --length 0.5s --resume                     go on after an interruption\n",
    .options = options,
    .run = run,
};
