/* Reading only the part of a large file that a region needs.
 *
 * When a record of the file is known (JPEG checkpoints), it tells where the header ends and, once the header has told what is to be
 * decoded, which bytes hold that. So such a load is read twice, first its head, then the range, each to where it belongs in a buffer for
 * the whole; the decoder is told that the rest is missing. Whatever does not fit (no record, a changed file, a range that is most of the
 * file, a decoder that wants more) makes it an ordinary load again. Small files are never worth it.
 */
#ifndef FB_FEED_SINGLE_PARTIAL_READ_H
#define FB_FEED_SINGLE_PARTIAL_READ_H

#include "feed/single/single.h"

enum { PART_FROM_BYTES = 256 << 10 };

/* load_ops.prepare: begins with the head, if a record is known. */
void partial_read_prepare(struct feed *f, struct load *l, struct scratch *known);
/* A worker's, when the head is there: chooses the range, or all. */
void partial_read_choose(struct worker *w, struct feed *f, struct load *l, const uint8_t *bytes);
/* Back to reading all of it. */
void partial_read_give_up(struct load *l);
/* True: the bytes that came do not belong together or are too few; then partial_read_give_up. */
bool partial_read_is_spoilt(const struct load *l);

#endif
