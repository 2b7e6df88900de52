/* What an audit found, for people and for programs. */
#ifndef FB_JOBS_AUDIT_TEXT_H
#define FB_JOBS_AUDIT_TEXT_H

#include "base/text/json_writer.h"
#include "jobs/audit.h"

/* `difference`: NULL, or what a comparison with a second set gave. */
void audit_print(const struct audit_set *s, struct text *out);
void audit_print_difference(const struct audit_difference *d, struct text *out);
/* One object; `other` and `difference` may be NULL. */
void audit_json(const struct audit_set *s, const struct audit_set *other, const struct audit_difference *difference, struct text *out);

#endif
