/* The pack job: one file, or a few shards, instead of a hundred thousand files; a plain tar that everyone reads.
 *
 * Samples go in in the order of their keys, each with its labels beside it; the last member is the index (dataset/pack/pack_format.h).
 */
#ifndef FB_JOBS_PACK_H
#define FB_JOBS_PACK_H

#include <stdbool.h>

#include "base/error.h"

struct pack_progress {
    uint64_t samples, samples_total;
    uint64_t bytes, bytes_total; /* of the samples; the total is an estimate until the end */
    double seconds;
};

struct pack_request {
    fb_options options;   /* source, catalog_dir, threads, log, interrupted */
    const char *output;   /* NAME.tar; with shards NAME-000000.tar and so on */
    uint64_t shard_bytes; /* 0: one file */
    bool skips_bad;       /* leave out what cannot be read or has no header of an image, instead of failing; otherwise the bytes are copied
                     * as they are, whatever they hold */
    int shorter,
        quality;     /* 0: bytes are copied. Else pictures whose shorter side is longer become JPEGs of that size and quality (1-100) */
    bool resumes;    /* go on with what an interrupted run left */
    bool overwrites; /* replace what is under the final names, at the end; otherwise it is FB_E_STATE before any work */
    void (*progress)(void *ctx, const struct pack_progress *p); /* on the caller's thread, for every record; may be NULL */
    void *ctx;
};

struct pack_result {
    uint64_t samples, bytes; /* packed, and the bytes of those samples */
    uint64_t pack_bytes;     /* of all files written */
    uint32_t shards;
    uint64_t resumed; /* samples found in what an interrupted run had written */
    uint64_t skipped;
    char *skipped_list;   /* "key: cause" lines of the first thousand, or NULL; free() */
    uint64_t fingerprint; /* of the source */
    char name[1100];      /* what to open: NAME.tar or NAME-{000000..000012}.tar */
    double seconds;
    bool is_kept; /* it failed, and what was written so far can be resumed */
};

/* FB_E_STATE: the output is there, or a source changed meanwhile; FB_E_IO: no space, among others. On failure nothing is under the final
 * name that was not there before. `out` must be freed by pack_result_free in any case. */
int pack_run(const struct pack_request *q, struct pack_result *out, struct fb_error *e);
void pack_result_free(struct pack_result *r);

#endif
