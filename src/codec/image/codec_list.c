/* The image formats, in the order in which they are asked. A new one is a file with its codec_ops and a line here. */
#include "codec/codec_internal.h"

const struct codec_ops *const codec_list[] = {&codec_jpeg, &codec_png, &codec_webp, NULL};
