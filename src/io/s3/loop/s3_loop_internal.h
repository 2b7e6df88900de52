/* The loop's inside, as the files that run it (s3_loop.c) and that decide what goes next (s3_schedule.c) see it. */
#ifndef FB_IO_S3_LOOP_S3_LOOP_INTERNAL_H
#define FB_IO_S3_LOOP_S3_LOOP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/rng.h"
#include "io/s3/keys/s3_credentials.h"
#include "io/s3/loop/s3_flight.h"
#include "io/s3/loop/s3_hedge.h"
#include "io/s3/loop/s3_loop.h"
#include "io/s3/loop/s3_pace.h"
#include "io/s3/loop/s3_sockets.h"

struct s3_loop {
    struct s3_place place;              /* the loop's: may move to another region; bucket and prefix stay */
    struct s3_credentials *credentials; /* NULL: anonymous */
    struct s3_options options;
    struct log log;
    unsigned forks; /* at open */
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t quiet;
    struct s3_task *in_first, *in_last; /* submitted, not yet seen by the loop */
    bool cancels, is_closing, is_abandoned, is_delivering, has_left;
    uint32_t tasks;         /* under way */
    _Atomic bool is_asleep; /* seq_cst with in_first: a submitter that sees false knows that the loop will look again */
    _Atomic bool ignores_ranges;

    /* the loop's own */
    struct s3_sockets sockets;
    struct s3_sender sender;
    bool is_near; /* see s3_sender */
    struct text path, work;
    struct s3_task *pending, *pending_last, *waiting;       /* waiting: by due_ns */
    uint32_t waiting_count, flight_count, cost;             /* cost: of the flights */
    struct s3_flight **all, *free, *lost, *oldest, *newest; /* oldest..newest: no byte yet */
    uint32_t all_count, all_capacity;
    struct s3_pace pace;
    struct s3_hedge hedge;
    uint64_t scheduled_ns; /* when it was last decided what goes next */
    int64_t clock_offset_s;
    int corrections; /* clock and region corrections so far: a server that wants ever another is not followed */
    struct rng rng;

    /* relaxed: figures for people */
    _Atomic uint64_t turns, requests, retries, hedges, hedges_won, slow_downs;
    _Atomic uint32_t window_shown, in_flight_shown;
};

/* Calls from flights. */
void s3_loop_first_byte(void *loop, struct s3_flight *f);
void s3_loop_takes(void *loop, struct s3_flight *f);
int s3_loop_closes(void *loop, curl_socket_t fd);

/* Starts what may start: tasks that were submitted, retries that are due, second flights for late ones. */
void s3_schedule(struct s3_loop *l);
/* When that has to be asked again without anything else happening. */
uint64_t s3_schedule_due_ns(const struct s3_loop *l);
/* Deals with the flights that are over. */
void s3_schedule_answers(struct s3_loop *l);
/* Everything under way is over: FB_E_STATE. */
void s3_schedule_end(struct s3_loop *l);

#endif
