/* The manual page, written from the same tables as --help: `fullbore help --man > fullbore.1`. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* roff reads '\', a leading '.' or ''', and '-' in its own way. */
static void print_text(const char *text)
{
    bool is_line_start = true;
    for (; *text; text++) {
        if (*text == '\\')
            fputs("\\e", stdout);
        else if (*text == '-')
            fputs("\\-", stdout);
        else if (is_line_start && (*text == '.' || *text == '\''))
            printf("\\&%c", *text);
        else
            putchar(*text);
        is_line_start = *text == '\n';
    }
}

static void print_verb(const struct verb *v)
{
    printf(".SS ");
    print_text(v->name);
    printf("\n.B fullbore %s\n", v->name);
    print_text(v->usage);
    printf("\n.PP\n");
    print_text(v->summary);
    printf(".\n");
    for (const struct option *o = v->options; o->name; o++) {
        printf(".TP\n.B \\-\\-");
        print_text(o->name);
        if (o->metavar)
            printf(" \\fI%s\\fR", o->metavar);
        putchar('\n');
        print_text(o->help);
        putchar('\n');
    }
    printf(".PP\nExamples:\n.nf\n");
    print_text(v->examples);
    printf(".fi\n");
}

void cli_print_man(void)
{
    printf(
        ".TH FULLBORE 1 \"\" \"fullbore %s\" \"User Commands\"\n.SH NAME\nfullbore \\- feeds training loops, and says what they wait for\n",
        fb_version());
    printf(".SH SYNOPSIS\n.B fullbore\n.I VERB\n[options]\n.SH VERBS\n");
    for (const struct verb *const *v = verb_list; *v; v++)
        print_verb(*v);
    printf(".SH EXIT STATUS\n0 done, 1 failed, 2 usage, 3 data damaged, 4 partly done, 5 threshold not met, 130 interrupted.\n");
    printf(".SH ENVIRONMENT\n.TP\n.B FULLBORE_LOG\nerror, warn (default), info or debug: how much is printed on standard error.\n");
    printf(".TP\n.B FULLBORE_IO\nthe io back\\-end instead of the automatic choice: uring, pread, ...\n");
    printf(".TP\n.B FULLBORE_SIMD\nc: portable code instead of SIMD.\n");
    printf(".TP\n.B FULLBORE_WATCHDOG\nseconds of waiting before a warning says what it waits for (default 10; 0: never).\n");
    printf(".TP\n.B XDG_CACHE_HOME\nwhere catalogs and learnt records are kept: its folder fullbore (default ~/.cache).\n");
    printf(".TP\n.B NO_COLOR\nno colours.\n");
}
