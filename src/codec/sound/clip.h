/* Sound into its place: which frames of a recording, where silence goes, channels apart or mixed.
 *
 * Recordings are stored frame by frame, the channels of a frame side by side; a place holds one channel after the other. Both happen while
 * converting, in blocks that stay in the first cache. Silence is sound of value 0: a conversion that normalises normalises it too.
 */
#ifndef FB_CODEC_SOUND_CLIP_H
#define FB_CODEC_SOUND_CLIP_H

#include "codec/array/convert/array_convert.h"
#include "model/sound_clip.h"

enum { CLIP_MAX_CHANNELS = 1024 }; /* libsndfile's limit too */

/* Frames as stored, then `after` silent ones -> planes: channel k's frame i becomes number k * plane + i of `to`. `from` holds `frames`
 * frames, the place at least `frames + after` numbers per channel. A norm has period 1, or one pair per channel (period `channels`,
 * repeat 1). FB_E_DATA: no channels or more than the most; FB_E_USAGE: a norm or an element type that does not fit. */
int clip_planes(const struct array_conversion *c, const void *from, uint64_t frames, uint64_t after, uint32_t channels, void *to,
                size_t plane, struct fb_error *e);

/* The same mixed into one channel: the mean, as numpy's mean(axis=1) of soundfile's float32 gives it, bit for bit. A norm must have
 * period 1 and applies to the mean. c->to is float16, bfloat16 or float32 (clip_can_mix). Errors as above. */
int clip_mono(const struct array_conversion *c, const void *from, uint64_t frames, uint64_t after, uint32_t channels, void *to,
              struct fb_error *e);
bool clip_can_mix(const struct array_conversion *c);

#endif
