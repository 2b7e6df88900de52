/* Pixels into their final type and layout, by table. */
#include "transform/image/kernels/store_c.h"

#include <stddef.h>
#include <string.h>

#define DEFINE_STORE(SUFFIX, TYPE, TABLE)                                                                              \
    void planes_##SUFFIX##_c(TYPE *const out[3], const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l) \
    {                                                                                                                  \
        for (uint32_t i = 0; i < n; i++)                                                                               \
            for (int c = 0; c < 3; c++)                                                                                \
                out[c][mirrored ? n - 1 - i : i] = l->TABLE[c][in[3 * (size_t)i + c]];                                 \
    }                                                                                                                  \
    void pixels_##SUFFIX##_c(TYPE *out, const uint8_t *in, uint32_t n, bool mirrored, const struct levels *l)          \
    {                                                                                                                  \
        for (uint32_t i = 0; i < n; i++)                                                                               \
            for (int c = 0; c < 3; c++)                                                                                \
                out[3 * (size_t)(mirrored ? n - 1 - i : i) + c] = l->TABLE[c][in[3 * (size_t)i + c]];                  \
    }

DEFINE_STORE(f32, float, f32)
DEFINE_STORE(f16, uint16_t, f16)
DEFINE_STORE(bf16, uint16_t, bf16)

void planes_u8_c(uint8_t *const out[3], const uint8_t *in, uint32_t n, bool mirrored)
{
    for (uint32_t i = 0; i < n; i++)
        for (int c = 0; c < 3; c++)
            out[c][mirrored ? n - 1 - i : i] = in[3 * (size_t)i + c];
}

void mirror_c(uint8_t *out, const uint8_t *in, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        memcpy(out + 3 * (size_t)(n - 1 - i), in + 3 * (size_t)i, 3);
}
