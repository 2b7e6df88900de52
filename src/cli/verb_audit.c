/* fullbore audit DIR [DIR2]: what the logs of FULLBORE_AUDIT prove. */
#include <stdio.h>

#include "cli/cli.h"
#include "jobs/audit_text.h"

struct audit_options {
    bool json;
};

static const struct option options[] = {
    {"json", OPTION_FLAG, offsetof(struct audit_options, json), .help = "one JSON object on stdout"},
    {0},
};

static int prove(struct audit_set *s, const char *dir, const fb_options *o, struct fb_error *e)
{
    FB_TRY(audit_join(s, dir, e));
    return audit_prove(s, o->interrupted, o->ctx, e);
}

static int judge(struct audit_set *set, const char *const *dir, int count, const fb_options *o, struct audit_difference *d,
                 struct fb_error *e)
{
    for (int i = 0; i < count; i++)
        FB_TRY(prove(&set[i], dir[i], o, e));
    return count == 2 ? audit_compare(&set[0], &set[1], d, e) : 0;
}

static void print(const struct audit_set *set, const char *const *dir, int count, const struct audit_difference *d, bool is_json)
{
    struct text t = {.limit = 64 << 20};
    char shown[512];
    if (is_json) {
        audit_json(&set[0], count == 2 ? &set[1] : NULL, d, &t);
    } else {
        for (int i = 0; i < count; i++) {
            if (count == 2)
                text_printf(&t, "%s:\n", text_escape(dir[i], shown, sizeof(shown)));
            audit_print(&set[i], &t);
        }
        if (count == 2)
            audit_print_difference(d, &t);
    }
    say_lines(t.data ? t.data : "");
    text_free(&t);
}

static int count_dirs(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++)
        count += argv[i][0] != '-';
    return count < 1 ? 1 : count > 2 ? 2 : count;
}

static int run(int argc, char **argv, uint64_t started_ns)
{
    (void)started_ns;
    static struct audit_set set[2]; /* large */
    struct audit_options c = {0};
    const char *dir[2] = {NULL, NULL};
    int count = cli_parse(&verb_audit, argc, argv, &c, dir, count_dirs(argc, argv));
    if (count < 0)
        return -1 - count;
    fb_options o;
    struct fb_error e = {0};
    struct audit_difference d = {0};
    cli_init_options(&o, NULL);
    int rc = judge(set, dir, count, &o, &d, &e), code = EXIT_DONE;
    if (rc < 0) {
        code = cli_fail(&e);
    } else {
        print(set, dir, count, &d, c.json);
        bool is_good = audit_is_proved(&set[0]) && (count == 1 || audit_is_proved(&set[1])) && !d.is_different;
        code = is_good ? EXIT_DONE : EXIT_DAMAGED;
    }
    for (int i = 0; i < count; i++)
        audit_free(&set[i]);
    return code;
}

const struct verb verb_audit = {
    .name = "audit",
    .usage = "DIR [OTHER] [--json]",
    .summary = "prove from the logs of FULLBORE_AUDIT that each sample came once, or compare two runs",
    .examples = "  FULLBORE_AUDIT=logs torchrun ... train.py     every loader of every rank logs what it decoded\n"
                "  fullbore audit logs                           join ranks and restarts, prove each epoch; exit code 3: not proved\n"
                "  fullbore audit logs other                     the first difference between two runs; exit code 3: there is one\n",
    .options = options,
    .run = run,
};
