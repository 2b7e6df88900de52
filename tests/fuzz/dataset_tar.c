/* Any bytes as a tar archive: every member that is returned lies inside, names have an end, and the walk ends. */
#include <stdlib.h>
#include <string.h>

#include "dataset/tar/tar_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct memory {
    const uint8_t *data;
    size_t size;
};

static int read_at(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    (void)e;
    const struct memory *m = ctx;
    if (offset > m->size || n > m->size - offset)
        abort(); /* the reader must have checked */
    memcpy(out, m->data + offset, n);
    return 0;
}

/* Sums that no mutation would keep right are made right, block by block; data that looks like text is left alone. */
static void mend(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + TAR_BLOCK <= size; at += TAR_BLOCK) {
        uint8_t *block = bytes + at;
        if (block[TAR_AT_SUM + 6] != 0 || block[TAR_AT_SUM + 7] != ' ')
            continue;
        uint32_t sum = tar_sum(block);
        for (int i = 5; i >= 0; i--, sum >>= 3)
            block[TAR_AT_SUM + i] = (uint8_t)('0' + (sum & 7));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    mend(copy, size);
    struct memory memory = {copy, size};
    struct tar_reader r;
    struct tar_member m;
    struct fb_error e;
    error_clear(&e);
    tar_open(&r, &(struct tar_bytes){read_at, &memory, size});
    uint64_t before = 0;
    int rc;
    while ((rc = tar_next(&r, &m, &e)) == 1) {
        if (m.size > size || m.offset > size - m.size || m.offset <= before || strlen(m.name) > TAR_MAX_LONG_NAME)
            abort();
        before = m.offset;
    }
    if (rc < 0 && e.code != rc)
        abort();
    if (rc == 0)
        tar_leftover(&r);
    tar_close(&r);
    free(copy);
    return 0;
}
