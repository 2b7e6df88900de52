#include "feed/spectrogram.h"

#include <math.h>
#include <string.h>

#include "base/text/options.h"

struct mel_params {
    int64_t sample_rate, n_fft, hop_length, win_length, n_mels, power;
    double f_min, f_max, amin, offset, ref, top_db;
    int window, mel_scale, norm, pad_mode, log;
    int64_t center, exact;
};

static const char *const windows[] = {"hann", "hamming", "ones", NULL};
static const char *const scales[] = {"slaney", "htk", NULL};
static const char *const norms[] = {"slaney", "none", NULL};
static const char *const pads[] = {"constant", "reflect", NULL};
static const char *const logs[] = {"db", "ln", "log10", "none", NULL};

#define AT(FIELD) offsetof(struct mel_params, FIELD)
static const struct option mel_options[] = {
    {"sample_rate", OPTION_INT, AT(sample_rate), 0, 1e7, NULL, "HZ", "0: that of the first recording; others are bad"},
    {"n_fft", OPTION_INT, AT(n_fft), 4, 65536, NULL, "N", "samples of a frame, 1024"},
    {"hop_length", OPTION_INT, AT(hop_length), 1, 1e6, NULL, "N", "samples from frame to frame, 256"},
    {"win_length", OPTION_INT, AT(win_length), 0, 65536, NULL, "N", "0: n_fft"},
    {"n_mels", OPTION_INT, AT(n_mels), 1, 4096, NULL, "N", "64"},
    {"f_min", OPTION_DOUBLE, AT(f_min), 0, 1e6, NULL, "HZ", "0"},
    {"f_max", OPTION_DOUBLE, AT(f_max), 0, 1e6, NULL, "HZ", "0: half the rate"},
    {"window", OPTION_CHOICE, AT(window), 0, 0, windows, "W", "hann"},
    {"mel_scale", OPTION_CHOICE, AT(mel_scale), 0, 0, scales, "S", "slaney (librosa) or htk (torchaudio)"},
    {"norm", OPTION_CHOICE, AT(norm), 0, 0, norms, "N", "slaney (librosa) or none (torchaudio)"},
    {"center", OPTION_INT, AT(center), 0, 1, NULL, "0|1", "frame i is centred on sample i * hop_length; 1"},
    {"pad_mode", OPTION_CHOICE, AT(pad_mode), 0, 0, pads, "P", "constant (librosa) or reflect (torchaudio)"},
    {"power", OPTION_INT, AT(power), 1, 2, NULL, "P", "of the magnitude, 2"},
    {"log", OPTION_CHOICE, AT(log), 0, 0, logs, "L", "db, ln, log10 or none"},
    {"amin", OPTION_DOUBLE, AT(amin), 0, 1e6, NULL, "X", "the least that a logarithm is taken of, 1e-10"},
    {"offset", OPTION_DOUBLE, AT(offset), 0, 1e6, NULL, "X", "added before, 0"},
    {"ref", OPTION_DOUBLE, AT(ref), 0, 1e12, NULL, "X", "what 0 dB is, 1; 0: the recording's largest"},
    {"top_db", OPTION_DOUBLE, AT(top_db), 0, 1e4, NULL, "DB", "80; 0: no limit"},
    {"exact", OPTION_INT, AT(exact), 0, 1, NULL, "0|1", "the transform in float64; 1"},
    {0},
};
#undef AT

int spectrogram_add_log_mel(struct spectrogram *s, char *text, struct fb_error *e)
{
    struct mel_params p = {
        .n_fft = 1024, .hop_length = 256, .n_mels = 64, .power = 2, .amin = 1e-10, .ref = 1, .top_db = 80, .center = 1, .exact = 1};
    if (s->is_wanted)
        return error_set(e, FB_E_USAGE, "transform", "log_mel is there twice");
    FB_TRY(options_parse_spec(mel_options, &p, text, "transform", "log_mel", e));
    s->options = (struct log_mel_options){.rate = (uint32_t)p.sample_rate,
                                          .n_fft = (uint32_t)p.n_fft,
                                          .hop_length = (uint32_t)p.hop_length,
                                          .win_length = (uint32_t)p.win_length,
                                          .n_mels = (uint32_t)p.n_mels,
                                          .f_min = p.f_min,
                                          .f_max = p.f_max,
                                          .window = (enum log_mel_window)p.window,
                                          .scale = p.mel_scale ? MEL_HTK : MEL_SLANEY,
                                          .has_area = p.norm == 0,
                                          .is_centered = p.center != 0,
                                          .pad = p.pad_mode ? LOG_MEL_REFLECT : LOG_MEL_ZEROS,
                                          .power = (int)p.power,
                                          .log = (enum log_mel_log)p.log,
                                          .amin = (float)p.amin,
                                          .offset = (float)p.offset,
                                          .ref = (float)p.ref,
                                          .top_db = (float)p.top_db,
                                          .is_exact = p.exact != 0};
    s->is_wanted = true;
    return 0;
}

