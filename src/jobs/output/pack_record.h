/* One record of a pack: the tar members of one sample, as they stand in the file. */
#ifndef FB_JOBS_OUTPUT_PACK_RECORD_H
#define FB_JOBS_OUTPUT_PACK_RECORD_H

#include "base/text/text.h"
#include "jobs/output/pack_names.h"
#include "model/catalog/catalog.h"

/* Appends the headers of a member: one ustar header, with a pax header (or, for names that are not UTF-8, a GNU one) before it if the name
 * is too long. */
void pack_put_header(struct text *out, const char *name, uint64_t size, int64_t mtime_ns);
/* Zeros up to the next multiple of 512. `from` is the length at which the member's data started. */
void pack_put_padding(struct text *out, size_t from);
/* A whole small member. */
void pack_put_member(struct text *out, const char *name, const char *bytes, size_t n, int64_t mtime_ns);

/* Appends the label members of a sample (STEM.cls, STEM.json). FB_E_DATA: the catalog is damaged. */
int pack_put_labels(struct text *out, const struct catalog *c, uint64_t sample, const char *stem, int64_t mtime_ns, struct fb_error *e);

#endif
