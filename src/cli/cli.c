#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAY_MOST = 1 << 28 }; /* bytes at once; no list is that long */

/* ---- talking ---- */

static bool vsay_to(FILE *to, const char *format, va_list ap)
{
    struct text t = {.limit = SAY_MOST};
    text_vshow(&t, format, ap);
    bool is_said = !t.failed && (!t.length || fwrite(t.data, t.length, 1, to) == 1);
    text_free(&t);
    return is_said;
}

void say_to(FILE *to, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsay_to(to, format, ap);
    va_end(ap);
}

void say(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsay_to(stdout, format, ap);
    va_end(ap);
}

void talk(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    vsay_to(stderr, format, ap);
    va_end(ap);
}

bool say_lines_to(FILE *to, const char *lines)
{
    struct text t = {.limit = SAY_MOST};
    text_show_lines(&t, lines);
    bool is_said = !t.failed && (!t.length || fwrite(t.data, t.length, 1, to) == 1);
    text_free(&t);
    return is_said;
}

void say_lines(const char *lines)
{
    say_lines_to(stdout, lines);
}

void talk_lines(const char *lines)
{
    if (lines)
        say_lines_to(stderr, lines);
}

void talk_raw(const char *codes)
{
    fputs(codes, stderr);
}

void say_json(struct text *t)
{
    say_lines(t->data && !t->failed ? t->data : "{}");
    say("\n");
    text_free(t);
}

void say_value(struct json_pair value)
{
    struct text t = {.limit = 1 << 20};
    json_put(&(struct json_writer){.out = &t}, value);
    say_json(&t);
}

void talk_list(const char *format, uint64_t count, const char *list)
{
    talk(format, (unsigned long long)count);
    talk_lines(list);
}

/* ---- help ---- */

void cli_print_help(const struct verb *v)
{
    say("usage: fullbore %s ", v->name);
    say_lines(v->usage);
    say("\n\n%s\n\noptions:\n", v->summary);
    for (const struct option *o = v->options; o->name; o++) {
        char left[48];
        snprintf(left, sizeof(left), "--%s%s%s", o->name, o->metavar ? " " : "", o->metavar ? o->metavar : "");
        say("  %-24s %s\n", left, o->help);
    }
    say("  %-24s %s\n\nexamples:\n", "--help", "show this help");
    say_lines(v->examples);
    say("\n");
    say("exit codes: 0 done, 1 failed, 2 usage, 3 data damaged, 4 partly done, 5 threshold not met, 130 interrupted\n");
}

/* ---- arguments ---- */

static int usage_error(const struct verb *v, const struct fb_error *e)
{
    talk("fullbore %s: %s%s%s\n", v->name, e->cause, e->remedy[0] ? "; " : "", e->remedy);
    talk("usage: fullbore %s ", v->name);
    talk_lines(v->usage);
    talk("\nRun 'fullbore %s --help' for details.\n", v->name);
    return -1 - EXIT_USAGE;
}

/* Sets the option at argv[i]; returns how many arguments it took, or a negative code. */
static int set_one(const struct verb *v, int argc, char **argv, int i, void *target, struct fb_error *e)
{
    char name[64];
    const char *text = argv[i] + 2, *equals = strchr(text, '=');
    snprintf(name, sizeof(name), "%.*s", equals ? (int)(equals - text) : (int)strlen(text), text);
    const struct option *o = option_find(v->options, name);
    bool takes_next = o && o->type != OPTION_FLAG && !equals;
    const char *value = equals ? equals + 1 : takes_next && i + 1 < argc ? argv[i + 1] : NULL;
    FB_TRY(option_set(v->options, target, name, value, "usage", NULL, e));
    return takes_next ? 2 : 1;
}

int cli_parse(const struct verb *v, int argc, char **argv, void *target, const char **positional, int most)
{
    int count = 0;
    bool only_positional = false;
    struct fb_error e = {0};
    for (int i = 1; i < argc;) {
        if (!only_positional && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            cli_print_help(v);
            return -1 - EXIT_DONE;
        }
        if (!only_positional && strcmp(argv[i], "--") == 0) {
            only_positional = true;
            i++;
        } else if (!only_positional && strncmp(argv[i], "--", 2) == 0) {
            int taken = set_one(v, argc, argv, i, target, &e);
            if (taken < 0)
                return usage_error(v, &e);
            i += taken;
        } else if (count < most) {
            positional[count++] = argv[i++];
        } else {
            error_set(&e, FB_E_USAGE, "usage", "unexpected argument '%s'", argv[i]);
            return usage_error(v, &e);
        }
    }
    if (count < most) {
        error_set(&e, FB_E_USAGE, "usage", "an argument is missing");
        return usage_error(v, &e);
    }
    return count;
}

/* ---- errors ---- */

bool cli_has_colour(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(STDERR_FILENO) && !(no && no[0]) && !(term && strcmp(term, "dumb") == 0);
}

int cli_fail(const struct fb_error *e)
{
    bool has_colour = cli_has_colour();
    talk("fullbore: ");
    talk_raw(has_colour ? "\x1b[31m" : "");
    if (e->path[0])
        talk("%s: ", e->path);
    if (e->path[0] && e->offset >= 0)
        talk("byte %lld: ", (long long)e->offset);
    talk("%s", e->cause);
    talk_raw(has_colour ? "\x1b[0m" : "");
    talk_raw(e->remedy[0] ? "\n  " : "");
    talk("%s\n", e->remedy);
    switch (e->code) {
    case FB_E_USAGE: return EXIT_USAGE;
    case FB_E_DATA: return EXIT_DAMAGED;
    case FB_E_INTERRUPTED: return EXIT_INTERRUPTED;
    default: return EXIT_FAILED;
    }
}

/* ---- a person at the terminal ---- */

static volatile sig_atomic_t is_interrupted;

static void note_interrupt(int signal_number)
{
    (void)signal_number;
    is_interrupted = 1;
}

static int ask_interrupted(void *ctx)
{
    (void)ctx;
    return is_interrupted;
}

static void show_progress(void *ctx, const struct fb_progress *p)
{
    (void)ctx;
    if (!isatty(STDERR_FILENO))
        return;
    if (p->total)
        talk("\r\x1b[K%s: %llu of %llu", p->what, (unsigned long long)p->done, (unsigned long long)p->total);
    else
        talk("\r\x1b[K%s: %llu", p->what, (unsigned long long)p->done);
    if (p->total && p->done == p->total)
        talk("\r\x1b[K");
}

static void show_log(void *ctx, int level, const char *line)
{
    (void)ctx;
    static const char *const names[] = {"error", "warn", "info", "debug"};
    const char *wanted = getenv("FULLBORE_LOG");
    int most = 1;
    for (int i = 0; wanted && i < 4; i++)
        if (strcmp(wanted, names[i]) == 0)
            most = i;
    if (level <= most)
        talk("fullbore: %s\n", line);
}

void cli_init_options(fb_options *o, const char *source)
{
    struct sigaction a = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND}; /* a second ctrl-C kills */
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    fb_init_options(o);
    o->source = source;
    o->interrupted = ask_interrupted;
    o->progress = show_progress;
    o->log = show_log;
}

void cli_expand_output(int argc, char **argv)
{
    static char output[] = "--output";
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-o") == 0)
            argv[i] = output;
}
