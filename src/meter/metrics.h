/* Every figure that the statistics of a loader have, as one table: where it stands in stats(), its full name for monitoring systems, its
 * unit, whether it may fall, and one sentence about it. Whatever shows figures reads them from a struct metrics by this table, and
 * docs/statistics.md is written from it (tools/make_statistics.py).
 *
 * Figures are known by their paths, so a new one is a row here and a line where it is counted. Values are doubles: counts are exact up to
 * 2^53. Lists (of functions, of bad samples), names and reasons are not figures.
 */
#ifndef FB_METER_METRICS_H
#define FB_METER_METRICS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text/json_writer.h"

enum { METRIC_COUNT = 135 };

enum metric_unit { UNIT_NUMBER, UNIT_BYTES, UNIT_SECONDS, UNIT_RATIO, UNIT_PER_SECOND };

struct metric_row {
    const char *path; /* in stats(): "samples", "io.reads", "stages.decode.items" */
    const char *name; /* without the prefix "fullbore_". A figure that stats() has twice has one name; metrics() shows the later row */
    enum metric_unit unit;
    bool is_counter; /* never falls while the loader is open; else a gauge */
    const char *help;
};
extern const struct metric_row metric_table[METRIC_COUNT];

/* The figures at one moment; NaN: there is none, as those of a cache without a cache. */
struct metrics {
    double value[METRIC_COUNT];
    int last; /* row that was set last: setting figures in the order of the table finds each at once */
};
void metrics_clear(struct metrics *m);
void metrics_set(struct metrics *m, const char *path, double value);
void metrics_set_ns(struct metrics *m, const char *path, uint64_t ns); /* a figure in seconds */
double metrics_get(const struct metrics *m, const char *path);         /* NaN: there is none */

/* Appends the figures directly under a path ("": at the top) to a JSON object that is open. */
void metrics_put(struct json_writer *w, const struct metrics *m, const char *under);
/* An object "regions" with the figures under it; nothing if there are none at the moment. */
void metrics_put_object(struct json_writer *w, const struct metrics *m, const char *path);
/* An array "stages" of objects, each with its name. */
void metrics_put_stages(struct json_writer *w, const struct metrics *m);
/* The table itself: [{"path":..,"name":..,"unit":..,"kind":..,"help":..}, ...] */
void metrics_describe(struct json_writer *w);

#endif
