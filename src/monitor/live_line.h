/* The live line: on a terminal in its last row, else a line of its own now and then. */
#ifndef FB_MONITOR_LIVE_LINE_H
#define FB_MONITOR_LIVE_LINE_H

#include "diagnose/verdict.h"

/* "GPU: 85% | VRAM:12.3/24.0GB(51.2%) | CPU: 45.2% | RAM:18.4/64.0GB(28.8%) | 312W | disk 412MB/s | starved 31%: disk latency".
 * What is not known is left out; the GPU is shown as n/a. */
void watch_line_row(const struct snapshot *row, const struct verdict *v, struct text *out);
/* Of the last row of a series, judged over the last ten seconds. */
void watch_line_text(const struct series *s, const struct run_facts *facts, struct text *out);

struct watch_line {
    bool is_terminal, is_broken, has_region;
    int rows, columns;
    double every_s, last_s;
};
void watch_line_open(struct watch_line *l, double every_s);
void watch_line_resize(struct watch_line *l);
void watch_line_show(struct watch_line *l, double now_s, const struct series *s, const struct run_facts *facts);
/* Makes room for text of several lines. */
void watch_line_close(struct watch_line *l);

#endif
