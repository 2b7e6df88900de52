/* Files of arrays and recordings: what lies in them, and how. */
#include <stdio.h>
#include <string.h>

#include "base/text/text.h"
#include "codec/array/array_rows.h"
#include "codec/array/hdf5/decompress.h"
#include "feed/array_probe.h"
#include "io/io.h"
#include "host/host.h"
#include "jobs/info/info_internal.h"

static const char *filter_name(uint32_t id)
{
    static const struct {
        uint32_t id;
        const char *name;
    } names[] = {{ARRAY_DEFLATE, "gzip"}, {ARRAY_SHUFFLE, "shuffle"}, {ARRAY_FLETCHER32, "fletcher32"}, {ARRAY_LZF, "lzf"},
                 {ARRAY_LZ4, "lz4"},      {ARRAY_ZSTD, "zstd"},       {ARRAY_RAW_DEFLATE, "deflate"},   {ARRAY_CRC32, "crc32"}};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].id == id)
            return names[i].name;
    return "unknown";
}

static const char *storage_name(const struct array_layout *l)
{
    if (l->storage == ARRAY_CONTIGUOUS && l->is_fortran && l->ndim > 1)
        return "fortran";
    return (const char *const[]){"contiguous", "chunked", "inline", "opaque"}[l->storage];
}

static void describe_chunks(struct info_array *to, const struct array_layout *l)
{
    memcpy(to->chunk_shape, l->chunk_shape, sizeof(to->chunk_shape));
    to->chunks = l->chunk_count;
    for (uint64_t i = 0; i < l->chunk_count; i++) {
        bool is_missing = l->chunk[i].offset == ARRAY_NO_CHUNK;
        to->missing_chunks += is_missing;
        to->stored_bytes += is_missing ? 0 : l->chunk[i].length;
    }
    for (int i = 0; i < l->filter_count; i++) {
        size_t at = strlen(to->filters);
        snprintf(to->filters + at, sizeof(to->filters) - at, "%s%s", at ? ", " : "", filter_name(l->filter[i].id));
    }
}

static void add_array(struct info *i, const struct array_layout *l)
{
    if (i->array_count == INFO_MAX_ARRAYS)
        return;
    struct info_array *to = &i->array[i->array_count++];
    *to = (struct info_array){.dtype = l->dtype, .ndim = l->ndim, .least_rows = array_rows(l), .most_rows = array_rows(l), .files = 1};
    snprintf(to->name, sizeof(to->name), "%s", l->name);
    snprintf(to->problem, sizeof(to->problem), "%s", l->why_opaque);
    snprintf(to->storage, sizeof(to->storage), "%s", storage_name(l));
    memcpy(to->shape, l->shape, sizeof(to->shape));
    to->bytes = array_rows(l) * array_row_bytes(l);
    if (l->storage == ARRAY_CHUNKED)
        describe_chunks(to, l);
    else
        to->stored_bytes = l->bytes;
}

static void compare_array(struct info_array *to, const struct array_layout *l)
{
    bool is_same = l->dtype == to->dtype && l->ndim == to->ndim;
    for (int d = 1; is_same && d < l->ndim; d++)
        is_same = l->shape[d] == to->shape[d];
    if (!is_same)
        return;
    uint64_t rows = array_rows(l);
    to->files++;
    to->least_rows = rows < to->least_rows ? rows : to->least_rows;
    to->most_rows = rows > to->most_rows ? rows : to->most_rows;
}

static void add_sound(struct info_sound *s, const struct array_layout *l)
{
    uint32_t channels = l->ndim > 1 ? (uint32_t)l->shape[1] : 1;
    bool is_first = s->most_channels == 0;
    s->shortest = is_first || l->shape[0] < s->shortest ? l->shape[0] : s->shortest;
    s->longest = l->shape[0] > s->longest ? l->shape[0] : s->longest;
    s->least_rate = is_first || l->rate < s->least_rate ? l->rate : s->least_rate;
    s->most_rate = l->rate > s->most_rate ? l->rate : s->most_rate;
    s->least_channels = is_first || channels < s->least_channels ? channels : s->least_channels;
    s->most_channels = channels > s->most_channels ? channels : s->most_channels;
    s->seconds += l->rate ? (double)l->shape[0] / l->rate : 0;
}

/* "flac", not "sound": what libsndfile reads is told apart by its own name for it. */
static void count_kind(struct info *i, const struct array_file *file)
{
    char name[16];
    snprintf(name, sizeof(name), "%s", file->format);
    if (strcmp(name, "sound") == 0 && file->count)
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(file->array[0].why_opaque, " ,"), file->array[0].why_opaque);
    info_count_format(i, name);
}

static void take_file(struct info *i, const struct dataset *d, const struct array_file *file)
{
    bool is_first = i->array_count == 0;
    count_kind(i, file);
    if (d->family == FAMILY_SOUND && file->count)
        add_sound(&i->sound, &file->array[0]);
    uint64_t rows = 0, most = 0;
    for (int k = 0; k < file->count; k++) {
        const struct array_layout *l = &file->array[k];
        uint64_t bytes = l->ndim ? array_rows(l) * array_row_bytes(l) : 0;
        rows = bytes >= most ? array_rows(l) : rows;
        most = bytes > most ? bytes : most;
        if (is_first) {
            add_array(i, l);
            continue;
        }
        for (int n = 0; n < i->array_count; n++)
            if (strcmp(i->array[n].name, l->name) == 0)
                compare_array(&i->array[n], l);
    }
    i->rows += rows;
}

/* The engine's own rule. */
static bool has_rows(const struct info *i, const struct dataset *d)
{
    if (d->family != FAMILY_ARRAY || !i->format_count)
        return false;
    return i->samples == 1 || strcmp(i->format[0].name, "hdf5") == 0;
}

/* A bucket is a round trip away, and each file takes one. */
enum { STORE_PROBES = 32, STORE_CLOSES_NS = 500000000 };

static int probe_file(const struct dataset *d, struct io *io, const struct catalog_sample *s, struct array_file *out, struct fb_error *e)
{
    const struct probe_reader reader = {.io = io};
    return io ? probe_through(&reader, s, out, e) : probe_file_alone(d, s, false, out, e);
}

void info_examine_arrays(const struct dataset *d, struct info *i, uint64_t memory)
{
    uint64_t stride = i->samples / (d->io ? STORE_PROBES : INFO_PROBES) + 1;
    struct io *io = NULL;
    if (d->io && io_open(&io, d->io, STORE_PROBES, &(struct log){0}, NULL) < 0)
        return;
    for (uint64_t k = 0; k < i->samples; k += stride) {
        struct catalog_sample s;
        struct array_file file;
        struct fb_error e;
        error_clear(&e);
        if (catalog_sample(d->catalog, k, &s, NULL) < 0)
            break;
        i->examined++;
        if (probe_file(d, io, &s, &file, &e) < 0) {
            info_note_damaged(i, s.key, &e);
            continue;
        }
        take_file(i, d, &file);
        array_file_free(&file);
    }
    if (io)
        io->ops->close(io, STORE_CLOSES_NS);
    i->has_rows = has_rows(i, d) && !d->io;
    i->rows = i->has_rows && stride == 1 ? i->rows : 0;
    info_remark(i, memory ? memory : host_default_memory());
}
