#include "feed/audit_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/rng.h"
#include "base/text/json_writer.h"
#include "feed/feed.h"
#include "model/audit_format.h"

enum { SOURCE_BYTES = 4096, COMPARE_BYTES = 16 << 20, MOST_PLACE_BYTES = 5 * AUDIT_VARINT_BYTES + AUDIT_PLACE_BYTES, HEAD_BYTES = 64 };

struct audit {
    pthread_mutex_t lock;
    /* under lock */
    int fd;
    uint64_t digest;
    bool is_broken; /* a write failed: nothing more is written */
    /* the consumer's thread */
    bool has_run;
    uint8_t *batch; /* a record being put together */
    size_t batch_capacity;
};

/* ---- records ---- */

/* `record` has room for the frame before the payload and the check after it: one write, so that only the last record can be torn. */
static void append(struct feed *f, enum audit_type type, uint8_t *record, size_t payload)
{
    struct audit *a = f->audit;
    size_t n = AUDIT_FRAME_BYTES + payload;
    char reason[128];
    record[0] = (uint8_t)type;
    audit_put_le(record + 1, payload, 4);
    pthread_mutex_lock(&a->lock);
    audit_put_le(record + AUDIT_FRAME_BYTES - AUDIT_CHECK_BYTES, audit_frame_check(a->digest, record), AUDIT_CHECK_BYTES);
    uint64_t digest = audit_digest(a->digest, record, n);
    audit_put_le(record + n, digest, AUDIT_CHECK_BYTES);
    if (!a->is_broken && file_write_all(a->fd, record, n + AUDIT_CHECK_BYTES, NULL) < 0) {
        a->is_broken = true;
        log_line(&f->log, LOG_ERROR, "the audit log ends here, and cannot prove anything from now on: %s",
                 text_errno(errno, reason, sizeof(reason)));
    }
    a->digest = digest;
    pthread_mutex_unlock(&a->lock);
}

static void append_text(struct feed *f, enum audit_type type, struct text *t)
{
    uint8_t *record = t->failed ? NULL : malloc(AUDIT_FRAME_BYTES + t->length + AUDIT_CHECK_BYTES);
    if (record) {
        memcpy(record + AUDIT_FRAME_BYTES, t->data, t->length);
        append(f, type, record, t->length);
    }
    free(record);
    text_free(t);
}

/* ---- opening ---- */

/* Everything that decides about pixels, beside the sample and the position. */
static uint64_t config_of(const struct feed *f, const fb_options *o)
{
    const char *transforms = o->transforms ? o->transforms : "";
    uint64_t h = checksum_of(transforms, strlen(transforms));
    h = rng_mix(rng_mix(rng_mix(h, (uint64_t)o->dtype), (uint64_t)o->layout), (uint64_t)(o->exif != 0));
    for (int i = 0; i < f->labels.count; i++)
        h = rng_mix(h, checksum_of(f->labels.field[i].name, strlen(f->labels.field[i].name)));
    return h;
}

static void write_head(struct feed *f, const fb_options *o)
{
    struct text t = {.limit = 4096};
    json_put(&(struct json_writer){.out = &t},
             J_OBJECT(NULL, J("format", AUDIT_FORMAT), J("fullbore", FB_VERSION), J("pid", f->pid),
                      J_HEX("fingerprint", f->origin.fingerprint), J("samples", f->origin.samples), J_QUOTED("seed", f->seed),
                      J("order", order_kind_name(f->origin.order)), J_ARRAY("window", J(NULL, f->origin.block), J(NULL, f->origin.window)),
                      J_HEX("config", config_of(f, o))));
    append_text(f, AUDIT_HEAD, &t);
}

static int open_log(const char *dir, struct fb_error *e)
{
    char path[4096];
    uint64_t random;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
        random = (uint64_t)now.tv_nsec << 20 ^ (uint64_t)getpid();
    int n = snprintf(path, sizeof(path), "%s/%lld-%d-%016" PRIx64 AUDIT_SUFFIX, dir, (long long)now.tv_sec, (int)getpid(), random);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(e, FB_E_USAGE, "feed", "the path in FULLBORE_AUDIT is too long");
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return error_set_errno(e, "feed", errno, "make the directory of FULLBORE_AUDIT");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666);
    return fd >= 0 ? fd : error_set_errno(e, "feed", errno, "write to the directory of FULLBORE_AUDIT");
}

