/* A recording of a watched run (.fbr): append-only blocks, each with its length and checksum. A torn tail is left out; what stands before
 * it is whole. A file of a newer version is refused in words.
 *
 *     file   = "FBR1" u32 version  block*
 *     block  = u32 kind  u32 bytes  u64 xxh3 of the payload  payload
 *     kinds    1 facts (struct run_facts; the last one counts, later versions only append to it), 2 snapshot (a row of doubles; of an older
 *              version: a shorter one), 3 marks (whole struct mark); others are skipped
 *
 * All numbers are little-endian.
 */
#ifndef FB_METER_RECORDING_H
#define FB_METER_RECORDING_H

#include "base/error.h"
#include "meter/marks.h"
#include "model/snapshot.h"

struct recording_writer;
int recording_create(struct recording_writer **w, const char *path, struct fb_error *e);
void recording_add(struct recording_writer *w, const struct snapshot *s);         /* an error is kept for close */
void recording_mark(struct recording_writer *w, const struct mark *m, int count); /* at_ns since watching began */
/* What is known so far; a run that is killed later keeps it. */
void recording_note(struct recording_writer *w, const struct run_facts *facts);
/* Writes the facts once more and closes. */
int recording_close(struct recording_writer *w, const struct run_facts *facts, struct fb_error *e);

enum { RECORDING_MARKS_MOST = 4 << 20 }; /* later ones are left out */
struct recording {
    struct series series;
    struct run_facts facts;
    struct mark *mark; /* in the order of writing; NULL: the loop told nothing */
    uint64_t marks, mark_capacity;
    uint64_t lost_bytes; /* of a torn or damaged tail */
};
int recording_read(struct recording *r, const char *path, struct fb_error *e);
void recording_free(struct recording *r);

#endif
