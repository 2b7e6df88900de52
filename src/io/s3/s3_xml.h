/* A reader for the XML that object stores answer with: elements and text, nothing else.
 *
 * One pass over bytes in memory, no allocation but for a text that is handed out, no entities but the five of XML and numbers, no DTD (an
 * answer with one is refused, so nothing can be expanded), no attributes (skipped), nesting up to S3_XML_DEPTH. Names are given without
 * their namespace prefix. The bytes are hostile.
 */
#ifndef FB_IO_S3_S3_XML_H
#define FB_IO_S3_S3_XML_H

#include <stdbool.h>
#include <stddef.h>

#include "base/text/text.h"

enum { S3_XML_DEPTH = 16, S3_XML_NAME = 64 };

enum s3_xml_event {
    S3_XML_START,  /* an element begins: name */
    S3_XML_END_OF, /* the innermost one ends: its name, and as `text` what stood directly in it */
    S3_XML_OVER,
    S3_XML_BAD /* not what this reader takes; for good */
};

struct s3_xml {
    const char *at, *end;
    int depth;
    bool is_bad, has_root, owes_end, owes_leave;
    char name[S3_XML_DEPTH][S3_XML_NAME]; /* of the open elements; longer names are cut */
    struct text text;                     /* of the innermost element since its last tag */
};

/* `limit`: bytes that a text may have. */
void s3_xml_start(struct s3_xml *x, const char *bytes, size_t n, size_t limit);
enum s3_xml_event s3_xml_next(struct s3_xml *x);
/* The element of the last event, and the one it is in ("" at the root). */
const char *s3_xml_name(const struct s3_xml *x);
const char *s3_xml_parent(const struct s3_xml *x);
/* After S3_XML_END_OF; NUL-terminated, valid until the next call. */
const char *s3_xml_text(const struct s3_xml *x);
void s3_xml_free(struct s3_xml *x);

/* <Error><Code>..</Code><Message>..</Message></Error> into fixed texts, "" where there is none; `region` if it is named. */
struct s3_xml_error {
    char code[64], message[256], region[64];
};
void s3_xml_read_error(struct s3_xml_error *e, const char *bytes, size_t n);

#endif
