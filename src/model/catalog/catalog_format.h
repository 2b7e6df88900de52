/* The catalog file, as its reader and writer see it. Little-endian.
 *
 *   header | one xxh3 per block | body: sections, each starting at a multiple of 8
 *
 * The body is cut into blocks of CATALOG_BLOCK bytes without regard to sections; the last one is shorter. The header's checksum covers the
 * header, the table's checksum the block sums, the sums the body: nothing is used before something checked vouches for it. Strings end with
 * a NUL byte. A position "in X" counts from the start of section X.
 */
#ifndef FB_MODEL_CATALOG_CATALOG_FORMAT_H
#define FB_MODEL_CATALOG_CATALOG_FORMAT_H

#include <assert.h>
#include <stddef.h>

#include "model/catalog/catalog.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the catalog is read in place and little-endian"
#endif

#define CATALOG_MAGIC "fbcatlg" /* with its NUL: 8 bytes */
enum { CATALOG_VERSION = 1, CATALOG_BLOCK = 65536 };
enum { CATALOG_MAX_KEY = 65535, CATALOG_MAX_VALUE_BYTES = 16 << 20 }; /* of one sample's key and of one value */

enum catalog_section_id {
    SECTION_FIELDS,     /* struct field_record each */
    SECTION_CLASSES,    /* u64 each: name in STRINGS; sorted bytewise */
    SECTION_NOTES,      /* struct note_record each */
    SECTION_DIRS,       /* struct dir_record each */
    SECTION_STRINGS,    /* of classes, notes and directories, in this order */
    SECTION_KEY_STARTS, /* u64 each, count + 1 of them: key i is [start i, start i+1) in KEYS, its NUL included */
    SECTION_KEYS,
    SECTION_FILES,   /* struct file_record each: every sample is the whole file named by its key; else empty */
    SECTION_EXTENTS, /* struct extent_record each: samples are parts of objects; empty if FILES is used */
    SECTION_OBJECTS, /* struct object_record each */
    SECTION_OBJECT_PATHS,
    SECTION_VALUES, /* one column per field, each starting at a multiple of 8 */
    SECTION_COUNT
};

struct section_record {
    uint64_t offset, length; /* bytes in the file */
};

struct catalog_header {
    char magic[8];
    uint32_t version, section_count;
    uint64_t file_size, body; /* bytes; where the body starts */
    uint64_t count, fingerprint;
    int64_t made_ns;
    struct section_record section[SECTION_COUNT];
    uint64_t table_checksum;  /* of the block sums */
    uint64_t header_checksum; /* of everything before */
};

struct field_record {
    char name[64];
    uint32_t dtype, ndim, is_class;
    uint32_t role;   /* enum field_role; labels come first */
    uint64_t shape;  /* elements, if ndim is 1 */
    uint64_t column; /* where it starts in VALUES */
};

/* Files: int64 numbers of objects. Parts: how many objects, from the sample's own on, make up a sample; at most one field, and then no
 * files. */
enum field_role { FIELD_LABEL, FIELD_FILE, FIELD_PARTS };

struct note_record {
    uint64_t name, text; /* in STRINGS */
};

struct dir_record {
    uint64_t path; /* in STRINGS */
    int64_t mtime_ns;
};

struct file_record {
    uint64_t length;
    int64_t mtime_ns;
};

struct extent_record {
    uint64_t offset, length, object;
};

struct object_record {
    uint64_t path, size; /* path in OBJECT_PATHS */
    int64_t mtime_ns;
};

static_assert(sizeof(struct catalog_header) == 56 + 16 * SECTION_COUNT + 16, "no padding");
static_assert(sizeof(struct field_record) == 96 && sizeof(struct object_record) == 24, "no padding");

static inline uint64_t catalog_block_count(uint64_t body_bytes)
{
    return (body_bytes + CATALOG_BLOCK - 1) / CATALOG_BLOCK;
}

static inline uint64_t catalog_header_checksum_bytes(void)
{
    return offsetof(struct catalog_header, header_checksum);
}

/* False: no such field can be (dtype, ndim, shape, class). */
bool catalog_field_is_valid(const struct catalog_field *f);

/* Opens a catalog that lies in memory from mmap; on success the catalog unmaps it when closed, on failure it stays the caller's.
 * `path` is for messages and may be NULL. */
int catalog_adopt(void *map, size_t size, const char *path, struct catalog **out, struct fb_error *e);
/* Opens what an open file holds; the descriptor stays the caller's. On a local disk it is mapped, so that processes share its pages;
 * elsewhere it is read. */
int catalog_open_fd(int fd, const char *path, struct catalog **out, struct fb_error *e);
/* The second of these: all `size` bytes are read now. FB_E_IO: they could not be. */
int catalog_open_read(int fd, size_t size, const char *path, struct catalog **out, struct fb_error *e);
/* A catalog that comes with the data, inside a pack or beside a table of pixels: somebody else may have made it. So it may speak of one
 * object only, the pack or table itself, which is named here; a catalog whose samples are files, or that knows further files, parts or
 * directories, is refused with FB_E_DATA, and a sample that reaches beyond `end` when it is read. Of its notes only the one called `note`
 * counts. Blocks are read when first touched, never mapped, so that a file cut short by others is an error and no signal. The descriptor
 * stays the caller's; the path is copied, `note` must live as long as the catalog. */
struct catalog_place {
    char *path;
    uint64_t size;
    int64_t mtime_ns;
    uint64_t end;     /* samples lie before it: where the members of a pack end */
    const char *note; /* NULL: none */
};
int catalog_open_part(int fd, uint64_t offset, uint64_t length, const struct catalog_place *place, const char *path, struct catalog **out,
                      struct fb_error *e);
/* All of the file; not for a part. */
const void *catalog_bytes(const struct catalog *c, size_t *size);
/* For the writer, on private memory: sets the fingerprint that could be computed only now. */
void catalog_set_fingerprint(struct catalog *c, uint64_t fingerprint);

#endif
