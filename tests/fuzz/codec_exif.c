/* The EXIF and XMP readers, and the words for what is no image, on any bytes at all. */
#include <stdlib.h>

#include "codec/codec_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_header h;
    struct fb_error e = {0}, other = {0};
    if (exif_orientation(data, size) > 8 || xmp_orientation(data, size) > 8)
        abort();
    if (codec_header(data, size, &h, NULL, &e) > 0 || codec_not_an_image(data, size, &other) != FB_E_DATA || !other.cause[0])
        abort();
    return 0;
}
