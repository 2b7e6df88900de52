/* log_mel: sound of one length as its log-mel spectrogram. */
#include "transform/sound/log_mel/log_mel.h"
#include "transform/transform_list.h"

struct log_mel_step {
    int64_t sample_rate, n_fft, hop_length, win_length, n_mels, power;
    double f_min, f_max, amin, offset, ref, top_db;
    int window, mel_scale, norm, pad_mode, log;
    int64_t center, exact;
    struct log_mel *mel; /* after shape */
};

static const char *const windows[] = {"hann", "hamming", "ones", NULL};
static const char *const scales[] = {"slaney", "htk", NULL};
static const char *const norms[] = {"slaney", "none", NULL};
static const char *const pads[] = {"constant", "reflect", NULL};
static const char *const logs[] = {"db", "ln", "log10", "none", NULL};

#define AT(FIELD) offsetof(struct log_mel_step, FIELD)
static const struct option mel_options[] = {
    {"sample_rate", OPTION_INT, AT(sample_rate), 0, 1e7, NULL, "HZ", "0: that of the first recording; others are bad"},
    {"n_fft", OPTION_INT, AT(n_fft), 4, 65536, NULL, "N", "samples of a frame, 1024"},
    {"hop_length", OPTION_INT, AT(hop_length), 1, 1e6, NULL, "N", "samples from frame to frame, 256"},
    {"win_length", OPTION_INT, AT(win_length), 0, 65536, NULL, "N", "samples of the window; 0, the default: n_fft"},
    {"n_mels", OPTION_INT, AT(n_mels), 1, 4096, NULL, "N", "bands of the spectrogram; default 64"},
    {"f_min", OPTION_DOUBLE, AT(f_min), 0, 1e6, NULL, "HZ", "where the lowest band begins; default 0"},
    {"f_max", OPTION_DOUBLE, AT(f_max), 0, 1e6, NULL, "HZ", "where the highest band ends; 0, the default: half the rate"},
    {"window", OPTION_CHOICE, AT(window), 0, 0, windows, "W", "shape of the window; default hann"},
    {"mel_scale", OPTION_CHOICE, AT(mel_scale), 0, 0, scales, "S", "slaney (librosa) or htk (torchaudio)"},
    {"norm", OPTION_CHOICE, AT(norm), 0, 0, norms, "N", "slaney (librosa) or none (torchaudio)"},
    {"center", OPTION_INT, AT(center), 0, 1, NULL, "0|1", "frame i is centred on sample i * hop_length; 1"},
    {"pad_mode", OPTION_CHOICE, AT(pad_mode), 0, 0, pads, "P", "constant (librosa) or reflect (torchaudio)"},
    {"power", OPTION_INT, AT(power), 1, 2, NULL, "P", "of the magnitude, 2"},
    {"log", OPTION_CHOICE, AT(log), 0, 0, logs, "L", "db, ln, log10 or none"},
    {"amin", OPTION_DOUBLE, AT(amin), 0, 1e6, NULL, "X", "smallest value whose logarithm is taken; default 1e-10"},
    {"offset", OPTION_DOUBLE, AT(offset), 0, 1e6, NULL, "X", "added before, 0"},
    {"ref", OPTION_DOUBLE, AT(ref), 0, 1e12, NULL, "X", "the value of 0 dB; default 1; 0: the largest of the recording"},
    {"top_db", OPTION_DOUBLE, AT(top_db), 0, 1e4, NULL, "DB", "80; 0: no limit"},
    {"exact", OPTION_INT, AT(exact), 0, 1, NULL, "0|1", "the transform in float64; 1"},
    {0},
};
#undef AT

static void log_mel_set_defaults(void *params)
{
    *(struct log_mel_step *)params = (struct log_mel_step){
        .n_fft = 1024, .hop_length = 256, .n_mels = 64, .power = 2, .amin = 1e-10, .ref = 1, .top_db = 80, .center = 1, .exact = 1};
}

static struct log_mel_options options_of(const struct log_mel_step *p, uint32_t rate)
{
    return (struct log_mel_options){.rate = rate,
                                    .n_fft = (uint32_t)p->n_fft,
                                    .hop_length = (uint32_t)p->hop_length,
                                    .win_length = (uint32_t)p->win_length,
                                    .n_mels = (uint32_t)p->n_mels,
                                    .f_min = p->f_min,
                                    .f_max = p->f_max,
                                    .window = (enum log_mel_window)p->window,
                                    .scale = p->mel_scale ? MEL_HTK : MEL_SLANEY,
                                    .has_area = p->norm == 0,
                                    .is_centered = p->center != 0,
                                    .pad = p->pad_mode ? LOG_MEL_REFLECT : LOG_MEL_ZEROS,
                                    .power = (int)p->power,
                                    .log = (enum log_mel_log)p->log,
                                    .amin = (float)p->amin,
                                    .offset = (float)p->offset,
                                    .ref = (float)p->ref,
                                    .top_db = (float)p->top_db,
                                    .is_exact = p->exact != 0};
}

static void log_mel_release(void *params)
{
    struct log_mel_step *p = params;
    log_mel_free(p->mel);
    p->mel = NULL;
}

static int log_mel_shape(void *params, struct planes *s, struct fb_error *e)
{
    struct log_mel_step *p = params;
    struct log_mel_options o = options_of(p, p->sample_rate ? (uint32_t)p->sample_rate : s->rate);
    if (s->rows)
        return error_set(e, FB_E_USAGE, "transform", "log_mel takes sound, but what comes before it gives spectrograms");
    log_mel_release(p);
    FB_TRY(log_mel_make(&p->mel, &o, e));
    uint64_t frames = log_mel_frames(p->mel, s->columns);
    if (!frames)
        return error_set(e, FB_E_USAGE, "transform", "a clip has %llu samples; log_mel needs at least %llu", (unsigned long long)s->columns,
                         (unsigned long long)log_mel_least(p->mel));
    *s = (struct planes){s->count, o.n_mels, frames, true, o.rate};
    return 0;
}

static size_t log_mel_step_bytes(const void *params)
{
    return log_mel_work_bytes(((const struct log_mel_step *)params)->mel);
}

static int log_mel_step_run(const void *params, const struct step_run *r, struct fb_error *e)
{
    const struct log_mel_step *p = params;
    return log_mel_run(p->mel, r->from, r->planes.columns, r->to, (size_t)log_mel_frames(p->mel, r->planes.columns), r->work, e);
}

const struct transform_ops transform_log_mel = {
    .name = "log_mel",
    .takes = TAKES_SOUND,
    .options = mel_options,
    .params_size = sizeof(struct log_mel_step),
    .defaults = log_mel_set_defaults,
    .release = log_mel_release,
    .role = STEP_RESHAPES,
    .shape = log_mel_shape,
    .work_bytes = log_mel_step_bytes,
    .run = log_mel_step_run,
};
