/* When is a request late enough that a second one is worth it? When its first byte takes more than twice what 19 of 20 take. At most one
 * in 25 requests is sent twice, however slow the server is: a bucket of tokens fills by 0.04 per answer and holds 16.
 *
 * The quantile comes from a histogram with four steps per power of two, halved now and then so that it follows. Pure.
 */
#ifndef FB_IO_S3_LOOP_S3_HEDGE_H
#define FB_IO_S3_LOOP_S3_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

enum { S3_HEDGE_STEPS = 128 };

struct s3_hedge {
    bool is_off;
    uint32_t count[S3_HEDGE_STEPS], total;
    double tokens;
    uint64_t late_ns; /* kept up to date */
};

void s3_hedge_open(struct s3_hedge *h, bool is_off);
/* An answer's first byte came after so long, or had not come when its request was given up. */
void s3_hedge_note(struct s3_hedge *h, uint64_t first_byte_ns);
/* How long a request waits before it is late; UINT64_MAX: for ever. */
uint64_t s3_hedge_late_ns(const struct s3_hedge *h);
/* May one be sent twice now? Takes a token. */
bool s3_hedge_take(struct s3_hedge *h);

#endif
