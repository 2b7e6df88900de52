/* A flight: one attempt at a task on the wire; and what follows from its answer. */
#ifndef FB_IO_S3_LOOP_S3_FLIGHT_H
#define FB_IO_S3_LOOP_S3_FLIGHT_H

#include "io/s3/loop/curl_dynlib.h"
#include "io/s3/loop/s3_loop.h"
#include "io/s3/s3_xml.h"

struct s3_sender;

enum { S3_ERROR_BYTES = 4096, S3_MOST_HEADERS = 8 };

struct s3_flight {
    CURL *easy;
    struct s3_task *task;
    bool is_hedge, is_lost;        /* lost: the task has another one, or none any more; what still comes is dropped */
    bool is_judged, is_enough;     /* enough: all that was wanted has come, the rest is not */
    uint32_t cost;                 /* of the window */
    uint64_t started_ns, first_ns; /* first_ns 0: nothing has come */
    struct s3_answer answer;
    enum s3_verdict verdict;
    const char *why;
    uint64_t skip, body, got; /* bytes to pass over, to take, taken */
    char error_text[S3_ERROR_BYTES];
    size_t error_length;
    uint32_t keys; /* generation of those that signed it; 0: none did */
    struct text url, authorization;
    char date[40], range[64], if_match[160];
    struct curl_slist header[S3_MOST_HEADERS]; /* nodes of our own: nothing is copied, the token stays where it is */
    const struct s3_sender *sender;
    struct s3_flight *before, *after; /* among those without a first byte, oldest first; or `after` alone among free and lost ones */
    bool is_listed, is_flying;
};

/* What the loop lends to a flight. */
struct s3_sender {
    const struct s3_place *place;
    struct s3_keys *keys; /* NULL: anonymous */
    int64_t now_s;        /* by the server's clock */
    const struct s3_options *options;
    struct text *path, *work; /* work is secret memory: a token stands in what is signed */
    /* Calls from the wire, on the loop's thread, inside libcurl. */
    void (*first_byte)(void *loop, struct s3_flight *f);
    void (*takes)(void *loop, struct s3_flight *f); /* its head is good: the task is its own from now on */
    int (*closes)(void *loop, curl_socket_t fd);
    void *loop;
    bool *is_near; /* the endpoint, or the proxy to it, is at an address of this machine or its link */
};

/* NULL: no memory. */
struct s3_flight *s3_flight_new(const struct s3_sender *s);
void s3_flight_free(struct s3_flight *f);
/* Makes the easy handle ready for the task. False: no memory. */
bool s3_flight_prepare(struct s3_flight *f, struct s3_task *t, const struct s3_sender *s, bool is_hedge);

/* ---- what follows (s3_outcome.c) ---- */

enum s3_next {
    S3_NEXT_DONE,     /* the task is over; its results are filled in */
    S3_NEXT_AGAIN,    /* after a while */
    S3_NEXT_SLOWER,   /* after a while, and fewer at once: the server says so */
    S3_NEXT_CLOCK,    /* at once, by the server's clock */
    S3_NEXT_KEYS,     /* with new keys */
    S3_NEXT_REGION,   /* at once, in the region `region` */
    S3_NEXT_REDIRECT, /* at once, elsewhere, without keys */
    S3_NEXT_FAIL
};

struct s3_outcome {
    enum s3_next next;
    char region[S3_REGION_BYTES];
    char code[64]; /* the server's word: "SlowDown" */
};

/* Judges a flight that is over. Words about a failure go to `e` (cleared before), also for those that are tried again. */
void s3_flight_outcome(struct s3_flight *f, CURLcode code, const struct s3_place *p, struct s3_outcome *out, struct fb_error *e);

#endif
