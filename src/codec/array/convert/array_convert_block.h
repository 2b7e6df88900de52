/* The two halves of a conversion, for those who do something in between. Inside codec/ only. */
#ifndef FB_CODEC_ARRAY_CONVERT_ARRAY_CONVERT_BLOCK_H
#define FB_CODEC_ARRAY_CONVERT_ARRAY_CONVERT_BLOCK_H

#include "codec/array/convert/array_convert.h"
#include "codec/array/convert/array_convert_kernels.h"

enum { ARRAY_BLOCK = 1024 }; /* numbers: 8 KB of them stay in the first cache */

/* At most ARRAY_BLOCK stored numbers -> wide ones; those normalised in place. Then c->narrow. */
void array_widen_block(const struct array_conversion *c, const void *from, void *wide, size_t n);
void array_normalise_block(const struct array_conversion *c, uint64_t first, void *wide, size_t n);

#endif
