/* Reading ahead for a pack: threads make records, the caller takes them in the order of the catalog.
 *
 * A record is made whole by one thread: headers, the sample's bytes, padding, labels and both checksums. So the bytes of a pack do not
 * depend on how many threads there are, and whoever writes has nothing to do but write. Samples above PACK_LARGE are left to the taker, who
 * copies them piece by piece: `record` then holds the headers, `tail` what follows the data.
 *
 * Records become ready in any order and are taken in one, from memory that is used again and again: a ring, not a queue of base/.
 */
#ifndef FB_JOBS_PACK_PACK_READER_H
#define FB_JOBS_PACK_PACK_READER_H

#include "dataset/dataset.h"
#include "jobs/output/pack_record.h"
#include "jobs/pack/pack_shrink.h"
#include "model/io_ops.h"

enum { PACK_LARGE = 32 << 20 };

struct pack_source {
    const struct dataset *dataset;
    const struct pack_names *names;
    bool must_be_image; /* a sample whose header no codec can read is bad */
    struct pack_shrink shrink;
    struct io *io; /* of a store; NULL: files */
};

struct pack_item {
    uint64_t sample;
    struct catalog_sample where;
    uint64_t size;        /* of the sample, as it is packed */
    uint64_t source_size; /* as it is in the source */
    int64_t mtime_ns;
    bool is_large;
    bool is_renamed;
    struct text name; /* of the member */
    struct text record, tail, shrunk;
    size_t data_at;                     /* where the sample's bytes start in the record */
    uint64_t checksum, record_checksum; /* not of a large one */
    struct fb_error error;              /* code 0: it is good */
    bool is_ready;                      /* the reader's own, under its lock */
};

struct pack_reader;
int pack_reader_open(struct pack_reader **out, const struct pack_source *source, uint64_t first, int threads, struct fb_error *e);
/* The next item, the caller's until the next call. NULL: all have been taken, or `interrupted` said so (FB_E_INTERRUPTED). */
struct pack_item *pack_reader_take(struct pack_reader *r, int (*interrupted)(void *ctx), void *ctx, struct fb_error *e);
void pack_reader_close(struct pack_reader *r);

#endif
