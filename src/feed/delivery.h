/* Delivery: what a consumer waits for a batch, from entering next() to having it in hand; see engine/delivery.c. */
#ifndef FB_FEED_DELIVERY_H
#define FB_FEED_DELIVERY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct feed;
struct slot;

struct delivery {
    pthread_mutex_t lock;
    const struct slot *pending;                                          /* taken, and not yet in the caller's hands; NULL: none */
    uint64_t asked_ns, asked_cpu_ns, taken_ns, ready_ns, samples, bytes; /* of that one */
    uint64_t last_ns;     /* when the last one was in the caller's hands, or the epoch began */
    uint64_t starting_ns; /* what starting the epoch took, until its first batch is taken */
    bool tells_cpu;       /* somebody watches, and wants to know the CPU time inside next() as well; constant */
};

void delivery_open(struct feed *f);
void delivery_begin_epoch(struct feed *f, uint64_t entered_ns, uint64_t batches);
void delivery_end_epoch(struct feed *f);
/* CPU time of the calling thread, if somebody wants to know. */
uint64_t delivery_cpu_ns(const struct feed *f);
/* A batch was taken for a caller who asked at asked_ns. has_start: what starting the epoch took is in there already. */
void delivery_take(struct feed *f, const struct slot *s, uint64_t asked_ns, uint64_t asked_cpu_ns, bool has_start);
/* The caller has it: counted, unless it was before. */
void delivery_done(struct feed *f, const struct slot *s);
void delivery_close(struct feed *f);

#endif
