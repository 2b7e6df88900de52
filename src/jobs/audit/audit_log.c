#include "jobs/audit/audit_log.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/text/text.h"
#include "model/audit_format.h"

enum { MOST_TEXT = 1 << 20, MOST_RANKS = 1 << 20, MOST_PLACES = 1 << 24 };

/* ---- growing lists ---- */

/* Room for one more of `size` bytes after `count`; capacities are powers of two. */
static bool grow(void *list, uint64_t count, size_t size)
{
    void **p = list;
    if (count & (count - 1) || (count && count < 16))
        return true;
    void *more = realloc(*p, (count ? 2 * count : 16) * size);
    if (more)
        *p = more;
    return more != NULL;
}

/* ---- JSON records ---- */

static bool get_number(const json_t *o, const char *name, uint64_t *out)
{
    const json_t *v = json_object_get(o, name);
    *out = json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v) : 0;
    return json_is_integer(v) && json_integer_value(v) >= 0;
}

/* Digits in a string, of base 10 or 16. */
static bool get_digits(const json_t *o, const char *name, int base, uint64_t *out)
{
    const char *text = json_string_value(json_object_get(o, name));
    return text && text_parse_digits(text, base, out);
}

static bool take_head(struct audit_log *l, const json_t *o)
{
    uint64_t format;
    const char *order = json_string_value(json_object_get(o, "order"));
    bool is_good = get_number(o, "format", &format) && format == AUDIT_FORMAT && order;
    is_good = is_good && get_digits(o, "fingerprint", 16, &l->fingerprint) && get_digits(o, "config", 16, &l->config);
    is_good = is_good && get_digits(o, "seed", 10, &l->seed) && get_number(o, "samples", &l->samples);
    l->order = is_good ? order_kind_named(order) : ORDER_KINDS;
    const json_t *window = json_object_get(o, "window"), *block = json_array_get(window, 0), *blocks = json_array_get(window, 1);
    l->block = json_is_integer(block) && json_integer_value(block) > 0 ? (uint64_t)json_integer_value(block) : 0;
    l->window = json_is_integer(blocks) && json_integer_value(blocks) > 0 ? (uint64_t)json_integer_value(blocks) : 0;
    if (l->order == ORDER_WINDOW && (!l->block || !l->window))
        return false;
    l->has_head = is_good && l->order != ORDER_KINDS && l->samples > 0 && l->samples < INT64_MAX / 4;
    return l->has_head;
}

static bool get_skips(const json_t *o, struct skips *s, uint64_t samples)
{
    const json_t *list = json_object_get(o, "skip");
    if (!json_is_array(list) || json_array_size(list) > SKIPS_MOST)
        return false;
    for (size_t i = 0; i < json_array_size(list); i++, s->count++) {
        const json_t *first = json_array_get(json_array_get(list, i), 0), *last = json_array_get(json_array_get(list, i), 1);
        if (!json_is_integer(first) || !json_is_integer(last))
            return false;
        s->range[i] = (struct skip){(uint64_t)json_integer_value(first), (uint64_t)json_integer_value(last)};
    }
    return skips_are_sound(s, samples);
}

static bool take_run(struct audit_log *l, const json_t *o)
{
    struct audit_stretch s = {.first_batch = l->batches};
    uint64_t began, rank, world;
    struct fb_error unused = {0};
    bool is_good = get_number(o, "began_ns", &began) && get_number(o, "epoch", &s.epoch) && get_number(o, "start", &s.start);
    is_good = is_good && get_number(o, "rank", &rank) && get_number(o, "world", &world) && world <= MOST_RANKS;
    is_good = is_good && get_number(o, "global_batch", &s.layout.global_batch) && get_skips(o, &s.skips, l->samples);
    if (!is_good || (l->order != ORDER_GIVEN && s.start > l->samples))
        return false;
    s.began_ns = (int64_t)began;
    s.layout.count = l->order == ORDER_GIVEN ? 0 : l->samples;
    s.layout.rank = (uint32_t)rank;
    s.layout.world = (uint32_t)world;
    s.layout.drop_last = json_is_true(json_object_get(o, "drop_last"));
    if (ranks_check(&s.layout, &unused) < 0 || !grow(&l->stretch, l->stretches, sizeof(s)))
        return false;
    l->stretch[l->stretches++] = s;
    return true;
}

static bool take_bad(struct audit_log *l, const json_t *o)
{
    struct audit_bad_sample b;
    const char *key = json_string_value(json_object_get(o, "key")), *cause = json_string_value(json_object_get(o, "cause"));
    if (!key || !cause || !get_number(o, "epoch", &b.epoch) || !get_number(o, "sample", &b.sample) || !grow(&l->bad, l->bads, sizeof(b)))
        return false;
    b.key = strdup(key);
    b.cause = strdup(cause);
    l->bad[l->bads++] = b;
    return b.key && b.cause;
}

