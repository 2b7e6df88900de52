#include "transform/sound/spec_augment.h"

int spec_augment_check(const struct spec_augment *s, struct fb_error *e)
{
    if (s->freq_masks < 0 || s->time_masks < 0 || s->freq_masks > SPEC_MAX_MASKS || s->time_masks > SPEC_MAX_MASKS - s->freq_masks)
        return error_set(e, FB_E_USAGE, "transform", "SpecAugment has %d and %d masks; together at most %d are possible", s->freq_masks,
                         s->time_masks, SPEC_MAX_MASKS);
    if (!(s->time_share > 0) || !(s->time_share <= 1))
        return error_set(e, FB_E_USAGE, "transform", "SpecAugment's share of the time is %g; it must be above 0 and at most 1",
                         s->time_share);
    return 0;
}

static struct spec_mask draw_mask(bool is_time, uint64_t widest, uint64_t size, struct rng *r)
{
    uint64_t most = widest < size ? widest : size;
    uint64_t count = rng_below(r, most + 1), first = rng_below(r, size - count + 1);
    return (struct spec_mask){is_time, first, count};
}

int spec_augment_draw(const struct spec_augment *s, uint32_t mels, uint64_t frames, struct rng *r, struct spec_mask *out)
{
    int n = 0;
    uint64_t longest = (uint64_t)(s->time_share * (double)frames);
    for (int i = 0; i < s->freq_masks; i++)
        out[n++] = draw_mask(false, s->freq_mask_param, mels, r);
    for (int i = 0; i < s->time_masks; i++)
        out[n++] = draw_mask(true, s->time_mask_param < longest ? s->time_mask_param : longest, frames, r);
    return n;
}

static float mean_of(const float *spectrogram, uint32_t mels, uint64_t frames, size_t stride)
{
    double sum = 0;
    for (uint32_t i = 0; i < mels; i++)
        for (uint64_t f = 0; f < frames; f++)
            sum += spectrogram[i * stride + f];
    return mels && frames ? (float)(sum / ((double)mels * (double)frames)) : 0;
}

void spec_augment_apply(const struct spec_augment *s, const struct spec_mask *mask, int count, float *spectrogram, uint32_t mels,
                        uint64_t frames, size_t stride)
{
    float fill = s->fills_mean ? mean_of(spectrogram, mels, frames, stride) : s->fill;
    for (int k = 0; k < count; k++) {
        uint64_t first_mel = mask[k].is_time ? 0 : mask[k].first, last_mel = mask[k].is_time ? mels : first_mel + mask[k].count;
        uint64_t first = mask[k].is_time ? mask[k].first : 0, last = mask[k].is_time ? first + mask[k].count : frames;
        for (uint64_t i = first_mel; i < last_mel; i++)
            for (uint64_t f = first; f < last; f++)
                spectrogram[i * stride + f] = fill;
    }
}
