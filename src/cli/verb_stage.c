/* fullbore stage SRC DST: a data set, or a part of it, to where it can be read fast. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "jobs/stage.h"

struct stage_options {
    const char *classes, *keys, *io;
    int64_t class_seed, per_class, threads;
    double fraction;
    int to;
    bool resume, verify, dry_run, json;
};

static const char *const to_names[] = {"any", "ram", "ssd", NULL};

#define AT(field) offsetof(struct stage_options, field)
static const struct option options[] = {
    {"classes", OPTION_STRING, AT(classes), .metavar = "N|NAMES|FILE",
     .help = "a number of classes, or names (a,b,c), or a file with one name per line"},
    {"class-seed", OPTION_INT, AT(class_seed), 0, 9e18, .metavar = "S",
     .help = "seed that draws the classes and samples, as Loader(class_seed=) (default 0)"},
    {"per-class", OPTION_INT, AT(per_class), 1, 9e18, .metavar = "M", .help = "at most this many samples of each class"},
    {"fraction", OPTION_DOUBLE, AT(fraction), 1e-9, 1, .metavar = "F", .help = "a share of the samples, as Loader(fraction=)"},
    {"keys", OPTION_STRING, AT(keys), .metavar = "FILE", .help = "these samples: paths relative to SRC, one per line"},
    {"to", OPTION_CHOICE, AT(to), .choices = to_names, .metavar = "ram|ssd", .help = "fail unless DST lies there"},
    {"resume", OPTION_FLAG, AT(resume),
     .help = "go on with an earlier run, or bring it up to date: only what is missing or changed is copied"},
    {"verify", OPTION_FLAG, AT(verify), .help = "read the copy again and compare checksums; what differs is removed"},
    {"dry-run", OPTION_FLAG, AT(dry_run), .help = "print what would be done and whether it fits, but copy nothing"},
    {"threads", OPTION_INT, AT(threads), 1, 64, .metavar = "N", .help = "threads that write (default 4)"},
    {"io", OPTION_STRING, AT(io), .metavar = "SPEC", .help = "how to read (src/io/README.md)"},
    {"json", OPTION_FLAG, AT(json), .help = "one JSON object on stdout"},
    {0},
};
#undef AT

/* ---- progress ---- */

static struct { /* the options' ctx is the loader's own */
    struct progress line;
    bool is_verifying;
} shown;

static void progress(void *ctx, const struct stage_progress *p)
{
    (void)ctx;
    char done[32], rate[32], rest[32];
    if (shown.is_verifying != p->is_verifying)
        shown.line = progress_start();
    shown.is_verifying = p->is_verifying;
    double share = p->bytes_total ? (double)p->bytes / (double)p->bytes_total : 0;
    if (!progress_is_due(&shown.line, share, p->files == p->files_total, p->seconds))
        return;
    talk_raw(shown.line.before);
    talk("%s: %llu of %llu files, %s, %s/s, %s left", p->is_verifying ? "verifying" : "staging", (unsigned long long)p->files,
         (unsigned long long)p->files_total, text_size(p->bytes, done, sizeof(done)),
         text_size(p->seconds > 0 ? (uint64_t)((double)p->bytes / p->seconds) : 0, rate, sizeof(rate)),
         progress_rest(p->bytes, p->bytes_total, p->seconds, rest, sizeof(rest)));
    talk_raw(shown.line.after);
}

/* ---- what to run ---- */

