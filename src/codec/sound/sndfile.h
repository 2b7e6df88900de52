/* Sound by libsndfile: what is compressed, or rare. */
#ifndef FB_CODEC_SOUND_SNDFILE_H
#define FB_CODEC_SOUND_SNDFILE_H

#include "model/array_ops.h"

int sound_describe(const struct array_source *s, struct array_file *out, struct fb_error *e);
int sound_read_rows(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows, void *out,
                    struct fb_error *e);

#endif
