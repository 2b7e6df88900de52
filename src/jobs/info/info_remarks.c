/* What will be slow with these arrays, and why: one sentence each, with what helps. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "jobs/info/info_internal.h"

__attribute__((format(printf, 2, 3))) static void say(struct info *i, const char *format, ...)
{
    if (i->remark_count == INFO_MAX_REMARKS)
        return;
    va_list list;
    va_start(list, format);
    text_vwords(i->remark[i->remark_count++], INFO_REMARK_BYTES, format, list);
    va_end(list);
}

static void name_of(const struct info_array *a, char *out, size_t out_size)
{
    text_escape(a->name[0] ? a->name : "the array", out, out_size);
}

static bool is_split(const struct info_array *a)
{
    for (int d = 1; d < a->ndim; d++)
        if (a->chunk_shape[d] < a->shape[d])
            return true;
    return false;
}

uint64_t info_chunks_per_row(const struct info_array *a)
{
    uint64_t n = 1;
    for (int d = 1; d < a->ndim; d++)
        n *= a->chunk_shape[d] ? (a->shape[d] + a->chunk_shape[d] - 1) / a->chunk_shape[d] : 1;
    return n;
}

/* Does something compress? Sums and shuffles alone cost little. */
static bool is_compressed(const struct info_array *a)
{
    static const char *const names[] = {"gzip", "lzf", "lz4", "zstd", "deflate"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strstr(a->filters, names[i]))
            return true;
    return false;
}

static void remark_chunks(struct info *i, const struct info_array *a, uint64_t memory)
{
    char name[100], all[32], third[32];
    uint64_t height = a->ndim ? a->chunk_shape[0] : 1;
    bool fits = a->bytes <= memory / 3;
    name_of(a, name, sizeof(name));
    text_size(a->bytes, all, sizeof(all));
    text_size(memory / 3, third, sizeof(third));
    if (i->has_rows && a->filters[0] && height > 1 && fits)
        say(i,
            "%s: %llu rows per %s chunk; decompressed it takes %s, less than the %s that are kept (a third of memory=): "
            "each chunk is decompressed once",
            name, (unsigned long long)height, a->filters, all, third);
    else if (i->has_rows && a->filters[0] && height > 1)
        say(i,
            "%s: %llu rows per %s chunk, and its %s are more than the %s that are kept (a third of memory=): shuffling row by row "
            "decompresses each chunk "
            "up to %llu times; use shuffle=\"window\", or more memory=",
            name, (unsigned long long)height, a->filters, all, third, (unsigned long long)height);
    if (is_split(a))
        say(i, "%s: a row lies in %llu chunks, so that reading one takes %llu reads; chunks of whole rows (1 x all columns) take one", name,
            (unsigned long long)info_chunks_per_row(a), (unsigned long long)info_chunks_per_row(a));
    if (is_compressed(a) && a->stored_bytes && (double)a->bytes / (double)a->stored_bytes < 1.15)
        say(i, "%s: compression saves %.0f %% of its bytes and costs more time than reading them would: store it without", name,
            a->bytes > a->stored_bytes ? 100.0 * (1 - (double)a->stored_bytes / (double)a->bytes) : 0.0);
}

/* By the helper's words for what nobody can read here. */
static bool is_unreadable(const struct info_array *a)
{
    static const char *const words[] = {"no numeric form", "is no number", "HDF5 filter", "refused"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(a->problem, words[i]))
            return true;
    return false;
}

static void remark_array(struct info *i, const struct info_array *a, uint64_t memory)
{
    char name[100], all[32];
    name_of(a, name, sizeof(name));
    if (strcmp(a->storage, "opaque") == 0 && strcmp(i->family, "sound") != 0)
        say(i, is_unreadable(a) ? "%s: it cannot be read: %s" : "%s: %s: read by libhdf5 in a process of its own, one request at a time",
            name, a->problem);
    if (strcmp(a->storage, "chunked") == 0)
        remark_chunks(i, a, memory);
    if (strcmp(a->storage, "fortran") == 0 && i->has_rows)
        say(i,
            "%s: stored column by column (Fortran order): no row can be read by itself, all %s must fit into memory=; save it in C order",
            name, text_size(a->bytes, all, sizeof(all)));
    if (a->files + (a->files == 0) < i->examined && a->files)
        say(i, "%s: only %llu of %llu files have it with this type and shape of a row", name, (unsigned long long)a->files,
            (unsigned long long)i->examined);
}

/* Everything in memory saves all later reads. */
static void remark_preload(struct info *i, uint64_t memory)
{
    uint64_t all = 0;
    char size[32];
    for (int k = 0; k < i->array_count; k++)
        all += i->array[k].bytes;
    if (i->has_rows && i->samples == 1 && all > (1 << 20) && all < memory / 2)
        say(i, "everything takes %s in memory, less than half of the budget: preload=True reads it once and never again",
            text_size(all, size, sizeof(size)));
}

static void remark_sound(struct info *i)
{
    const struct info_sound *s = &i->sound;
    uint64_t others = 0;
    for (int k = 0; k < i->format_count; k++)
        if (strcmp(i->format[k].name, "wav") != 0 && strcmp(i->format[k].name, "damaged") != 0)
            others += i->format[k].files;
    if (others)
        say(i, "%.0f %% of the files are compressed: libsndfile decodes them from the beginning, whatever part is wanted",
            100.0 * (double)others / (double)i->examined);
    if (s->least_rate != s->most_rate)
        say(i, "sample rates differ, %u to %u per second: nothing here resamples", s->least_rate, s->most_rate);
    if (s->least_channels != s->most_channels)
        say(i, "channels differ, %u to %u: use Mono()", s->least_channels, s->most_channels);
    if (s->shortest != s->longest)
        say(i, "lengths differ: use CropOrPad(samples), collate=fb.Pad() or fb.Ragged()");
}

void info_remark(struct info *i, uint64_t memory)
{
    if (strcmp(i->family, "sound") == 0)
        remark_sound(i);
    for (int k = 0; strcmp(i->family, "sound") != 0 && k < i->array_count; k++)
        remark_array(i, &i->array[k], memory);
    remark_preload(i, memory);
}
