/* fullbore unpack PACK DIR: the files back. */
#include "cli/cli.h"
#include "jobs/unpack.h"

struct unpack_options {
    bool json;
};

static const struct option options[] = {
    {"json", OPTION_FLAG, offsetof(struct unpack_options, json), .help = "one JSON object on stdout"},
    {0},
};

static void print_json(const struct unpack_result *r)
{
    say_value(J_OBJECT(NULL, J("files", r->files), J("bytes", r->bytes), J("files_there_before", r->there), J("damaged", r->damaged),
                       J("refused", r->refused), J_FIXED("seconds", 6, r->seconds)));
}

static void print_line(const struct unpack_result *r)
{
    char bytes[32];
    say("%llu files, %s", (unsigned long long)r->files, text_size(r->bytes, bytes, sizeof(bytes)));
    if (r->there)
        say("; %llu were there already", (unsigned long long)r->there);
    say("\n");
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    struct unpack_options c = {0};
    const char *argument[2];
    int rc = cli_parse(&verb_unpack, argc, argv, &c, argument, 2);
    if (rc < 0)
        return -1 - rc;
    fb_options o;
    struct fb_error e = {0};
    struct unpack_result r;
    cli_init_options(&o, NULL);
    struct unpack_request q = {argument[0], argument[1], o.progress, o.interrupted, NULL};
    rc = unpack_run(&q, &r, &e);
    int code = rc < 0 ? cli_fail(&e) : r.damaged ? EXIT_DAMAGED : r.refused ? EXIT_PARTLY : EXIT_DONE;
    if (rc == 0 && c.json)
        print_json(&r);
    else if (rc == 0)
        print_line(&r);
    if (r.damaged || r.refused)
        talk("fullbore: %llu damaged and %llu refused:\n", (unsigned long long)r.damaged, (unsigned long long)r.refused);
    talk_lines(r.list);
    unpack_free(&r);
    return code;
}

const struct verb verb_unpack = {
    .name = "unpack",
    .usage = "PACK DIR [--json]",
    .summary = "write the files of a pack back into a folder, byte for byte; never outside of it, never over existing files",
    .examples = "  fullbore unpack photos.tar photos/                       what 'fullbore pack photos/ -o photos.tar' took\n"
                "  fullbore unpack 'train-{000000..000012}.tar' train/      all shards of a set\n",
    .options = options,
    .run = run,
};
