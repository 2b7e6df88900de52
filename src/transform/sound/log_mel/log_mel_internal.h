/* What log_mel.c and its kernels share. */
#ifndef FB_TRANSFORM_SOUND_LOG_MEL_LOG_MEL_INTERNAL_H
#define FB_TRANSFORM_SOUND_LOG_MEL_LOG_MEL_INTERNAL_H

#include "transform/sound/log_mel/log_mel.h"

/* Eight frames at `frame` (n_fft samples each) -> n_mels numbers of `lanes` of them at out + i * stride. x, y: fft buffers. */
typedef void log_mel_block_fn(const struct log_mel *m, const float *const frame[FFT_LANES], void *x, void *y, float *out, size_t stride,
                              int lane_count);
log_mel_block_fn log_mel_block_c, log_mel_block_avx2, log_mel_block64_c, log_mel_block64_avx2;

struct log_mel {
    struct log_mel_options o;
    struct fft_plan fft;
    struct mel_bank bank;
    float *window; /* n_fft of them */
    double *window64;
    float log_scale; /* from the natural logarithm to the wanted one */
    log_mel_block_fn *block;
};

#endif
