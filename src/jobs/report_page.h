/* The parts of the page. Everything that came from outside (names) goes through page_escape. */
#ifndef FB_JOBS_REPORT_PAGE_H
#define FB_JOBS_REPORT_PAGE_H

#include "diagnose/verdict.h"
#include "meter/recording.h"

struct report_side {
    const char *path;
    struct recording recording;
    struct verdict verdict;
};

void page_escape(struct text *t, const char *s);
void page_begin(struct text *t, const char *title);
void page_end(struct text *t);
void page_verdict(struct text *t, const struct report_side *s);
void page_evidence(struct text *t, const struct report_side *s);
void page_remedies(struct text *t, const struct report_side *s);
void page_timelines(struct text *t, const struct report_side *s, const char *prefix);
void page_comparison(struct text *t, const struct report_side *a, const struct report_side *b);

/* Rows of the comparison, for text too. */
struct comparison_row {
    const char *name, *unit;
    double a, b;
    int digits;
    bool lower_is_better;
};
int compare_rows(const struct report_side *a, const struct report_side *b, struct comparison_row *row, int most);

#endif