int audit_open(struct feed *f, const fb_options *o, struct fb_error *e)
{
    const char *dir = getenv("FULLBORE_AUDIT");
    if (!dir || !dir[0])
        return 0;
    int fd = open_log(dir, e);
    if (fd < 0) {
        error_at(e, dir, -1);
        return fd;
    }
    struct audit *a = calloc(1, sizeof(*a));
    if (!a) {
        close(fd);
        return error_set_errno(e, "feed", ENOMEM, "keep an audit log");
    }
    pthread_mutex_init(&a->lock, NULL);
    a->fd = fd;
    f->audit = a;
    write_head(f, o);
    return 0;
}

void audit_close(struct feed *f)
{
    struct audit *a = f->audit;
    if (!a)
        return;
    audit_end(f, "closed");
    f->audit = NULL;
    close(a->fd);
    pthread_mutex_destroy(&a->lock);
    free(a->batch);
    free(a);
}

/* ---- stretches ---- */

void audit_end(struct feed *f, const char *why)
{
    if (!f->audit || !f->audit->has_run)
        return;
    struct text t = {.limit = 64};
    json_put(&(struct json_writer){.out = &t}, J_OBJECT(NULL, J("why", why)));
    append_text(f, AUDIT_END, &t);
    f->audit->has_run = false;
}

static void write_run(struct feed *f)
{
    struct timespec now;
    struct text t = {.limit = 4096};
    struct json_writer w = {.out = &t};
    const struct run *r = &f->live;
    const struct rank_layout *l = &f->layout;
    clock_gettime(CLOCK_REALTIME, &now);
    json_begin_object(&w, NULL);
    json_put(&w, J("began_ns", (int64_t)now.tv_sec * 1000000000 + now.tv_nsec), J("epoch", r->epoch), J("start", r->start),
             J("rank", l->rank), J("world", l->world), J("global_batch", l->global_batch), J_BOOL("drop_last", l->drop_last));
    skips_json(&r->skips, &w);
    json_end(&w);
    append_text(f, AUDIT_RUN, &t);
}

void audit_run(struct feed *f)
{
    if (!f->audit)
        return;
    audit_end(f, "left");
    write_run(f);
    f->audit->has_run = true;
}

void audit_bad(struct feed *f, uint64_t epoch, uint64_t sample, const char *key, const char *cause)
{
    if (!f->audit)
        return;
    struct text t = {.limit = 16384};
    json_put(&(struct json_writer){.out = &t}, J_OBJECT(NULL, J("epoch", epoch), J("sample", sample), J("key", key), J("cause", cause)));
    append_text(f, AUDIT_BAD, &t);
}

/* ---- places ---- */

/* Where a field of a place lies, and how much of it is the sample's. `is_packed`: all loads are done, and ragged rows lie together. */
static const void *field_of(const struct slot *s, int field, uint32_t place, bool is_packed, size_t *bytes)
{
    const struct slot_field *d = &s->shape->field[field];
    *bytes = d->packing == SLOT_STACKED ? d->sample_bytes : s->rows[place] * d->sample_bytes;
    if (d->packing != SLOT_RAGGED || !is_packed)
        return slot_at(s, field, place);
    const int64_t *offsets = slot_at(s, s->shape->length_field, 0);
    return (const char *)s->rows_memory + s->rows_at[field] + (size_t)offsets[place] * d->sample_bytes;
}

static uint32_t content_of(const struct slot *s, uint32_t place, bool is_packed)
{
    uint64_t h = 0;
    for (int i = 0; i < s->shape->field_count; i++) {
        if (s->shape->has_rows && i == s->shape->length_field) /* made last of all */
            continue;
        size_t bytes;
        const void *data = field_of(s, i, place, is_packed, &bytes);
        h = rng_mix(h, checksum_of(data, bytes));
    }
    return (uint32_t)h;
}

