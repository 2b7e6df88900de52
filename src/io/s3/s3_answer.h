/* What a server answered, and whether its body may be used. Pure; headers are hostile.
 *
 * The rules that keep versions apart: an answer names its version (ETag; without one the time it was modified); a read that has begun is
 * bound to one, and no byte of another is taken, whether or not the server honours If-Match. A range is taken only if the answer says
 * which bytes it holds (Content-Range, with 206 or 200 alike), and only if those are the ones asked for. A body that is longer or shorter
 * than announced is never used.
 */
#ifndef FB_IO_S3_S3_ANSWER_H
#define FB_IO_S3_S3_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define S3_ALL UINT64_MAX     /* length: no range */
#define S3_UNKNOWN UINT64_MAX /* sizes */

struct s3_version {
    char etag[128];     /* as sent, quotes and all; "" : none, or too long to be sent back */
    uint64_t etag_hash; /* without quotes and W/; 0: none */
    int64_t modified_s; /* -1: not told */
    uint64_t size;      /* S3_UNKNOWN: not told */
};

struct s3_answer {
    int status; /* 0: none yet */
    uint64_t content_length;
    bool is_chunked, has_range;
    uint64_t range_first, range_last, range_total;
    struct s3_version version;
    int64_t date_s;
    int retry_after_s; /* -1: not told */
    char region[64], location[1024];
};

void s3_answer_clear(struct s3_answer *a);
/* One line of the head, with or without its line end. A status line begins anew. */
void s3_answer_line(struct s3_answer *a, const char *line, size_t n);

/* The hash of an ETag as listings and answers have it; 0: there is none. */
uint64_t s3_etag_hash(const char *etag, size_t n);
/* A version as a time; see model/store_ops.h. `expected` (0: none) is returned if it is that version. */
int64_t s3_version_mtime_ns(const struct s3_version *v, int64_t expected);
bool s3_version_is(const struct s3_version *v, int64_t expected_mtime_ns);
/* Both are known to be different; a version that cannot be told from others is never the same. */
bool s3_version_differs(const struct s3_version *a, const struct s3_version *b);

struct s3_wanted {
    uint64_t offset, length; /* length S3_ALL: the whole */
    uint64_t room;           /* bytes that can be taken */
    const struct s3_version *pin;
    uint64_t expected_size;    /* of the object; S3_UNKNOWN: not known */
    int64_t expected_mtime_ns; /* 0: not known */
    bool must_match, may_skip; /* only the expected version; the start of a whole object may be skipped to get at a range */
};

enum s3_verdict {
    S3_TAKE,       /* skip `skip` bytes, then take `body` (S3_UNKNOWN: to its end, which is certain) */
    S3_ERROR_BODY, /* the body says what is wrong */
    S3_NOTHING,    /* a range beyond the end */
    S3_CHANGED,    /* another version */
    S3_TOO_LARGE,  /* version.size says how large */
    S3_NO_RANGES,  /* the whole object comes instead of a range */
    S3_NONSENSE    /* contradicts itself or what was asked: `why` */
};

enum s3_verdict s3_answer_judge(const struct s3_answer *a, const struct s3_wanted *w, uint64_t *skip, uint64_t *body, const char **why);

#endif
