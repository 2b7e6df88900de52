/* Which part of a recording is used. */
#ifndef FB_MODEL_SOUND_CLIP_H
#define FB_MODEL_SOUND_CLIP_H

#include <stdint.h>

/* Frames [first, first + frames), then `after` frames of silence. */
struct clip {
    uint64_t first, frames, after;
};

/* `wanted` frames of a clip. A longer one is cut, from its frame draw % (frames too many + 1) on: draw 0 takes the beginning. A shorter one
 * is followed by silence, whatever the draw. A clip of a clip is a clip, so crops can follow one another. */
static inline struct clip clip_crop_or_pad(struct clip c, uint64_t wanted, uint64_t draw)
{
    uint64_t there = c.frames + c.after;
    if (there <= wanted)
        return (struct clip){c.first, c.frames, wanted - c.frames};
    uint64_t choices = there - wanted + 1; /* 0: all 2^64 of them */
    uint64_t start = choices ? draw % choices : draw, skipped = start < c.frames ? start : c.frames;
    uint64_t left = c.frames - skipped, frames = left < wanted ? left : wanted;
    return (struct clip){c.first + skipped, frames, wanted - frames};
}

#endif
