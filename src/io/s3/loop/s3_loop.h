/* The S3 loop: one thread (fb-s3), one libcurl multi handle, many requests in flight.
 *
 * A *task* is one question to the bucket and stays the caller's memory until its done is called, once, on the loop's thread. It is answered
 * by *flights*: attempts, each an easy handle with a connection. A failed flight is followed by another after a while, on a new
 * connection; a late one gets a second beside it, and whichever gets a good head first is the task's, so only one of them ever writes into
 * its memory.
 *
 *   submit -> pending -> flight(s) -> done
 *                ^          |
 *                +- waiting-+   (retry: full jitter, Retry-After)
 *
 * Sockets are watched by epoll rather than by curl_multi_perform, whose cost per event grows with the number of transfers.
 *
 * Safety: submit, figures and close from any thread; everything else is the loop's. In a forked child only close may be called, and does
 * nothing.
 */
#ifndef FB_IO_S3_LOOP_S3_LOOP_H
#define FB_IO_S3_LOOP_S3_LOOP_H

#include "base/log.h"
#include "io/s3/s3_answer.h"
#include "io/s3/s3_place.h"

enum { S3_PART_BYTES = 8 << 20, S3_MOST_IN_FLIGHT = 1024 };
enum { S3_IS_TOO_LARGE = 1, S3_HAS_NO_RANGES = 2 }; /* positive statuses of a task */

struct s3_options {
    uint32_t most;  /* in flight */
    uint32_t fixed; /* 0: as many as pay, up to `most` */
    int attempts;   /* per task */
    double stall_s; /* slower than stall_bytes per second for so long: given up, tried again */
    uint64_t stall_bytes;
    bool has_no_hedges;
};

struct s3_flight;

struct s3_task {
    /* in: constant until done */
    const char *key; /* of the object; "" with a query: the bucket */
    const struct s3_pair *query;
    int query_count;
    struct s3_wanted wanted; /* .pin is looked at whenever an attempt begins and whenever an answer comes */
    uint8_t *to;             /* wanted.room bytes; NULL: into `body` */
    struct text *body;
    bool goes_first;                 /* before tasks that do not, while it waits for its turn */
    void (*done)(struct s3_task *t); /* must not block */
    void *owner;

    /* out */
    int status; /* 0, S3_IS_TOO_LARGE, S3_HAS_NO_RANGES, or FB_E_* with `error` */
    uint64_t got;
    struct s3_version version; /* of what was taken; size S3_UNKNOWN: not told */
    struct fb_error *error;    /* the caller's record; may be NULL */

    /* the loop's */
    struct s3_task *next;
    struct s3_flight *flight[2];
    int attempts, redirects;
    uint64_t due_ns;
    char *redirect; /* a URL to ask instead, without credentials; NULL: none */
    bool wants_new_connection;
};

struct s3_loop_figures {
    uint64_t turns; /* of the thread */
    uint64_t requests, retries, hedges, hedges_won, slow_downs;
    uint32_t window, in_flight;
};

struct s3_loop;

/* Finds endpoint and credentials and starts the thread. `o` is copied. */
int s3_loop_open(struct s3_loop **out, const char *url, const struct s3_options *o, const struct log *log, struct fb_error *e);
const struct s3_place *s3_loop_place(const struct s3_loop *l); /* bucket and prefix: they never change */
/* Refused (FB_E_STATE through done) once the loop is closing. */
void s3_loop_submit(struct s3_loop *l, struct s3_task *t);
/* Ends everything under way with FB_E_STATE, soon; the loop stays. */
void s3_loop_cancel(struct s3_loop *l);
/* A server was met that sends whole objects when asked for ranges. */
bool s3_loop_ignores_ranges(const struct s3_loop *l);
void s3_loop_figures(struct s3_loop *l, struct s3_loop_figures *f);
/* Tasks under way get done with FB_E_STATE. Returns how many did not within the time: their memory stays the thread's. */
uint32_t s3_loop_close(struct s3_loop *l, uint64_t timeout_ns);

#endif
