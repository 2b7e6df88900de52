#include "meter/recording.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checksum.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "recordings are written as they lie in memory, which must be little-endian"
#endif

enum { BLOCK_FACTS = 1, BLOCK_SNAPSHOT = 2, BLOCK_MARKS = 3, BLOCK_MOST = 1 << 20 };
static const char magic[4] = {'F', 'B', 'R', '1'};

struct file_head {
    char magic[4];
    uint32_t version;
};
struct block_head {
    uint32_t kind, bytes;
    uint64_t checksum;
};
_Static_assert(sizeof(struct file_head) == 8 && sizeof(struct block_head) == 16, "no padding");

struct recording_writer {
    FILE *file;
    int error;
    char path[512];
};

static void write_block(struct recording_writer *w, uint32_t kind, const void *payload, size_t bytes)
{
    struct block_head h = {kind, (uint32_t)bytes, checksum_of(payload, bytes)};
    if (w->error)
        return;
    if (fwrite(&h, sizeof(h), 1, w->file) != 1 || fwrite(payload, bytes, 1, w->file) != 1 || fflush(w->file) != 0)
        w->error = errno ? errno : EIO;
}

int recording_create(struct recording_writer **out, const char *path, struct fb_error *e)
{
    struct recording_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(e, FB_E_NOMEM, "recording", "no memory");
    w->file = fopen(path, "wbe");
    if (!w->file) {
        free(w);
        return error_set_errno(e, "recording", errno, "write %s", path);
    }
    struct file_head h = {.version = SNAPSHOT_VERSION};
    memcpy(h.magic, magic, sizeof(magic));
    snprintf(w->path, sizeof(w->path), "%s", path);
    if (fwrite(&h, sizeof(h), 1, w->file) != 1)
        w->error = errno;
    *out = w;
    return 0;
}

void recording_add(struct recording_writer *w, const struct snapshot *s)
{
    write_block(w, BLOCK_SNAPSHOT, s, sizeof(*s));
}

void recording_mark(struct recording_writer *w, const struct mark *m, int count)
{
    write_block(w, BLOCK_MARKS, m, (size_t)count * sizeof(*m));
}

void recording_note(struct recording_writer *w, const struct run_facts *facts)
{
    write_block(w, BLOCK_FACTS, facts, sizeof(*facts));
}

int recording_close(struct recording_writer *w, const struct run_facts *facts, struct fb_error *e)
{
    write_block(w, BLOCK_FACTS, facts, sizeof(*facts));
    if (fclose(w->file) != 0 && !w->error)
        w->error = errno;
    int rc = w->error ? error_set_errno(e, "recording", w->error, "write %s", w->path) : 0;
    free(w);
    return rc;
}

/* ---- reading ---- */

static int read_head(FILE *f, const char *path, struct fb_error *e)
{
    struct file_head h;
    if (fread(&h, sizeof(h), 1, f) != 1 || memcmp(h.magic, magic, sizeof(magic)) != 0) {
        error_set(e, FB_E_DATA, "recording", "this is not a recording of fullbore watch");
        error_at(e, path, -1);
        error_remedy(e, "make one with 'fullbore watch -o run.fbr -- COMMAND'");
        return FB_E_DATA;
    }
    if (h.version > SNAPSHOT_VERSION) {
        error_set(e, FB_E_UNSUPPORTED, "recording", "the recording has version %u and this fullbore reads up to %d", h.version,
                  SNAPSHOT_VERSION);
        error_at(e, path, -1);
        error_remedy(e, "use the fullbore that made it, or a newer one");
        return FB_E_UNSUPPORTED;
    }
    return 0;
}

/* The last byte of a text may be anything, and a machine has cores. */
static void make_sound(struct run_facts *f)
{
    char *const texts[] = {f->program, f->script, f->gpu_name, f->gpu_reason, f->data_mount, f->data_device, f->lost};
    const size_t sizes[] = {sizeof(f->program),    sizeof(f->script),      sizeof(f->gpu_name), sizeof(f->gpu_reason),
                            sizeof(f->data_mount), sizeof(f->data_device), sizeof(f->lost)};
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        texts[i][sizes[i] - 1] = 0;
    f->machine_cores = f->machine_cores >= 1 && f->machine_cores < 1e6 ? f->machine_cores : 1;
}

/* Every figure is a count, a size, a time or a share. What is none of these is not known; what nothing could be divided by is nothing. */
static double sound_or_unknown(double x)
{
    return !(x >= 0 && x < 1e18) ? NAN : x < 1e-9 ? 0 : x;
}