static bool is_number(const char *s)
{
    size_t n = strspn(s, "0123456789");
    return n > 0 && !s[n] && n < 10;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* "100", "cat,dog", or a file: as fb_options has them. The text is the caller's to free. */
static int set_classes(const char *given, struct stage_request *q, char **text)
{
    *text = NULL;
    if (!given)
        return 0;
    if (is_number(given)) {
        q->class_count = strtoull(given, NULL, 10);
        return q->class_count ? 0 : -1;
    }
    *text = malloc(strlen(given) + 2);
    if (!*text || !given[0])
        return -1;
    if (is_file(given)) {
        sprintf(*text, "@%s", given);
    } else {
        strcpy(*text, given);
        for (char *comma = *text; (comma = strchr(comma, ','));)
            *comma = '\n';
    }
    q->classes = *text;
    return 0;
}

/* ---- what came out ---- */

static void put_parts(struct json_writer *w, const struct stage_result *r)
{
    json_begin_array(w, "parts");
    for (const struct stage_part *p = r->part; p < r->part + r->parts; p++)
        json_put(w, J_OBJECT(NULL, J("name", p->name), J("files", p->files), J("bytes", p->bytes), J("samples", p->samples),
                             J("classes", p->classes), J("lost_classes", p->lost_classes),
                             p->fingerprint ? J_HEX("fingerprint", p->fingerprint) : J_NULL("fingerprint")));
    json_end(w);
}

static void print_json(const struct stage_request *q, const struct stage_result *r, const struct fb_error *e)
{
    struct text t = {.limit = 1 << 20};
    struct json_writer w = {.out = &t};
    bool is_complete = !e->code && r->copied + r->there == r->files && !r->failed && !r->damaged;
    json_begin_object(&w, NULL);
    json_put(&w, J("source", q->source), J("target", q->target), J("source_device", r->source_device), J("target_device", r->target_device),
             J_BOOL("dry_run", q->is_dry), J_BOOL("complete", is_complete), J("files", r->files), J("bytes", r->bytes),
             J("copied_files", r->copied), J("copied_bytes", r->copied_bytes), J("there_files", r->there), J("failed_files", r->failed),
             J("changed_files", r->changed), J("verified_files", r->verified), J("damaged_files", r->damaged),
             J("needed_bytes", r->needed_bytes), J("free_bytes", r->free_bytes), J("keep_free_bytes", r->keep_bytes),
             J_BOOL("fits", r->fits), J_FIXED("fits_ratio", 4, r->fits_share), J_FIXED("seconds", 6, r->seconds),
             J_FIXED("bytes_per_second", 0, r->seconds > 0 ? (double)r->copied_bytes / r->seconds : 0.0));
    put_parts(&w, r);
    json_end(&w);
    say_json(&t);
}

static void print_plan(const struct stage_request *q, const struct stage_result *r)
{
    char a[32], b[32], c[32];
    say("%-10s %s (%s)\n", "source", q->source, r->source_device);
    say("%-10s %s (%s)\n", "target", q->target, r->target_device);
    for (int i = 0; i < r->parts; i++) {
        const struct stage_part *p = &r->part[i];
        say("%-10s %llu files, %s", p->name[0] ? p->name : "data", (unsigned long long)p->files, text_size(p->bytes, a, sizeof(a)));
        if (p->classes)
            say(", %d classes", p->classes - p->lost_classes);
        say("\n");
    }
    say("%-10s %s of %s that are free%s; %s stay free\n", "room", text_size(r->needed_bytes, a, sizeof(a)),
        text_size(r->free_bytes, b, sizeof(b)), r->is_memory ? " in memory" : "", text_size(r->keep_bytes, c, sizeof(c)));
}

static void print_result(const struct stage_request *q, const struct stage_result *r)
{
    char a[32], b[32];
    print_plan(q, r);
    if (q->is_dry || !r->fits)
        return;
    say("%-10s %llu files, %s in %.1f s, %s/s\n", "copied", (unsigned long long)r->copied, text_size(r->copied_bytes, a, sizeof(a)),
        r->seconds, text_size((uint64_t)((double)r->copied_bytes / (r->seconds + 1e-9)), b, sizeof(b)));
    if (r->there)
        say("%-10s %llu files from an earlier run\n", "there", (unsigned long long)r->there);
    if (r->changed)
        say("%-10s %llu files since the data set was catalogued; copied as they are now\n", "changed", (unsigned long long)r->changed);
    if (q->verifies)
        say("%-10s %llu files read again, %llu differ\n", "verified", (unsigned long long)r->verified, (unsigned long long)r->damaged);
}

/* Partly is never done. */
static int exit_code(const struct stage_result *r, const struct fb_error *e)
{
    if (e->code == FB_E_INTERRUPTED || e->code == FB_E_USAGE)
        return e->code == FB_E_USAGE ? EXIT_USAGE : EXIT_INTERRUPTED;
    if (r->damaged)
        return EXIT_DAMAGED;
    if (e->code)
        return r->copied ? EXIT_PARTLY : e->code == FB_E_DATA ? EXIT_DAMAGED : EXIT_FAILED;
    if (r->failed)
        return r->copied || r->there ? EXIT_PARTLY : EXIT_FAILED;
    return EXIT_DONE;
}

static int stage(struct stage_request *q, bool has_json)
{
    struct stage_result r;
    struct fb_error e = {0};
    fb_options o; /* for its wires */
    cli_init_options(&o, NULL);
    shown.line = progress_start();
    q->progress = progress;
    q->found = o.progress;
    q->interrupted = o.interrupted;
    q->log = o.log;
    q->ctx = o.ctx;
    int rc = stage_run(q, &r, &e);
    int code = exit_code(&r, &e);
    if (rc < 0)
        cli_fail(&e);
    bool has_figures = rc == 0 || r.copied || e.code == FB_E_BUDGET; /* what was refused has none */
    if (has_figures && has_json)
        print_json(q, &r, &e);
    else if (has_figures)
        print_result(q, &r);
    if (rc < 0 && r.copied)
        talk("  %llu of %llu files are staged; repeat the command with --resume to continue\n", (unsigned long long)(r.copied + r.there),
             (unsigned long long)r.files);
    for (int i = 0; has_figures && i < r.parts; i++)
        if (r.part[i].lost_classes)
            talk("fullbore: %d of %d classes have no sample in the part: a loader of the copy renumbers the others\n",
                 r.part[i].lost_classes, r.part[i].classes);
    if (r.list)
        talk_list("fullbore: %llu files were not staged:\n", r.failed + r.damaged, r.list);
    stage_free(&r);
    return code;
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct stage_options c = {.fraction = 1};
    const char *place[2];
    int rc = cli_parse(&verb_stage, argc, argv, &c, place, 2);
    if (rc < 0)
        return -1 - rc;
    struct stage_request q = {.source = place[0],
                              .target = place[1],
                              .class_seed = (uint64_t)c.class_seed,
                              .per_class = (uint64_t)c.per_class,
                              .fraction = c.fraction,
                              .keys = c.keys,
                              .to = (enum stage_to)c.to,
                              .resumes = c.resume,
                              .verifies = c.verify,
                              .is_dry = c.dry_run,
                              .threads = (int)c.threads,
                              .io = c.io};
    char *classes;
    int code = EXIT_USAGE;
    if (set_classes(c.classes, &q, &classes) < 0)
        talk("fullbore stage: --classes is a number from 1, names joined by commas, or a file with a name per line\n");
    else
        code = stage(&q, c.json);
    free(classes);
    return code;
}

const struct verb verb_stage = {
    .name = "stage",
    .usage = "SRC DST [--classes N|NAMES|FILE --class-seed S --per-class M | --fraction F | --keys FILE] [--to ram|ssd] [--resume]\n"
             "                            [--verify] [--dry-run]",
    .summary = "copy a data set, or a part of it, to where it can be read fast",
    .examples =
        "  fullbore stage /mnt/imagenet /nvme/in100 --classes 100 --class-seed 42   train/ and val/, what Loader(classes=100, ...) takes\n"
        "  fullbore stage s3://bucket/photos /nvme/photos --resume --verify         go on after an interruption, then check the copy\n"
        "  fullbore stage /data/train.h5 /dev/shm/run1 --to ram                     a single file into memory, if there is enough\n"
        "  fullbore stage photos/ /nvme/photos --dry-run                            what would it take, and does it fit?\n",
    .options = options,
    .run = run,
};
