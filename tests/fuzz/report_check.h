/* What a report promises whatever the recording holds: words and page steer no terminal, JSON is JSON, nothing shows as nan or inf. */
#ifndef FB_TESTS_FUZZ_REPORT_CHECK_H
#define FB_TESTS_FUZZ_REPORT_CHECK_H

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/report.h"

/* The page names it; the engine, which has it, is not linked. */
const char *fb_version(void)
{
    return "of a test";
}

static void refuse_report(const char *why, const char *text)
{
    fprintf(stderr, "%s: %.2000s\n", why, text);
    abort();
}

static void check_harmless(const char *text)
{
    struct text shown = {.limit = 64 << 20};
    text_show_lines(&shown, text);
    if (strcmp(shown.data ? shown.data : "", text) != 0)
        refuse_report("steers a terminal", text);
    text_free(&shown);
}

/* A word by itself, where a number should be: neither "financed" nor a name in quotes. */
static void check_numbers(const char *text)
{
    static const char *const words[] = {"nan", "inf"};
    for (int i = 0; i < 2; i++)
        for (const char *at = text; (at = strstr(at, words[i])); at += 3)
            if ((at == text || at[-1] == ' ' || at[-1] == '-' || at[-1] == '>' || at[-1] == '"') && !isalnum((unsigned char)at[3]))
                refuse_report("shows what is no number", at - (at - text > 80 ? 80 : at - text));
}

static void check_words(const char *const *recordings, int count, bool has_names)
{
    struct text out = {.limit = 64 << 20};
    struct fb_error e = {0};
    uint64_t lost;
    if (report_run(recordings, count, NULL, false, &out, &lost, &e) == 0 && out.data) {
        check_harmless(out.data);
        if (!has_names)
            check_numbers(out.data);
    }
    text_free(&out);
}

static void check_json(const char *const *recordings, int count)
{
    struct text out = {.limit = 64 << 20};
    struct fb_error e = {0};
    uint64_t lost;
    if (report_run(recordings, count, NULL, true, &out, &lost, &e) == 0) {
        json_error_t why;
        json_t *parsed = json_loads(out.data, JSON_DISABLE_EOF_CHECK, &why);
        if (!parsed && !strstr(out.data, "\\udc")) /* jansson refuses lone surrogates, which stand for bytes that are no UTF-8 */
            refuse_report(why.text, out.data);
        json_decref(parsed);
        check_harmless(out.data);
    }
    text_free(&out);
}

static void check_page(const char *const *recordings, int count, const char *page, bool has_names)
{
    struct fb_error e = {0};
    uint64_t lost;
    if (report_run(recordings, count, page, false, NULL, &lost, &e) < 0)
        return;
    FILE *f = fopen(page, "re");
    char *text = calloc(1, (4 << 20) + 1);
    if (!f || !text || fread(text, 1, 4 << 20, f) == 0)
        abort();
    fclose(f);
    check_harmless(text);
    char *body = strstr(text, "</style>");
    if (!has_names && body)
        check_numbers(body);
    for (const char *at = text; (at = strstr(at, "class=\"v\">")); at += 10) {
        json_t *parsed = json_loads(at + 10, JSON_DISABLE_EOF_CHECK, NULL);
        if (!parsed)
            refuse_report("a chart's values are not JSON", at);
        json_decref(parsed);
    }
    free(text);
}

/* `has_names`: the recording's own texts may hold anything, "nan" among them. */
static void check_report(const char *recording, const char *page, bool has_names)
{
    const char *both[2] = {recording, recording};
    for (int count = 1; count <= 2; count++) {
        check_words(both, count, has_names);
        check_json(both, count);
        check_page(both, count, page, has_names);
    }
}

#endif
