/* Times as S3 writes them. */
#ifndef FB_IO_S3_S3_TIME_H
#define FB_IO_S3_S3_TIME_H

#include <stdint.h>

enum { S3_STAMP_BYTES = 17 };

/* Seconds since 1970; -1: not such a time. "2009-10-12T17:50:30.000Z"; "Wed, 12 Oct 2009 17:50:30 GMT". */
int64_t s3_time_iso(const char *s);
int64_t s3_time_http(const char *s);
/* "20150830T123600Z" */
void s3_time_stamp(int64_t seconds, char out[S3_STAMP_BYTES]);

#endif
