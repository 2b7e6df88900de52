/* Charts as inline SVG: stacked areas or lines over time. */
#ifndef FB_JOBS_REPORT_REPORT_CHART_H
#define FB_JOBS_REPORT_REPORT_CHART_H

#include "base/text/json_writer.h"
#include "model/snapshot.h"

enum { CHART_LAYERS = 6 };

struct chart_layer {
    const char *name;
    int colour;                                  /* 1..8: a variable of the page's style */
    double (*value)(const struct snapshot *row); /* NAN: a gap */
};

struct chart {
    const char *id, *title, *unit;
    double scale; /* values are multiplied by it for the axis */
    double top;   /* of the axis; 0: the largest value */
    bool is_stacked;
    struct chart_layer layer[CHART_LAYERS];
    int layers;
};

/* False: there is no value at all, and nothing was drawn. from_s: end of the warm-up, shaded; to_s: end of the steady part. */
bool chart_draw(struct text *t, const struct chart *c, const struct series *s, double from_s, double to_s);

#endif
