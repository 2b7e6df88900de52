/* How many requests are in flight: as many as still add throughput, fewer when the server says that it is too much.
 *
 *   start    the first answer tells how far away the server is: the window becomes what a server of eight answers per millisecond would
 * want;
 *            from then on it grows by one per answer (doubles per round trip) until that makes answers later rather than more; by large
 * ranges
 *            of a server nearby it grows slowly, for a few of them fill the line
 *   steady   now and then a round with a quarter more or a seventh less; whichever pays stays
 *   backed off (503, 429)   half of it, at most once per half second, then back by one per round up to just below where it was too much
 *
 * A round counts only if the window was full: a consumer that wants less says nothing about the server. Pure: time comes in as an argument.
 */
#ifndef FB_IO_S3_LOOP_S3_PACE_H
#define FB_IO_S3_LOOP_S3_PACE_H

#include <stdbool.h>
#include <stdint.h>

enum s3_pace_phase { S3_PACE_START, S3_PACE_STEADY, S3_PACE_UP, S3_PACE_DOWN };

struct s3_pace {
    double window, most;
    bool is_fixed;
    enum s3_pace_phase phase;
    uint64_t round_ns;          /* when the round began; 0: with the next answer */
    double round_window;        /* the window then */
    uint64_t answers, not_full; /* of the round, by what they took of the window */
    uint64_t nearest_ns;        /* the soonest first byte so far; 0: none */
    double work, wait_ns;       /* bytes, and what a request costs beside them; sum of the times to the first byte */
    double base_rate, base_wait_ns, base_window;
    int rested, rest, tries; /* steady rounds since the last try, and how many there should be; tries up and down take turns */
    uint64_t backed_off_ns;
    double ceiling; /* where it was too much; 0: never */
};

/* fixed > 0: that many, whatever happens. */
void s3_pace_open(struct s3_pace *p, uint32_t most, uint32_t fixed);
uint32_t s3_pace_window(const struct s3_pace *p);
/* What a request takes of the window: one, and one more per 2 MiB, so that a few large ranges fill it. */
uint32_t s3_pace_cost(uint64_t bytes);
/* An answer came; `is_full`: the window was used up when it did. */
void s3_pace_answer(struct s3_pace *p, uint64_t bytes, uint64_t first_byte_ns, bool is_full, uint64_t now_ns);
void s3_pace_back_off(struct s3_pace *p, uint64_t now_ns);

#endif
