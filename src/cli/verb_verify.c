/* fullbore verify PACK: is every byte still what was packed? */
#include <unistd.h>

#include "cli/cli.h"
#include "jobs/verify.h"

struct verify_options {
    bool json;
};

static const struct option options[] = {
    {"json", OPTION_FLAG, offsetof(struct verify_options, json), .help = "one JSON object on stdout"},
    {0},
};

static void progress(void *ctx, uint64_t bytes, uint64_t total)
{
    uint64_t *told = ctx;
    uint64_t percent = total ? 100 * bytes / total : 0;
    if (percent == *told || !isatty(STDERR_FILENO))
        return;
    *told = percent;
    char a[32], b[32];
    talk("\r\x1b[Kverifying: %s of %s", text_size(bytes, a, sizeof(a)), text_size(total, b, sizeof(b)));
    talk_raw(percent >= 100 ? "\r\x1b[K" : "");
}

static uint64_t listed(const struct verify_result *r)
{
    return r->damages < VERIFY_NAMED ? r->damages : VERIFY_NAMED;
}

static void print_json(const struct verify_result *r)
{
    struct text t = {.limit = 64 << 20};
    struct json_writer w = {.out = &t};
    json_begin_object(&w, NULL);
    json_put(&w, J("files", r->files), J("files_without_index", r->without_index), J("samples", r->samples), J("bytes", r->bytes),
             J_FIXED("seconds", 6, r->seconds), J("damages", r->damages));
    json_begin_array(&w, "damaged");
    for (uint64_t i = 0; i < listed(r); i++) {
        const struct verify_damage *d = &r->damage[i];
        json_put(&w, J_OBJECT(NULL, J("file", d->path ? d->path : ""), J("record", d->record), J("offset", d->offset), J("key", d->key),
                              J("what", d->what)));
    }
    json_end(&w);
    json_end(&w);
    say_json(&t);
}

static void print_damage(const struct verify_damage *d)
{
    char path[600], key[600];
    say("%s: byte %llu: ", text_escape(d->path ? d->path : "", path, sizeof(path)), (unsigned long long)d->offset);
    if (d->record >= 0)
        say("record %lld%s%s: ", (long long)d->record, d->key ? ", " : "", d->key ? text_escape(d->key, key, sizeof(key)) : "");
    say("%s\n", d->what);
}

static void print_table(const struct verify_result *r)
{
    char bytes[32];
    for (uint64_t i = 0; i < listed(r); i++)
        print_damage(&r->damage[i]);
    if (r->damages > listed(r))
        say("... and %llu more\n", (unsigned long long)(r->damages - listed(r)));
    say("%u file%s, %llu samples, %s read: %s%llu%s\n", r->files, r->files == 1 ? "" : "s", (unsigned long long)r->samples,
        text_size(r->bytes, bytes, sizeof(bytes)), r->damages ? "DAMAGED in " : "", (unsigned long long)r->damages,
        r->damages ? " places" : " damages");
    if (r->without_index)
        say("%u of them were not made by 'fullbore pack' and have no checksums: only their headers could be checked\n", r->without_index);
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct verify_options c = {0};
    const char *source[1];
    int rc = cli_parse(&verb_verify, argc, argv, &c, source, 1);
    if (rc < 0)
        return -1 - rc;
    uint64_t told = 0;
    fb_options o;
    struct fb_error e = {0};
    struct verify_result r;
    cli_init_options(&o, NULL);
    struct verify_request q = {source[0], progress, o.interrupted, &told};
    rc = verify_run(&q, &r, &e);
    int code = rc < 0 ? cli_fail(&e) : r.damages ? EXIT_DAMAGED : EXIT_DONE;
    if (rc == 0 && c.json)
        print_json(&r);
    else if (rc == 0)
        print_table(&r);
    verify_free(&r);
    return code;
}

const struct verb verb_verify = {
    .name = "verify",
    .usage = "PACK [--json]",
    .summary = "read a whole pack, compare every checksum, and say what is damaged",
    .examples = "  fullbore verify photos.tar                       exit code 0: whole, 3: damaged\n"
                "  fullbore verify 'train-{000000..000012}.tar'     all shards of a set\n",
    .options = options,
    .run = run,
};
