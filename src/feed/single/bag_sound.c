/* A clip of sound: frames as stored, or decoded by their own reader -> the place, as samples or as a spectrogram. */
#include <stdio.h>
#include <string.h>

#include "base/round_up.h"
#include "codec/array/array_format.h"
#include "codec/array/array_rows.h"
#include "feed/single/bag.h"

static int check_channels(const struct bag *b, uint64_t channels, struct fb_error *e)
{
    const struct arrays *a = arrays_of(b->f);
    const struct array_want *w = &a->want[0];
    int own = array_steps_has_whole(&a->steps) ? 2 : !w->is_variable; /* dimensions of one channel */
    if (channels < 1 || channels > CLIP_MAX_CHANNELS)
        return bag_refuse(b, e, "it has no channels, or more than can be read", "leave the file out");
    uint64_t wanted = a->steps.is_mono ? channels : w->ndim > own ? (uint64_t)w->shape[0] : 1;
    if (channels == wanted)
        return 0;
    char cause[120];
    snprintf(cause, sizeof(cause), "it has %llu channels, the first file %llu", (unsigned long long)channels, (unsigned long long)wanted);
    return bag_refuse(b, e, cause, "use Mono(), or sort the recordings by their channels");
}

static int check_rate(const struct bag *b, uint32_t rate, struct fb_error *e)
{
    uint32_t wanted = arrays_of(b->f)->steps.out.rate;
    if (rate == wanted)
        return 0;
    char cause[120];
    snprintf(cause, sizeof(cause), "it has %u samples per second; LogMel was made for %u", rate, wanted);
    return bag_refuse(b, e, cause, "convert it, or sort the recordings by their rate");
}

/* Samples of all channels on the worker's memory, then one spectrogram after the other into the place. */
static int place_spectrogram(struct bag *b, const struct array_layout *l, const struct array_conversion *c, const uint8_t *frames,
                             uint32_t channels, struct fb_error *e)
{
    const struct arrays *a = arrays_of(b->f);
    const struct array_want *w = &a->want[0];
    const struct array_steps *s = &a->steps;
    uint64_t samples = a->samples, planes = s->is_mono ? 1 : channels;
    size_t numbers = (size_t)(w->shape[w->ndim - 2] * w->shape[w->ndim - 1]), work = s->work_bytes;
    size_t signal = round_up(planes * samples * sizeof(float), 64);
    uint8_t *memory = worker_memory(b->f, &b->w->work, work + signal + numbers * sizeof(float), e);
    FB_TRY(check_rate(b, l->rate, e));
    if (!memory)
        return e->code;
    struct array_conversion narrow;
    FB_TRY(array_conversion_init(&narrow, ARRAY_PLAIN, FB_FLOAT32, w->dtype, NULL, e));
    float *sound = (float *)(void *)(memory + work), *out = (float *)(void *)(memory + work + signal);
    FB_TRY(planes < channels ? clip_mono(c, frames, b->clip.frames, b->clip.after, channels, sound, e)
                             : clip_planes(c, frames, b->clip.frames, b->clip.after, channels, sound, (size_t)samples, e));
    double *draws = slot_draws(b->l->slot, b->l->place);
    for (uint64_t k = 0; k < planes; k++) {
        FB_TRY(array_steps_run(s, k, sound + k * samples, out, memory, &b->rng, draws, e));
        array_convert(&narrow, out, (uint8_t *)slot_at(b->l->slot, 0, b->l->place) + k * numbers * narrow.to_bytes, numbers);
    }
    return 0;
}

/* Silence that follows normalised sound is 0 as it is. */
static void place_silence(const struct bag *b, const struct array_conversion *c, uint64_t planes, uint8_t *to)
{
    uint64_t samples = arrays_of(b->f)->samples;
    for (uint64_t k = 0; k < planes; k++)
        memset(to + (k * samples + b->clip.frames) * c->to_bytes, 0, (size_t)b->clip.after * c->to_bytes);
}

static int place_samples(struct bag *b, const struct array_conversion *c, const uint8_t *frames, uint32_t channels, struct fb_error *e)
{
    const struct arrays *a = arrays_of(b->f);
    bool is_mixed = a->steps.is_mono && channels > 1;
    uint8_t *to = slot_at(b->l->slot, 0, b->l->place);
    uint64_t after = a->steps.has_plain_silence ? 0 : b->clip.after;
    if (!is_mixed && a->want[0].is_variable)
        array_convert(c, frames, to, b->clip.frames * channels);
    else
        FB_TRY(is_mixed ? clip_mono(c, frames, b->clip.frames, after, channels, to, e)
                        : clip_planes(c, frames, b->clip.frames, after, channels, to, (size_t)a->samples, e));
    if (a->steps.has_plain_silence)
        place_silence(b, c, is_mixed ? 1 : channels, to);
    return 0;
}

int bag_place_sound(struct bag *b, const struct array_layout *l, const uint8_t *frames, struct fb_error *e)
{
    const struct arrays *a = arrays_of(b->f);
    struct array_conversion c;
    FB_TRY(check_channels(b, l->ndim > 1 ? l->shape[1] : 1, e));
    uint32_t channels = l->ndim > 1 ? (uint32_t)l->shape[1] : 1;
    if (array_steps_has_whole(&a->steps)) {
        FB_TRY(array_conversion_init(&c, l->code, l->dtype, FB_FLOAT32, NULL, e));
        return place_spectrogram(b, l, &c, frames, channels, e);
    }
    FB_TRY(arrays_prepare_conversion(a, 0, l, &c, e));
    return place_samples(b, &c, frames, channels, e);
}

int bag_place_compressed(struct bag *b, const struct array_layout *l, struct fb_error *e)
{
    struct probed_file open = {&b->now->where, b->now->fd, b->bytes, b->now->file};
    uint8_t *frames = worker_memory(b->f, &b->w->mapped[1], b->clip.frames * array_row_bytes(l) + 64, e);
    if (!frames)
        return e->code;
    FB_TRY(probe_read_rows(b->f, &open, l, b->clip.first, b->clip.frames, frames, e));
    return bag_place_sound(b, l, frames, e);
}

int bag_place_clip(struct bag *b, struct fb_error *e)
{
    const struct array_layout *l = &b->now->file->array[0];
    FB_TRY(bag_pick(b, array_rows(l), e));
    FB_TRY(bag_check_room(b, e));
    if (l->storage == ARRAY_OPAQUE)
        return bag_place_compressed(b, l, e);
    return bag_place_sound(b, l, b->bytes + l->offset + b->clip.first * array_row_bytes(l), e);
}
