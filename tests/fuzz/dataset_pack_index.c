/* A file that ends like a pack, with right checksums and any content: opening it, its catalog and its sections never leaves its bounds. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../model/catalog/seal.h"
#include "base/checksum.h"
#include "dataset/pack/pack_index.h"
#include "dataset/tar/tar_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The foot's place, size and sums are the fields that no mutation would keep right. */
static void mend(uint8_t *bytes, size_t size)
{
    struct pack_foot f;
    struct pack_head h;
    size_t at = size - PACK_END_BYTES - sizeof(f);
    memcpy(&f, bytes + at, sizeof(f));
    f.magic = PACK_FOOT_MAGIC;
    f.pack_size = size;
    f.index_length = size - PACK_END_BYTES - f.index_offset;
    if (f.index_offset <= at && at - f.index_offset >= sizeof(h)) {
        memcpy(&h, bytes + f.index_offset, sizeof(h));
        for (int i = 0; i < PACK_SECTIONS; i++) {
            struct pack_section *s = &h.section[i];
            if (s->offset > at - f.index_offset || s->length > at - f.index_offset - s->offset)
                continue;
            uint8_t *section = bytes + f.index_offset + s->offset;
            if (i == PACK_CATALOG && s->length >= sizeof(struct catalog_header) && ((uintptr_t)section & 7) == 0)
                seal_again(section, s->length);
            s->checksum = checksum_of(section, s->length);
        }
        memcpy(bytes + f.index_offset, &h, sizeof(h));
        f.head_checksum = checksum_of(&h, sizeof(h));
    }
    f.foot_checksum = checksum_of(&f, sizeof(f) - sizeof(f.foot_checksum));
    memcpy(bytes + at, &f, sizeof(f));
}

static void read_catalog(const struct pack_index *x, int fd)
{
    struct catalog *c;
    if (pack_index_catalog(x, fd, 1, "object", "fuzz", &c, NULL) < 0)
        return;
    for (uint64_t i = 0; i < catalog_count(c) && i < 1000; i++) {
        struct catalog_sample s;
        if (catalog_sample(c, i, &s, NULL) == 0 && (s.length > s.object_size || s.offset > s.object_size - s.length))
            abort();
    }
    for (int i = 0; i < catalog_class_count(c); i++)
        if (!catalog_class_name(c, i))
            abort();
    catalog_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4096 || size > 1 << 20)
        return 0;
    uint8_t *copy = aligned_alloc(64, (size + 63) & ~(size_t)63);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (!copy || fd < 0)
        abort();
    memcpy(copy, data, size);
    mend(copy, size);
    struct pack_index x;
    if (write(fd, copy, size) == (ssize_t)size && pack_index_open(&x, fd, size, "fuzz", NULL) == 1) {
        pack_index_belongs(&x, fd, "fuzz", NULL);
        read_catalog(&x, fd);
        for (int i = 0; i < PACK_SECTIONS; i++) {
            void *section;
            if (pack_index_section(&x, fd, (enum pack_section_id)i, "fuzz", &section, NULL) == 0)
                free(section);
        }
    }
    close(fd);
    free(copy);
    return 0;
}
