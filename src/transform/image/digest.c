/* digest: one number per image instead of its pixels, so that benches and tests can take images of any size. */
#include <errno.h>

#include "base/checksum.h"
#include "transform/image/pointwise.h"
#include "transform/transform_list.h"

/* xxh3 of the packed RGB rows (in the given order of pixels), then height and width as little-endian uint64. */
static int digest_image(const struct image *image, uint64_t *out, struct fb_error *e)
{
    struct checksum *c = checksum_open();
    if (!c)
        return error_set_errno(e, "transform", ENOMEM, "allocate a checksum");
    struct runs r = runs_of(image);
    for (uint32_t i = 0; i < r.count; i++)
        checksum_add(c, image->data + i * image->stride, r.pixels * 3);
    const uint64_t size[2] = {image->height, image->width};
    checksum_add(c, size, sizeof(size));
    *out = checksum_value(c);
    checksum_close(c);
    return 0;
}

static const struct option digest_options[] = {{0}};

const struct transform_ops transform_digest = {
    .name = "digest",
    .takes = TAKES_IMAGES,
    .flags = TRANSFORM_IS_LAST,
    .options = digest_options,
    .number = digest_image,
};