static bool take_end(struct audit_log *l, const json_t *o)
{
    static const char *const words[] = {"", "done", "left", "failed", "closed"};
    const char *why = json_string_value(json_object_get(o, "why"));
    for (int i = AUDIT_DONE; why && l->stretches && i <= AUDIT_CLOSED; i++)
        if (strcmp(words[i], why) == 0) {
            l->stretch[l->stretches - 1].why = (enum audit_why)i;
            return true;
        }
    return false;
}

/* False: it makes no sense. Records of a kind that is not known are passed over. */
static bool take_text(struct audit_log *l, uint8_t type, const uint8_t *payload, size_t n)
{
    static const struct {
        uint8_t type;
        bool (*take)(struct audit_log *, const json_t *);
    } kinds[] = {{AUDIT_HEAD, take_head}, {AUDIT_RUN, take_run}, {AUDIT_BAD, take_bad}, {AUDIT_END, take_end}};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (kinds[i].type != type)
            continue;
        /* names that are not UTF-8 come as surrogates, which jansson refuses: the record is then only not named */
        json_t *o = n <= MOST_TEXT ? json_loadb((const char *)payload, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
        bool is_good = o ? kinds[i].take(l, o) : type == AUDIT_BAD;
        json_decref(o);
        return is_good;
    }
    return true;
}

static bool take_batch(struct audit_log *l, uint64_t offset, size_t n)
{
    if (l->stretches == 0 || !grow(&l->batch, l->batches, sizeof(*l->batch)))
        return false;
    l->batch[l->batches++] = (struct audit_batch_at){offset, (uint32_t)n};
    l->stretch[l->stretches - 1].batches++;
    return true;
}

/* ---- the file ---- */

struct reading {
    struct audit_log *l;
    uint8_t *record;
    size_t capacity;
    uint64_t at;
};

/* False: the frame is not whole, or its check does not fit. */
static bool read_frame(const struct audit_log *l, uint64_t at, uint64_t *payload)
{
    uint8_t frame[AUDIT_FRAME_BYTES];
    if (l->bytes - at < sizeof(frame) || file_read_all_at(l->fd, frame, sizeof(frame), at) < sizeof(frame))
        return false;
    *payload = audit_get_le(frame + 1, 4);
    return *payload <= AUDIT_MAX_RECORD &&
           audit_get_le(frame + AUDIT_FRAME_BYTES - AUDIT_CHECK_BYTES, AUDIT_CHECK_BYTES) == audit_frame_check(l->digest, frame);
}

/* The next record: its payload's length, or -1: it is not whole, or a check does not fit. */
static int64_t next_record(struct reading *r)
{
    struct audit_log *l = r->l;
    uint8_t check[AUDIT_CHECK_BYTES];
    uint64_t payload, left = l->bytes - r->at;
    if (!read_frame(l, r->at, &payload) || AUDIT_FRAME_BYTES + payload + AUDIT_CHECK_BYTES > left)
        return -1;
    uint64_t n = AUDIT_FRAME_BYTES + payload;
    if (n > r->capacity) {
        uint8_t *more = realloc(r->record, n);
        if (!more)
            return -1;
        r->record = more;
        r->capacity = n;
    }
    if (file_read_all_at(l->fd, r->record, n, r->at) < n || file_read_all_at(l->fd, check, sizeof(check), r->at + n) < sizeof(check))
        return -1;
    uint64_t digest = audit_digest(l->digest, r->record, n);
    if (audit_get_le(check, AUDIT_CHECK_BYTES) != (uint32_t)digest)
        return -1;
    l->digest = digest;
    return (int64_t)payload;
}

static bool is_zeros(const struct audit_log *l, uint64_t at)
{
    uint8_t piece[4096];
    while (at < l->bytes) {
        size_t n = l->bytes - at < sizeof(piece) ? (size_t)(l->bytes - at) : sizeof(piece);
        if (file_read_all_at(l->fd, piece, n, at) < n)
            return true;
        for (size_t i = 0; i < n; i++)
            if (piece[i])
                return false;
        at += n;
    }
    return true;
}

/* A killed process leaves a piece of a frame, or a whole frame and a record that reaches beyond the end of the file. A power failure leaves
 * zeros up to the end, in the last record or instead of it. Everything else is damage. */
static bool is_torn(const struct audit_log *l, uint64_t at)
{
    uint64_t payload, left = l->bytes - at;
    if (left < AUDIT_FRAME_BYTES || is_zeros(l, at))
        return true;
    if (!read_frame(l, at, &payload))
        return false;
    uint64_t whole = AUDIT_FRAME_BYTES + payload + AUDIT_CHECK_BYTES;
    return whole > left || (whole == left && is_zeros(l, l->bytes - AUDIT_CHECK_BYTES));
}

