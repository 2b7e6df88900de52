/* The programs that open HDF5 files for us: at most four fullbore-hdf5, started when first needed, kept, replaced when they misbehave.
 *
 * A request blocks its thread until the answer, the time-out (120 s; FULLBORE_HDF5_TIMEOUT, seconds) or the end of the helper. Any thread;
 * more requests than helpers wait their turn. A child made by fork() has no helpers until it asks for one; its parent's stay the parent's.
 *
 * Safety: the pool's lock covers the table of helpers and nothing that blocks. A busy helper belongs to the thread that took it. Helpers
 * end by themselves when the process does, however it ends: their socket closes.
 */
#ifndef FB_CODEC_ARRAY_HDF5_HDF5_POOL_H
#define FB_CODEC_ARRAY_HDF5_HDF5_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/hdf5/hdf5_protocol.h"

/* What is asked; path and name need not outlive the call. */
struct hdf5_question {
    enum hdf5_op op;
    const char *path, *name;
    bool allows_external;
    uint64_t first, rows, bytes;
};

/* Asks and waits. HDF5_DESCRIBE: *record is malloc'ed and the caller's, *n its length. HDF5_ROWS: exactly q->bytes go to `rows`.
 * FB_E_DATA: the file made the helper crash, hang or talk nonsense; FB_E_UNSUPPORTED: no helper can be started; and what it says itself. */
int hdf5_ask(const struct hdf5_question *q, uint8_t **record, size_t *n, void *rows, struct fb_error *e);

/* One answer from a socket that does not block, until `deadline_ns`. On its own for the fuzzer. *is_broken: the helper is of no use any
 * more. */
int hdf5_take_answer(int fd, uint64_t deadline_ns, const struct hdf5_question *q, uint8_t **record, size_t *n, void *rows, bool *is_broken,
                     struct fb_error *e);

/* The helper's path: $FULLBORE_HDF5_HELPER; else fullbore-hdf5 beside this library or program, in libexec/fullbore near them, or where it
 * was installed. False: nowhere. */
bool hdf5_find_helper(char *path, size_t size);

#endif