struct mask_params {
    int64_t freq_mask_param, time_mask_param, n_freq_masks, n_time_masks;
    double p, fill;
    bool mean;
};

#define AT(FIELD) offsetof(struct mask_params, FIELD)
static const struct option mask_options[] = {
    {"freq_mask_param", OPTION_INT, AT(freq_mask_param), 0, 1e6, NULL, "N", "the widest band, in mels"},
    {"time_mask_param", OPTION_INT, AT(time_mask_param), 0, 1e9, NULL, "N", "the longest stretch, in frames"},
    {"n_freq_masks", OPTION_INT, AT(n_freq_masks), 0, SPEC_MAX_MASKS, NULL, "N", "1"},
    {"n_time_masks", OPTION_INT, AT(n_time_masks), 0, SPEC_MAX_MASKS, NULL, "N", "1"},
    {"p", OPTION_DOUBLE, AT(p), 0, 1, NULL, "P", "no stretch is longer than this share of the frames; 1"},
    {"fill", OPTION_DOUBLE, AT(fill), -1e30, 1e30, NULL, "X", "what is put there; 0"},
    {"mean", OPTION_FLAG, AT(mean), 0, 0, NULL, NULL, "the spectrogram's mean is put there"},
    {0},
};
#undef AT

int spectrogram_add_masks(struct spectrogram *s, char *text, struct fb_error *e)
{
    struct mask_params p = {.n_freq_masks = 1, .n_time_masks = 1, .p = 1};
    if (!s->is_wanted || s->has_masks)
        return error_set(e, FB_E_USAGE, "transform", "spec_augment stands once, behind log_mel");
    FB_TRY(options_parse_spec(mask_options, &p, text, "transform", "spec_augment", e));
    s->masks = (struct spec_augment){.freq_masks = (int)p.n_freq_masks,
                                     .time_masks = (int)p.n_time_masks,
                                     .freq_mask_param = (uint32_t)p.freq_mask_param,
                                     .time_mask_param = (uint32_t)p.time_mask_param,
                                     .time_share = (float)p.p,
                                     .fills_mean = p.mean,
                                     .fill = (float)p.fill};
    s->has_masks = true;
    return spec_augment_check(&s->masks, e);
}

int spectrogram_open(struct spectrogram *s, uint32_t rate, uint64_t samples, uint64_t *frames, struct fb_error *e)
{
    spectrogram_close(s);
    if (!s->options.rate)
        s->options.rate = rate;
    if (s->norm_count > 1 && s->norm_count != s->options.n_mels)
        return error_set(e, FB_E_USAGE, "transform", "normalize has %llu numbers; behind log_mel it wants one, or one for each of %u mels",
                         (unsigned long long)s->norm_count, s->options.n_mels);
    FB_TRY(log_mel_make(&s->mel, &s->options, e));
    *frames = log_mel_frames(s->mel, samples);
    return *frames ? 0
                   : error_set(e, FB_E_USAGE, "transform", "log_mel: %llu samples are less than one frame of %u",
                               (unsigned long long)samples, s->options.n_fft);
}

void spectrogram_close(struct spectrogram *s)
{
    log_mel_free(s->mel);
    s->mel = NULL;
}

size_t spectrogram_work_bytes(const struct spectrogram *s, uint64_t samples)
{
    (void)samples;
    return (log_mel_work_bytes(s->mel) + 63) & ~(size_t)63;
}

static void normalise(const struct spectrogram *s, float *out, uint64_t frames)
{
    for (uint32_t m = 0; s->norm_count && m < s->options.n_mels; m++) {
        float mean = s->mean[s->norm_count > 1 ? m : 0], scale = s->inv_std[s->norm_count > 1 ? m : 0];
        for (uint64_t f = 0; f < frames; f++)
            out[m * frames + f] = (out[m * frames + f] - mean) * scale;
    }
}

int spectrogram_make(const struct spectrogram *s, const float *signal, uint64_t samples, float *out, void *work, struct rng *r,
                     struct fb_error *e)
{
    uint64_t frames = log_mel_frames(s->mel, samples);
    FB_TRY(log_mel_run(s->mel, signal, samples, out, (size_t)frames, work, e));
    if (s->has_masks) {
        struct spec_mask mask[SPEC_MAX_MASKS];
        int n = spec_augment_draw(&s->masks, s->options.n_mels, frames, r, mask);
        spec_augment_apply(&s->masks, mask, n, out, s->options.n_mels, frames, (size_t)frames);
    }
    normalise(s, out, frames);
    return 0;
}
