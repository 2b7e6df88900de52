/* A catalog with right checksums and any content: opening it and reading all of it never leaves its bounds. */
#include <stdlib.h>

#include "../model/catalog/seal.h"
#include "base/budget.h"
#include "model/catalog/fingerprint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_samples(const struct catalog *c)
{
    for (uint64_t i = 0; i < catalog_count(c) && i < 1000; i++) {
        struct catalog_sample s;
        size_t seen = 0;
        if (catalog_sample(c, i, &s, NULL) == 0)
            seen += strlen(s.key) + strlen(s.object);
        for (int f = 0; f < catalog_field_count(c); f++) {
            const uint8_t *value = catalog_value(c, i, f, NULL);
            for (size_t b = 0; value && b < catalog_field_bytes(catalog_field(c, f)); b++)
                seen += value[b];
        }
        if (seen == SIZE_MAX)
            abort();
    }
}

static void read_rest(const struct catalog *c)
{
    for (int i = 0; i < catalog_class_count(c); i++)
        if (!catalog_class_name(c, i))
            abort(); /* was checked at open */
    const char *path;
    int64_t mtime_ns;
    for (int i = 0; i < catalog_dir_count(c); i++)
        if (catalog_dir(c, i, &path, &mtime_ns, NULL) == 0 && strlen(path) > 1u << 30)
            abort();
    catalog_note(c, "source");
    struct fingerprint *f;
    if (fingerprint_open(&f, c, NULL) < 0)
        return;
    for (uint64_t i = 0; i < catalog_count(c) && fingerprint_add(f, i, NULL) == 0; i++)
        ;
    fingerprint_close(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < sizeof(struct catalog_header))
        return 0;
    uint8_t *map = memory_map(size);
    if (!map)
        return 0;
    memcpy(map, data, size);
    struct catalog_header h;
    memcpy(&h, data, sizeof(h));
    h.file_size = size; /* the one field that no mutation would keep right */
    memcpy(map, &h, sizeof(h));
    seal_again(map, size);
    struct catalog *c;
    if (catalog_adopt(map, size, "fuzz", &c, NULL) < 0) {
        memory_unmap(map, size);
        return 0;
    }
    read_samples(c);
    read_rest(c);
    catalog_close(c);
    return 0;
}
