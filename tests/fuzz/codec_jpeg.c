#include "codec/codec_internal.h"
#include "codec_region.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_region(&codec_jpeg, data, size);
}