static void read_records(struct audit_log *l)
{
    struct reading r = {.l = l};
    while (r.at < l->bytes) {
        int64_t n = next_record(&r);
        if (n < 0) {
            l->is_damaged = !is_torn(l, r.at);
            l->torn_bytes = l->is_damaged ? 0 : l->bytes - r.at;
            break;
        }
        const uint8_t *payload = r.record + AUDIT_FRAME_BYTES;
        bool is_first = r.at == 0, is_head = r.record[0] == AUDIT_HEAD;
        bool is_good = is_first == is_head && (r.record[0] == AUDIT_BATCH ? take_batch(l, r.at + AUDIT_FRAME_BYTES, (size_t)n)
                                                                          : take_text(l, r.record[0], payload, (size_t)n));
        if (!is_good) {
            l->is_damaged = true;
            break;
        }
        r.at += AUDIT_FRAME_BYTES + (uint64_t)n + AUDIT_CHECK_BYTES;
    }
    l->damaged_at = r.at;
    free(r.record);
}

int audit_log_open(struct audit_log *l, const char *path, struct fb_error *e)
{
    struct stat st;
    *l = (struct audit_log){.path = strdup(path), .fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
    int failed = l->fd < 0 || fstat(l->fd, &st) < 0 ? errno : !l->path ? ENOMEM : !S_ISREG(st.st_mode) ? EINVAL : 0;
    if (failed) {
        int rc = error_set_errno(e, "audit", failed, "read an audit log");
        error_at(e, path, -1);
        audit_log_close(l);
        return rc;
    }
    l->bytes = (uint64_t)st.st_size;
    read_records(l);
    return 0;
}

void audit_log_close(struct audit_log *l)
{
    for (uint64_t i = 0; i < l->bads; i++) {
        free(l->bad[i].key);
        free(l->bad[i].cause);
    }
    free(l->bad);
    free(l->batch);
    free(l->stretch);
    free(l->path);
    if (l->fd >= 0)
        close(l->fd);
    *l = (struct audit_log){.fd = -1};
}

/* ---- batches ---- */

static bool reserve(struct audit_batch *b, size_t bytes, uint64_t places)
{
    if (bytes > b->bytes_capacity) {
        uint8_t *more = realloc(b->bytes, bytes);
        if (!more)
            return false;
        b->bytes = more;
        b->bytes_capacity = bytes;
    }
    if (places > b->capacity) {
        struct audit_place *more = realloc(b->place, places * sizeof(*more));
        if (!more)
            return false;
        b->place = more;
        b->capacity = places;
    }
    return true;
}

static bool decode_place(const uint8_t **at, const uint8_t *end, uint64_t *sample, uint64_t *position, struct audit_place *p)
{
    uint64_t v, note = 0, step = 0;
    *p = (struct audit_place){0};
    if (!audit_get_varint(at, end, &v))
        return false;
    if ((v & 1) && !(audit_get_varint(at, end, &note) && audit_get_varint(at, end, &p->attempt) && audit_get_varint(at, end, &step)))
        return false;
    if (end - *at < AUDIT_PLACE_BYTES)
        return false;
    p->sample = audit_unzigzag(*sample, v >> 1);
    p->position = audit_unzigzag(*position, step);
    p->note = (uint8_t)note;
    p->content = (uint32_t)audit_get_le(*at, 4);
    p->source = (uint16_t)audit_get_le(*at + 4, 2);
    *at += AUDIT_PLACE_BYTES;
    *sample = p->sample;
    *position = p->position + 1;
    return true;
}

static bool decode_batch(const uint8_t *at, size_t n, struct audit_batch *b)
{
    const uint8_t *end = at + n;
    uint64_t sample = 0, position;
    if (!audit_get_varint(&at, end, &b->number) || !audit_get_varint(&at, end, &b->count) || !audit_get_varint(&at, end, &b->compared) ||
        !audit_get_varint(&at, end, &position))
        return false;
    if (b->count > MOST_PLACES || b->count * (1 + AUDIT_PLACE_BYTES) > (uint64_t)(end - at) || !reserve(b, 0, b->count))
        return false;
    for (uint64_t i = 0; i < b->count; i++)
        if (!decode_place(&at, end, &sample, &position, &b->place[i]))
            return false;
    return at == end;
}

int audit_log_batch(const struct audit_log *l, uint64_t i, struct audit_batch *b, struct fb_error *e)
{
    const struct audit_batch_at *where = &l->batch[i];
    if (!reserve(b, where->bytes, 0))
        return error_set_errno(e, "audit", ENOMEM, "read a batch of an audit log");
    if (where->bytes == 0 || file_read_all_at(l->fd, b->bytes, where->bytes, where->offset) < where->bytes ||
        !decode_batch(b->bytes, where->bytes, b)) {
        error_set(e, FB_E_DATA, "audit", "a batch of the log makes no sense");
        error_at(e, l->path, (int64_t)where->offset);
        return FB_E_DATA;
    }
    return 0;
}

void audit_batch_free(struct audit_batch *b)
{
    free(b->place);
    free(b->bytes);
    *b = (struct audit_batch){0};
}
