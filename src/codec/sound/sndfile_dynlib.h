/* libsndfile, opened when compressed sound is first met: it brings eight codecs along (base/dynlib.h). The functions have their usual
 * names; nothing may call one before sndfile_dynlib_open has returned 0. */
#ifndef FB_CODEC_SOUND_SNDFILE_DYNLIB_H
#define FB_CODEC_SOUND_SNDFILE_DYNLIB_H

#include <sndfile.h>

#include "base/dynlib.h"

struct sndfile_calls {
    DYNLIB_MEMBER(open_virtual, sf_open_virtual);
    DYNLIB_MEMBER(readf_float, sf_readf_float);
    DYNLIB_MEMBER(seek, sf_seek);
    DYNLIB_MEMBER(strerror, sf_strerror);
    DYNLIB_MEMBER(close, sf_close);
};

/* Constant once sndfile_dynlib_open has returned 0. */
extern struct sndfile_calls sndfile_calls;

/* The first call opens it, later ones repeat the outcome. FB_E_UNSUPPORTED. Any thread. */
int sndfile_dynlib_open(struct fb_error *e);

#ifndef SNDFILE_LATE_OWN
#define sf_open_virtual sndfile_calls.open_virtual
#define sf_readf_float sndfile_calls.readf_float
#define sf_seek sndfile_calls.seek
#define sf_strerror sndfile_calls.strerror
#define sf_close sndfile_calls.close
#endif

#endif
