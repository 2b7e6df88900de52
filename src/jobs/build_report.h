/* What a build cost and where, in words and as JSON; pure functions of its result. */
#ifndef FB_JOBS_BUILD_REPORT_H
#define FB_JOBS_BUILD_REPORT_H

#include "base/text/json_writer.h"
#include "jobs/build.h"

void build_report_text(const struct build_result *r, const struct build_request *q, struct text *out);
void build_report_json(const struct build_result *r, const struct build_request *q, struct text *out);

/* The change that would gain most, in words, and by how much: the time now over the time then. 1: nothing would help. */
double build_remedy(const struct build_result *r, const struct build_request *q, char *out, size_t out_size);
enum build_stage build_verdict(const struct build_result *r);

#endif