/* Never 0, which means "not known". */
static uint16_t source_of(const void *bytes, size_t n)
{
    uint64_t h = rng_mix(checksum_of(bytes, n < SOURCE_BYTES ? n : SOURCE_BYTES), n);
    return (uint16_t)(h % UINT16_MAX + 1);
}

void audit_prepare(struct feed *f, struct slot *s)
{
    struct load *loads = s->loads;
    for (uint32_t i = 0; f->audit && i < s->count; i++)
        loads[i].proof = (struct audit_proof){0};
}

void audit_placed(struct feed *f, const struct load *l, const void *bytes, size_t n)
{
    if (!f->audit)
        return;
    struct load *loads = l->slot->loads; /* the place is this load's alone, whichever has its number */
    loads[l->place].proof = (struct audit_proof){
        .sample = l->selected,
        .position = l->position,
        .attempt = l->attempt,
        .content = content_of(l->slot, l->place, false),
        .source = bytes ? source_of(bytes, n) : 0,
        .is_there = true,
    };
}

void audit_row_attempt(const struct slot *s, uint32_t place, uint32_t attempt)
{
    ((struct load *)s->loads)[place].proof.attempt = attempt;
}

void audit_row(struct feed *f, const struct slot *s, uint32_t place)
{
    if (!f->audit)
        return;
    struct audit_proof *p = &((struct load *)s->loads)[place].proof;
    p->sample = s->place[place].selected;
    p->position = s->place[place].position;
    p->content = content_of(s, place, false);
    p->is_there = true;
}

/* ---- batches ---- */

static bool reserve(struct audit *a, uint32_t count)
{
    size_t n = AUDIT_FRAME_BYTES + HEAD_BYTES + (size_t)count * MOST_PLACE_BYTES + AUDIT_CHECK_BYTES;
    if (n <= a->batch_capacity)
        return true;
    uint8_t *more = realloc(a->batch, n);
    if (!more)
        return false;
    a->batch = more;
    a->batch_capacity = n;
    return true;
}

static uint8_t *put_place(uint8_t *at, const struct audit_proof *p, uint64_t last_sample, uint64_t expected, bool is_changed)
{
    uint64_t note = (p->is_there ? 0 : AUDIT_EMPTY) | (is_changed ? AUDIT_CHANGED : 0);
    bool has_note = note || p->attempt || p->position != expected;
    at = audit_put_varint(at, audit_zigzag(last_sample, p->sample) << 1 | has_note);
    if (has_note) {
        at = audit_put_varint(at, note);
        at = audit_put_varint(at, p->attempt);
        at = audit_put_varint(at, audit_zigzag(expected, p->position));
    }
    audit_put_le(at, p->content, 4);
    audit_put_le(at + 4, p->source, 2);
    return at + AUDIT_PLACE_BYTES;
}

/* Which places are compared once more: as many as the consumer can spare, in turn. */
static uint32_t compared_places(const struct slot *s)
{
    size_t each = s->shape->bytes / s->shape->places + s->shape->row_bytes * (s->longest + 1) + 1, most = COMPARE_BYTES / each + 1;
    return s->count < most ? s->count : (uint32_t)most;
}

void audit_delivered(struct feed *f, const struct slot *s)
{
    struct audit *a = f->audit;
    if (!a || !reserve(a, s->count))
        return;
    const struct load *loads = s->loads;
    uint32_t compared = compared_places(s), from = (uint32_t)(s->batch * compared % s->count);
    uint64_t sample = 0, expected = s->first;
    uint8_t *payload = a->batch + AUDIT_FRAME_BYTES, *at = payload;
    at = audit_put_varint(at, s->batch);
    at = audit_put_varint(at, s->count);
    at = audit_put_varint(at, compared);
    at = audit_put_varint(at, s->first);
    for (uint32_t i = 0; i < s->count; i++) {
        struct audit_proof p = loads[i].proof;
        bool is_compared = p.is_there && (i + s->count - from) % s->count < compared;
        if (!p.is_there)
            p = (struct audit_proof){.sample = sample, .position = expected};
        at = put_place(at, &p, sample, expected, is_compared && content_of(s, i, true) != p.content);
        sample = p.sample;
        expected = p.position + 1;
    }
    append(f, AUDIT_BATCH, a->batch, (size_t)(at - payload));
}
