/* The parts of the page. Everything that came from outside (names) goes through page_escape. */
#ifndef FB_JOBS_REPORT_REPORT_PAGE_H
#define FB_JOBS_REPORT_REPORT_PAGE_H

#include "diagnose/verdict.h"
#include "monitor/loop_marks.h"
#include "meter/recording.h"

struct report_side {
    const char *path;
    struct recording recording;
    struct verdict verdict;
    struct loop_summary loop; /* what the program told of its loop */
    bool has_loop;
};

void page_escape(struct text *t, const char *s);
void page_begin(struct text *t, const char *title);
void page_end(struct text *t);
void page_verdict(struct text *t, const struct report_side *s, const char *name); /* name: "A" or "B" of two, "" of one */
/* What the verdict means, in a sentence. */
void page_sentence(struct text *t, const struct verdict *v);
/* A bar: where the main thread's steady time went. Nothing, if that is not known. */
void page_shares(struct text *t, const struct report_side *s);
void page_evidence(struct text *t, const struct report_side *s);
void page_remedies(struct text *t, const struct report_side *s);
/* Steps and epochs, when the program told them; else nothing. */
void page_loop(struct text *t, const struct report_side *s);
void page_timelines(struct text *t, const struct report_side *s, const char *prefix);
void page_comparison(struct text *t, const struct report_side *a, const struct report_side *b);

/* Rows of the comparison, for text too. */
enum { COMPARISON_ROWS = 40 };
struct comparison_row {
    char name[32];
    const char *unit;
    double a, b;
    int digits;
    int better; /* 1: more is, -1: less is, 0: neither by itself */
};
int compare_rows(const struct report_side *a, const struct report_side *b, struct comparison_row *row, int most);

#endif