/* What an older version did not have is not known. False: the row makes no sense; what threads did is always known. */
static bool take_row(const void *payload, size_t bytes, struct snapshot *s)
{
    double *x = (double *)s;
    for (size_t i = 0; i < sizeof(*s) / sizeof(double); i++)
        x[i] = NAN;
    memcpy(s, payload, bytes);
    for (size_t i = 0; i < sizeof(*s) / sizeof(double); i++)
        x[i] = sound_or_unknown(x[i]);
    if (!(s->file_kind < FILE_KINDS))
        s->file_kind = FILE_NONE; /* the one number that becomes an index */
    for (const double *role = (const double *)s->role, *end = (const double *)(&s->role + 1); role < end; role++)
        if (isnan(*role))
            return false;
    return s->wall_s > 0 && s->wall_s < 1e9 && s->at_s < 1e12;
}

static int take_marks(struct recording *r, const void *payload, size_t bytes)
{
    uint64_t count = bytes / sizeof(struct mark), wanted = r->marks + count;
    if (count == 0 || wanted > RECORDING_MARKS_MOST)
        return 0;
    if (wanted > r->mark_capacity) {
        uint64_t capacity = wanted > 2 * r->mark_capacity ? wanted : 2 * r->mark_capacity;
        struct mark *more = realloc(r->mark, capacity * sizeof(*more));
        if (!more)
            return FB_E_NOMEM;
        r->mark = more;
        r->mark_capacity = capacity;
    }
    memcpy(r->mark + r->marks, payload, count * sizeof(struct mark));
    r->marks = wanted;
    return 0;
}

static bool is_row_size(size_t bytes)
{
    return bytes == sizeof(struct snapshot) || bytes == SNAPSHOT_BYTES_V2 || bytes == SNAPSHOT_BYTES_V1;
}

static int take_block(struct recording *r, const struct block_head *h, const void *payload)
{
    if (h->kind == BLOCK_FACTS && h->bytes <= sizeof(r->facts)) {
        memcpy(&r->facts, payload, h->bytes);
        make_sound(&r->facts);
    } else if (h->kind == BLOCK_MARKS) {
        return take_marks(r, payload, h->bytes);
    } else if (h->kind == BLOCK_SNAPSHOT && is_row_size(h->bytes)) {
        struct snapshot s;
        return take_row(payload, h->bytes, &s) ? series_add(&r->series, &s) : 0;
    }
    return 0;
}

/* Reads one block; 1: done, 0: the end or damage, negative: no memory. */
static int read_block(struct recording *r, FILE *f, void *payload)
{
    struct block_head h;
    if (fread(&h, sizeof(h), 1, f) != 1 || h.bytes == 0 || h.bytes > BLOCK_MOST || fread(payload, h.bytes, 1, f) != 1 ||
        checksum_of(payload, h.bytes) != h.checksum)
        return 0;
    int rc = take_block(r, &h, payload);
    return rc < 0 ? rc : 1;
}

static int read_blocks(struct recording *r, FILE *f, uint64_t size, struct fb_error *e)
{
    void *payload = malloc(BLOCK_MOST);
    if (!payload)
        return error_set(e, FB_E_NOMEM, "recording", "no memory");
    long good = ftell(f);
    int rc;
    while ((rc = read_block(r, f, payload)) == 1)
        good = ftell(f);
    free(payload);
    r->lost_bytes = (uint64_t)good < size ? size - (uint64_t)good : 0;
    return rc < 0 ? error_set(e, FB_E_NOMEM, "recording", "no memory") : 0;
}

int recording_read(struct recording *r, const char *path, struct fb_error *e)
{
    *r = (struct recording){.facts.exit_code = NAN};
    FILE *f = fopen(path, "rbe");
    struct stat s;
    if (!f || fstat(fileno(f), &s) < 0 || !S_ISREG(s.st_mode)) {
        int error = !f ? errno : EINVAL;
        if (f)
            fclose(f);
        return error_set_errno(e, "recording", error, "read %s", path);
    }
    int rc = read_head(f, path, e);
    if (rc == 0)
        rc = read_blocks(r, f, (uint64_t)s.st_size, e);
    fclose(f);
    if (rc == 0 && r->series.count == 0) {
        rc = error_set(e, FB_E_DATA, "recording", "the recording holds no snapshot");
        error_at(e, path, -1);
    }
    if (rc < 0)
        recording_free(r);
    return rc;
}

void recording_free(struct recording *r)
{
    series_free(&r->series);
    free(r->mark);
    r->mark = NULL;
}
