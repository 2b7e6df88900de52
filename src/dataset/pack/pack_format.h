/* How a pack ends. A pack is a plain tar archive; its last member holds what makes it quick to open and possible to check. Little-endian.
 *
 *   members: for every sample, in the order of the keys, the sample and its labels | header of __fullbore_index__ |
 *   index:   head | catalog | records | names | learnt | zeros | foot | two zero blocks
 *
 * The foot stands at a fixed distance from the end of the file, so it is found with one read; it vouches for the head, the head for the
 * sections (the catalog also vouches for its own blocks), the records for every byte of the members. The index begins at a multiple of 512
 * and so does whatever follows it; sections begin at multiples of 8.
 */
#ifndef FB_DATASET_PACK_PACK_FORMAT_H
#define FB_DATASET_PACK_PACK_FORMAT_H

#include <assert.h>
#include <stdint.h>

#define PACK_INDEX_NAME "__fullbore_index__"
#define PACK_HEAD_MAGIC UINT64_C(0x31304449784B4266) /* "fBKxID01" */
#define PACK_FOOT_MAGIC UINT64_C(0x3130544F6F4B4266) /* "fBKoOT01" */
enum { PACK_VERSION = 1, PACK_END_BYTES = 1024, PACK_EDGE_BYTES = 512 };

enum pack_section_id {
    PACK_CATALOG, /* as in model/catalog/catalog_format.h; extents in one object, whose name, size and time the reader knows better */
    PACK_RECORDS, /* struct pack_record each, in the order of the catalog */
    PACK_NAMES,   /* struct pack_name each, by sample, then their texts: samples whose member is not called like their key */
    PACK_LEARNT,  /* struct pack_learnt each with its payload, padded to 8 bytes */
    PACK_SECTIONS
};

struct pack_section {
    uint64_t offset, length; /* bytes; from the start of the index */
    uint64_t checksum;
};

struct pack_head {
    uint64_t magic;
    uint32_t version, section_count;
    uint64_t samples;
    uint64_t members_end;          /* where the index's own tar header starts */
    uint32_t shard, is_last_shard; /* 0 and 1 for a pack that is whole in itself */
    uint64_t last_start;           /* of the last record */
    uint64_t first_edge,
        last_edge; /* checksums of the tar headers that the first and the last record begin with: is this index of this pack? */
    struct pack_section section[PACK_SECTIONS];
};

struct pack_record {
    uint64_t start;           /* of the first tar header of the sample; it ends where the next one starts, the last one at members_end */
    uint64_t checksum;        /* of the sample's bytes */
    uint64_t record_checksum; /* of everything from start to end: headers, sample, padding, labels */
    int64_t mtime_ns;         /* of the file it came from */
};

struct pack_name {
    uint64_t sample;
    uint64_t text, length; /* in the section */
};

struct pack_learnt {
    uint64_t sample;
    uint64_t length;
};

struct pack_foot {
    uint64_t magic;
    uint64_t pack_size; /* of the whole file */
    uint64_t index_offset, index_length;
    uint64_t head_checksum;
    uint64_t zero[2];
    uint64_t foot_checksum; /* of what is before */
};

static_assert(sizeof(struct pack_head) == 64 + 24 * PACK_SECTIONS, "no padding");
static_assert(sizeof(struct pack_record) == 32 && sizeof(struct pack_foot) == 64, "no padding");

#endif
