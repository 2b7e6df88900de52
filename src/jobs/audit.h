/* The audit job: joins the logs of all ranks and restarts, and proves what each epoch was.
 *
 * A stream is what belongs together: the same samples, seed and kind of order. Its stretches are sorted by the time they began. A restart
 * goes back to a state, so it takes back what was handed out beyond that position before it: by the same rank, or by a world of another
 * size. What remains must hold every position of the epoch once, with the sample that the order has there, and every sample once; what was
 * handed out again must have had the same bytes; and a sample must have been read from the same bytes in every epoch.
 *
 * Not proved: epochs of weighted and given orders hold each position once, but which samples that makes only the program knows.
 */
#ifndef FB_JOBS_AUDIT_H
#define FB_JOBS_AUDIT_H

#include "jobs/audit/audit_log.h"

enum { AUDIT_MOST_PROBLEMS = 64, AUDIT_MOST_REDRAWS = 256 }; /* named; the rest is counted */

enum audit_verdict { AUDIT_PROVED, AUDIT_UNFINISHED, AUDIT_ABANDONED, AUDIT_BROKEN };

struct audit_epoch {
    uint64_t epoch;
    enum audit_verdict verdict;
    uint64_t handed_out; /* positions, once each */
    uint64_t replayed;   /* handed out again after a restart */
    uint64_t repeats;    /* fill up a last batch smaller than the world */
    uint64_t redraws;    /* bad samples replaced */
    uint64_t skipped, dropped, missing;
    uint64_t reached;  /* unfinished and abandoned ones: every position below was handed out */
    uint64_t furthest; /* and so far came the fastest rank */
    uint32_t slowest_rank;
    uint64_t problems;
    uint64_t digest; /* of positions, samples and contents: equal for equal epochs */
};

struct audit_problem {
    uint64_t stream, epoch;
    int64_t position; /* -1: of the whole epoch */
    char what[400];
};

struct audit_redraw {
    uint64_t stream, epoch, position, sample, stand_in;
    const char *key; /* of the bad one; NULL: its log does not say. The set's */
};

/* A stretch of one log. */
struct audit_part {
    const struct audit_log *log;
    const struct audit_stretch *stretch;
    uint64_t limit_epoch, limit_position; /* what it handed out from here on was taken back */
};

struct audit_stream {
    uint64_t fingerprint, samples, seed;
    enum order_kind order;
    uint64_t block, window;
    struct audit_part *part; /* by the time they began */
    uint64_t parts;
    uint64_t logs, ranks, restarts; /* logs of it; largest world; how often rank 0 was started again */
    bool has_skips;
    bool has_many_configs; /* transforms changed on the way: other pixels are to be expected */
    struct audit_epoch *epoch;
    uint64_t epochs;
};

/* All logs of a directory. */
struct audit_set {
    struct audit_log *log;
    uint64_t logs, torn, damaged, empty;
    struct audit_stream *stream;
    uint64_t streams;
    struct audit_problem problem[AUDIT_MOST_PROBLEMS];
    uint64_t problems;
    struct audit_redraw redraw[AUDIT_MOST_REDRAWS];
    uint64_t redraws;
};

/* What an epoch had, by position; freed by audit_table_free. */
struct audit_table {
    uint64_t count;
    uint8_t *flags;
    uint64_t *sample;
    uint32_t *content;
};

enum audit_flag { AUDIT_SEEN = 1, AUDIT_KNOWN = 2 /* handed out, though perhaps taken back */, AUDIT_STAND_IN = 4, AUDIT_LEFT_OUT = 8 };

/* audit_join.c: reads all logs of `dir`. FB_E_NOT_FOUND: no logs there. */
int audit_join(struct audit_set *s, const char *dir, struct fb_error *e);
void audit_free(struct audit_set *s);
void audit_note_problem(struct audit_set *s, uint64_t stream, uint64_t epoch, int64_t position, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* audit_prove.c: proves all epochs of all streams. */
int audit_prove(struct audit_set *s, int (*interrupted)(void *), void *ctx, struct fb_error *e);
/* True: nothing is wrong with any epoch or log. */
bool audit_is_proved(const struct audit_set *s);
/* What epoch `epoch` of the stream had. */
int audit_read_epoch(const struct audit_stream *s, uint64_t epoch, struct audit_table *t, struct fb_error *e);
void audit_table_free(struct audit_table *t);

/* audit_compare.c: where do two sets differ first? */
struct audit_difference {
    bool is_different;
    uint64_t compared; /* samples found equal */
    char what[600];
};
int audit_compare(const struct audit_set *a, const struct audit_set *b, struct audit_difference *d, struct fb_error *e);

#endif
