/* Starting fullbore-hdf5, and waiting for it only while it makes progress.
 *
 * It starts with a nearly empty environment, since the host's may hold secrets. Waiting always ends: a helper without progress is killed,
 * and if even that does not end it (it hangs in the kernel, on storage that does not answer), it is abandoned.
 */
#ifndef FB_CODEC_ARRAY_HDF5_HDF5_RUN_H
#define FB_CODEC_ARRAY_HDF5_HDF5_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* Seconds that an answer may take, or that work may go without progress: FULLBORE_HDF5_TIMEOUT, else 120. */
uint32_t hdf5_timeout_s(void);

/* Starts it: `verb` ("adopt"; NULL: none) and, with one, our process id as its arguments. fd[i] becomes to[i]; those must not overlap.
 * Descriptors 0 to 2 that are not given become /dev/null. Returns an errno. */
int hdf5_spawn(const char *path, const char *verb, int count, const int *fd, const int *to, pid_t *pid);

/* Waits until it has ended, `limit_ms` at most. `handle`: its pidfd, or -1. 1: *status is its; 0: it has not; -1: it is no child any
 * more. */
int hdf5_reap(pid_t pid, int handle, int limit_ms, int *status);

/* A whole run of `fullbore-hdf5 VERB`. */
struct hdf5_run {
    const char *verb, *stage; /* "rechunk", and "pack" for errors */
    const void *question;     /* its standard input */
    size_t question_bytes;
    int question_fd;                           /* or a descriptor that has it, if `question` is NULL */
    int target_fd;                             /* its descriptor 3, a file that it writes */
    const char *file;                          /* named in errors */
    void (*line)(void *ctx, const char *line); /* MAY: each line that it says */
    int (*interrupted)(void *ctx);             /* MAY: asked now and then; not 0 ends it */
    void *ctx;
};

/* 0: it ended well. FB_E_TIMEOUT: it did not get on. FB_E_INTERRUPTED. FB_E_DATA: it ended otherwise; *how says how, in words. */
int hdf5_run(const struct hdf5_run *r, char *how, size_t how_size, struct fb_error *e);

#endif
