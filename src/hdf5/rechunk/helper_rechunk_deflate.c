/* HDF5's shuffle and deflate over many chunks at once. */
#include <libdeflate.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "hdf5/rechunk/helper_rechunk.h"

struct crew {
    const uint8_t *bytes;
    size_t chunk_bytes, element;
    uint64_t chunks;
    bool shuffles;
    int level;
    uint8_t **out;
    size_t *length;
    _Atomic uint64_t next; /* chunk to be taken; relaxed: chunks do not depend on each other */
    _Atomic bool has_failed;
};

static void take_apart(uint8_t *restrict out, const uint8_t *restrict in, size_t n, size_t size)
{
    size_t count = n / size;
    for (size_t k = 0; k < size; k++)
        for (size_t i = 0; i < count; i++)
            out[k * count + i] = in[i * size + k];
    memcpy(out + count * size, in + count * size, n - count * size);
}

static bool deflate_one(struct crew *c, struct libdeflate_compressor *z, uint8_t *shuffled, uint64_t i)
{
    const uint8_t *in = c->bytes + i * c->chunk_bytes;
    if (!c->length[i])
        return true;
    size_t bound = libdeflate_zlib_compress_bound(z, c->chunk_bytes);
    uint8_t *out = malloc(bound), *less;
    if (!out)
        return false;
    if (c->shuffles && c->element > 1) {
        take_apart(shuffled, in, c->chunk_bytes, c->element);
        in = shuffled;
    }
    c->length[i] = libdeflate_zlib_compress(z, in, c->chunk_bytes, out, bound);
    less = c->length[i] ? realloc(out, c->length[i]) : NULL;
    c->out[i] = less ? less : out;
    return c->length[i] > 0;
}

static void *work(void *arg)
{
    struct crew *c = arg;
    struct libdeflate_compressor *z = libdeflate_alloc_compressor(c->level);
    uint8_t *shuffled = malloc(c->chunk_bytes);
    for (uint64_t i; z && shuffled && (i = atomic_fetch_add_explicit(&c->next, 1, memory_order_relaxed)) < c->chunks;)
        if (!deflate_one(c, z, shuffled, i)) {
            atomic_store(&c->has_failed, true);
            break;
        }
    if (!z || !shuffled)
        atomic_store(&c->has_failed, true);
    free(shuffled);
    if (z)
        libdeflate_free_compressor(z);
    return NULL;
}

bool rechunk_deflate(const uint8_t *bytes, size_t chunk_bytes, uint64_t chunks, size_t element, bool shuffles, int level, uint32_t threads,
                     uint8_t **out, size_t *length)
{
    struct crew c = {.bytes = bytes,
                     .chunk_bytes = chunk_bytes,
                     .element = element,
                     .chunks = chunks,
                     .shuffles = shuffles,
                     .level = level,
                     .out = out,
                     .length = length};
    pthread_t thread[HDF5_RECHUNK_THREADS];
    uint32_t started = 0;
    while (started + 1 < threads && started + 1 < chunks && pthread_create(&thread[started], NULL, work, &c) == 0)
        started++;
    work(&c);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return !atomic_load(&c.has_failed);
}
