/* The audit: with FULLBORE_AUDIT=DIR every loader logs what was really decoded into the places of its batches.
 *
 * A worker that has filled a place takes a digest of it and of the bytes it came from, and leaves both beside the load with the sample it
 * worked on; when the batch is handed out they are written, and some of the places are compared once more. Nothing comes from the plan:
 * what was not decoded is not in the log. `fullbore audit DIR` reads the logs. Without the variable there is no audit (NULL), and nothing
 * is done.
 *
 * Cost when on: a digest of each place on the worker, one of up to 16 MiB per batch on the consumer's thread, one write of about 10 bytes
 * per sample. Logs are written to the page cache, not forced to disk: they survive the process, not the machine.
 */
#ifndef FB_FEED_AUDIT_WRITER_H
#define FB_FEED_AUDIT_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct audit;
struct feed;
struct load;
struct slot;

/* What was decoded into a place; kept with the load that has the place's number. */
struct audit_proof {
    uint64_t sample, position;
    uint32_t content, attempt;
    uint16_t source;
    bool is_there;
};

/* By the environment; *f->audit stays NULL without it. FB_E_IO...: the directory cannot be written, which must not go unnoticed. */
int audit_open(struct feed *f, const fb_options *o, struct fb_error *e);
void audit_close(struct feed *f);

/* A stretch of batches begins: f->live. Consumer's thread, without the lock. */
void audit_run(struct feed *f);
/* The stretch ends: "done", "failed". One that another interrupts is "left". */
void audit_end(struct feed *f, const char *why);
/* Nothing is known of the slot's places yet. The planner's, before the loads go. */
void audit_prepare(struct feed *f, struct slot *s);
/* A worker has filled the load's place from these bytes, all of the file's (NULL: not known). */
void audit_placed(struct feed *f, const struct load *l, const void *bytes, size_t n);
/* The same for a place filled by a row, which the place itself names; before it, if that is a stand-in, which one. */
void audit_row(struct feed *f, const struct slot *s, uint32_t place);
void audit_row_attempt(const struct slot *s, uint32_t place, uint32_t attempt);
/* A sample (of the selection) was bad. Any thread. */
void audit_bad(struct feed *f, uint64_t epoch, uint64_t sample, const char *key, const char *cause);
/* A batch is handed out. Consumer's thread, without the lock. */
void audit_delivered(struct feed *f, const struct slot *s);

#endif
