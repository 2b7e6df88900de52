/* Log-mel spectrograms on a pipe, so that librosa and torch can be the oracle:
 *
 *   run KERNEL RATE N_FFT HOP WIN N_MELS F_MIN F_MAX WINDOW SCALE AREA CENTER PAD POWER LOG AMIN OFFSET REF TOP_DB EXACT N\n<N float32>
 *       -> ok MELS FRAMES\n<float32 ...>, or error CODE CAUSE\n       words and numbers as in log_mel.h
 *
 * The result has a stride of its own, and what lies between its rows is watched.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transform/sound/log_mel/log_mel.h"

enum { GAP = 3 };

static void say(uint32_t mels, const float *out, uint64_t frames)
{
    for (uint32_t i = 0; i < mels; i++)
        for (int k = 0; k < GAP; k++)
            if (out[i * (frames + GAP) + frames + (uint64_t)k] != 1e9f) {
                printf("error 1 wrote between the rows\n");
                return;
            }
    printf("ok %u %llu\n", mels, (unsigned long long)frames);
    for (uint32_t i = 0; i < mels; i++)
        fwrite(out + i * (frames + GAP), sizeof(float), frames, stdout);
}

static void run(const struct log_mel_options *o, const char *kernel, const float *signal, size_t n)
{
    struct fb_error e = {0};
    struct log_mel *m;
    error_clear(&e);
    int rc = log_mel_make(&m, o, &e);
    if (rc < 0) {
        printf("error %d %s\n", rc, e.cause);
        return;
    }
    uint64_t frames = log_mel_frames(m, n);
    size_t numbers = (size_t)o->n_mels * (frames + GAP);
    float *out = malloc(numbers * sizeof(float) + 1);
    void *work = aligned_alloc(64, (log_mel_work_bytes(m) + 63) / 64 * 64);
    if (!out || !work || !log_mel_use(m, kernel))
        exit(1);
    for (size_t i = 0; i < numbers; i++)
        out[i] = 1e9f;
    rc = log_mel_run(m, signal, n, out, frames + GAP, work, &e);
    if (rc < 0)
        printf("error %d %s\n", rc, e.cause);
    else
        say(o->n_mels, out, frames);
    free(out);
    free(work);
    log_mel_free(m);
}

int main(void)
{
    char line[512], kernel[16];
    while (fgets(line, sizeof(line), stdin)) {
        struct log_mel_options o;
        int window, scale, area, center, pad, log, exact;
        size_t n;
        log_mel_defaults(&o);
        if (sscanf(line, "run %15s %u %u %u %u %u %lf %lf %d %d %d %d %d %d %d %f %f %f %f %d %zu", kernel, &o.rate, &o.n_fft,
                   &o.hop_length, &o.win_length, &o.n_mels, &o.f_min, &o.f_max, &window, &scale, &area, &center, &pad, &o.power, &log,
                   &o.amin, &o.offset, &o.ref, &o.top_db, &exact, &n) != 21)
            return 2;
        o.window = (enum log_mel_window)window;
        o.scale = (enum mel_scale)scale;
        o.has_area = area;
        o.is_centered = center;
        o.pad = (enum log_mel_pad)pad;
        o.log = (enum log_mel_log)log;
        o.is_exact = exact;
        float *signal = malloc(n * sizeof(float) + 1);
        if (!signal || fread(signal, sizeof(float), n, stdin) != n)
            return 1;
        run(&o, kernel, signal, n);
        fflush(stdout);
        free(signal);
    }
    return 0;
}
