/* Sound -> its log-mel spectrogram, as librosa and torchaudio define it, eight frames at a time.
 *
 * Frames are windowed and turned so that each lane of a vector holds one, transformed together (fft.h), their powers summed by sparse mel
 * filters, and the logarithm is taken of eight numbers at once. Prepared once, used by all threads.
 *
 * The logarithm is a series with an error below 1e-6 of the result plus 4e-7 (natural log); see docs/sound.md for the whole.
 */
#ifndef FB_TRANSFORM_SOUND_LOG_MEL_LOG_MEL_H
#define FB_TRANSFORM_SOUND_LOG_MEL_LOG_MEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transform/sound/fft/fft.h"
#include "transform/sound/log_mel/mel_bank.h"

enum log_mel_window { LOG_MEL_HANN, LOG_MEL_HAMMING, LOG_MEL_ONES }; /* the periodic kind */
enum log_mel_pad { LOG_MEL_ZEROS, LOG_MEL_REFLECT };
enum log_mel_log { LOG_MEL_DB, LOG_MEL_LN, LOG_MEL_LOG10, LOG_MEL_LINEAR };

struct log_mel_options {
    uint32_t rate;       /* samples per second; default 48000 */
    uint32_t n_fft;      /* even; 1024 */
    uint32_t hop_length; /* 256 */
    uint32_t win_length; /* 0: n_fft */
    uint32_t n_mels;     /* 64 */
    double f_min, f_max; /* Hz; 0 and 0 (half the rate) */
    enum log_mel_window window;
    enum mel_scale scale; /* MEL_SLANEY (librosa); torchaudio's default is MEL_HTK */
    bool has_area;        /* norm="slaney" (librosa); torchaudio's default is without */
    bool is_centered;     /* frame i is centred on sample i * hop; true */
    enum log_mel_pad pad; /* beyond the ends of a centred one: zeros (librosa); torchaudio reflects */
    int power;            /* of the magnitude: 2, or 1 */
    enum log_mel_log log; /* LOG_MEL_DB: 10 log10 (20 with power 1) */
    float amin;           /* the least that a logarithm is taken of; 1e-10 */
    float offset;         /* added before; 0 */
    float ref;            /* LOG_MEL_DB: what 0 dB is; 1. 0: the recording's largest */
    float top_db;         /* LOG_MEL_DB: nothing is further below the largest; 80. 0: no limit */
    bool is_exact;        /* the transform in float64, as librosa has it: true; false: in float32, as torch has it, faster */
};

struct log_mel;

void log_mel_defaults(struct log_mel_options *o);
/* FB_E_USAGE: the cause names the option. */
int log_mel_make(struct log_mel **out, const struct log_mel_options *o, struct fb_error *e);
void log_mel_free(struct log_mel *m);

uint64_t log_mel_least(const struct log_mel *m);                    /* samples: one frame, or what is reflected */
uint64_t log_mel_frames(const struct log_mel *m, uint64_t samples); /* 0: fewer than the least */
size_t log_mel_work_bytes(const struct log_mel *m);

/* One recording: number i * stride + f of `out` is mel i of frame f. `work`: log_mel_work_bytes, 64-byte aligned. FB_E_DATA: fewer
 * samples than the least. */
int log_mel_run(const struct log_mel *m, const float *signal, uint64_t samples, float *out, size_t stride, void *work, struct fb_error *e);

/* For tests: the kernels by name ("c", "avx2"); false: this build or processor has them not. */
bool log_mel_use(struct log_mel *m, const char *name);

#endif
