/* log_mel: spectrograms of half a second of sound from memory, on one thread, beside a plain loop.
 *
 *     log_mel [SECONDS]     how long to measure each way; default 1
 *
 * The plain loop is what one would write: one frame at a time, a radix-2 complex transform with precomputed twiddles, a full mel matrix
 * kept sparse by hand (first and last bin), logf. Prints one JSON object: recordings per second of CPU time (24,000 samples to 64 x 94) and
 * the largest difference.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "transform/image/kernels/image_kernels.h"
#include "transform/sound/log_mel/log_mel.h"

enum { SAMPLES = 24000, N = 1024, HOP = 256, MELS = 64, FRAMES = 1 + SAMPLES / HOP, RECORDINGS = 16 };

static float sound[RECORDINGS][SAMPLES], result[MELS * FRAMES], plain_result[MELS * FRAMES];

/* ---- the plain loop ---- */

static struct {
    float cosine[N / 2], sine[N / 2], window[N];
    uint16_t reversed[N];
    struct mel_bank bank;
} plain;

static void plain_make(void)
{
    for (int i = 0; i < N / 2; i++) {
        plain.cosine[i] = (float)cos(2 * M_PI * i / N);
        plain.sine[i] = (float)-sin(2 * M_PI * i / N);
    }
    for (int i = 0; i < N; i++) {
        plain.window[i] = (float)(0.5 - 0.5 * cos(2 * M_PI * i / N));
        for (int b = 0; b < 10; b++)
            plain.reversed[i] |= (uint16_t)((i >> b & 1) << (9 - b));
    }
    if (mel_bank_make(&plain.bank, 48000, N, MELS, 0, 24000, MEL_SLANEY, true, NULL) < 0)
        exit(1);
}

static void plain_fft(float *re, float *im)
{
    for (int length = 2; length <= N; length *= 2)
        for (int start = 0; start < N; start += length)
            for (int i = 0; i < length / 2; i++) {
                float c = plain.cosine[i * (N / length)], s = plain.sine[i * (N / length)];
                int a = start + i, b = a + length / 2;
                float x = re[b] * c - im[b] * s, y = re[b] * s + im[b] * c;
                re[b] = re[a] - x;
                im[b] = im[a] - y;
                re[a] += x;
                im[a] += y;
            }
}

static void plain_run(const float *signal, float *out)
{
    for (int f = 0; f < FRAMES; f++) {
        float re[N], im[N], power[N / 2 + 1];
        for (int i = 0; i < N; i++) {
            int at = f * HOP - N / 2 + i;
            re[plain.reversed[i]] = at >= 0 && at < SAMPLES ? signal[at] * plain.window[i] : 0;
            im[i] = 0;
        }
        plain_fft(re, im);
        for (int k = 0; k <= N / 2; k++)
            power[k] = re[k] * re[k] + im[k] * im[k];
        for (int m = 0; m < MELS; m++) {
            const struct mel_filter *filter = &plain.bank.filter[m];
            float sum = 0;
            for (uint32_t k = 0; k < filter->count; k++)
                sum += power[filter->first + k] * filter->weight[k];
            out[m * FRAMES + f] = 4.3429448f * logf(sum > 1e-10f ? sum : 1e-10f);
        }
    }
}

/* ---- measuring ---- */

static double measure(const struct log_mel *m, void *work, double seconds)
{
    uint64_t start = clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID), count = 0;
    do {
        const float *signal = sound[count++ % RECORDINGS];
        if (!m)
            plain_run(signal, plain_result);
        else if (log_mel_run(m, signal, SAMPLES, result, FRAMES, work, NULL) < 0)
            exit(1);
    } while ((double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) < seconds * 1e9);
    return (double)count / ((double)(clock_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start) / 1e9);
}

static double difference(const struct log_mel *m, void *work)
{
    double most = 0;
    if (log_mel_run(m, sound[3], SAMPLES, result, FRAMES, work, NULL) < 0)
        exit(1);
    plain_run(sound[3], plain_result);
    for (int i = 0; i < MELS * FRAMES; i++)
        most = fabs((double)result[i] - (double)plain_result[i]) > most ? fabs((double)result[i] - (double)plain_result[i]) : most;
    return most;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    struct log_mel_options o;
    struct log_mel *m;
    log_mel_defaults(&o);
    o.top_db = 0;
    o.is_exact = false;
    if (log_mel_make(&m, &o, NULL) < 0)
        return 1;
    void *work = aligned_alloc(64, (2 * log_mel_work_bytes(m) + 63) / 64 * 64);
    plain_make();
    for (int r = 0; r < RECORDINGS; r++)
        for (int i = 0; i < SAMPLES; i++)
            sound[r][i] = (float)(0.4 * sin(0.05 * i * (1 + r)) + 0.1 * (rand() / (double)RAND_MAX - 0.5));
    printf("{\"recordings_per_cpu_s\": {\"plain\": %.0f", measure(NULL, work, seconds));
    static const char *const names[] = {"c", "avx2"};
    for (int i = 0; i < 2; i++)
        if (log_mel_use(m, names[i]))
            printf(", \"%s\": %.0f", names[i], measure(m, work, seconds));
    struct log_mel *exact;
    o.is_exact = true;
    if (log_mel_make(&exact, &o, NULL) < 0)
        return 1;
    printf(", \"exact\": %.0f", measure(exact, work, seconds));
    log_mel_free(exact);
    printf("}, \"largest_difference_db\": %.2e}\n", difference(m, work));
    free(work);
    log_mel_free(m);
    mel_bank_free(&plain.bank);
    return 0;
}
