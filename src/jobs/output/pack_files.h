/* The files of one packing run: shards under temporary names, and the journal that lets a later run go on with them.
 *
 *   .NAME.tar.RUN.partial    a shard being written, or written and waiting for the others; renamed to NAME.tar when all are done
 *   .NAME.tar.RUN.journal    one entry per record written; locked by the process that writes
 *
 * Decoded pictures (NAME.npy) are written the same way: one shard, a record for each row.
 *
 * Nothing is ever seen under a final name that is not whole and on the disk. Shards are renamed from the last to the first, so a set that
 * lacks its first one is the worst a crash can leave. The journal is never synced: what it says is checked against the shards before it is
 * believed, so a crash costs at most the records whose bytes did not arrive.
 */
#ifndef FB_JOBS_OUTPUT_PACK_FILES_H
#define FB_JOBS_OUTPUT_PACK_FILES_H

#include <stdbool.h>

#include "base/error.h"
#include "base/log.h"

struct pack_files {
    char *path;            /* the output as given, for messages */
    const char *extension; /* ".tar", ".npy", ".h5" */
    char *stem;            /* its last part without that */
    bool is_sharded;
    bool overwrites; /* what is under the final names may be replaced */
    int dir_fd;
    char run[8];
    int journal_fd; /* -1: none yet */
};

/* What a run was asked to do; a journal of another question is of no use. */
struct pack_question {
    uint64_t fingerprint, samples, shard_bytes;
    uint64_t skips_bad;
    uint64_t shorter, quality;   /* of pictures made smaller */
    uint64_t height, width, fit; /* of decoded ones; 0: bytes are copied */
};

struct pack_entry {
    uint64_t sample;
    uint64_t shard, start, length; /* of the record */
    uint64_t data_offset, data_length;
    uint64_t source_length;
    int64_t mtime_ns;
    uint64_t checksum, record_checksum;
    uint64_t entry_checksum; /* of what is before */
};

/* FB_E_USAGE: not a name for a pack. FB_E_NOT_FOUND: no such folder. */
int pack_files_open(struct pack_files *f, const char *path, const char *extension, bool is_sharded, bool overwrites, struct fb_error *e);
void pack_files_close(struct pack_files *f);
/* Before any work: FB_E_STATE if something is under a final name that may not be replaced: the pack, any shard of a set of that name, or
 * `beside`, files of other endings (".csv") that are made with it, NULL at the end, or NULL. FB_E_USAGE: one of them is the source
 * itself, or one of its archives, or a folder. */
int pack_files_check(const struct pack_files *f, const char *source, const char *const *beside, struct fb_error *e);

/* Starts a run of its own. */
int pack_files_start(struct pack_files *f, const struct pack_question *q, struct fb_error *e);
/* Takes over what an interrupted run left. 1: *entries (the caller frees) are what its journal says. 0: there is nothing that fits. */
int pack_files_resume(struct pack_files *f, const struct pack_question *q, struct pack_entry **entries, uint64_t *count,
                      struct fb_error *e);
/* Forgets the journal's entries behind the first `count`. */
int pack_files_cut(struct pack_files *f, uint64_t count, struct fb_error *e);
int pack_files_note(struct pack_files *f, struct pack_entry *entry, struct fb_error *e);

/* Opens a shard under its temporary name, made if it is not there. Returns a descriptor. */
int pack_files_shard(struct pack_files *f, uint32_t shard, struct fb_error *e);
/* Gives a finished file its final name. FB_E_STATE: there is one by now, and it may not be replaced. */
int pack_files_rename(const struct pack_files *f, const char *from, const char *to, struct fb_error *e);
/* All shards are written and synced: renames them and syncs the folder. FB_E_STATE as above. */
int pack_files_place(struct pack_files *f, uint32_t shards, struct fb_error *e);
/* Nothing is left to do: removes the journal and what dead runs of the same pack left. */
void pack_files_clean(struct pack_files *f, uint32_t shards, const struct log *log);
/* Removes everything of this run. */
void pack_files_drop(struct pack_files *f);
/* "train-{000000..000012}.tar", with the folder as given. */
void pack_files_name(const struct pack_files *f, uint32_t shards, char *out, size_t out_size);

#endif
