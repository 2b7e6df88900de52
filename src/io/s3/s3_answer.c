#include "io/s3/s3_answer.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/checksum.h"
#include "io/s3/s3_time.h"

void s3_answer_clear(struct s3_answer *a)
{
    *a = (struct s3_answer){.content_length = S3_UNKNOWN,
                            .range_total = S3_UNKNOWN,
                            .version = {.modified_s = -1, .size = S3_UNKNOWN},
                            .date_s = -1,
                            .retry_after_s = -1};
}

/* ---- versions ---- */

uint64_t s3_etag_hash(const char *etag, size_t n)
{
    if (n >= 2 && etag[0] == 'W' && etag[1] == '/') {
        etag += 2;
        n -= 2;
    }
    if (n >= 2 && etag[0] == '"' && etag[n - 1] == '"') {
        etag++;
        n -= 2;
    }
    if (n == 0)
        return 0;
    uint64_t hash = checksum_of(etag, n);
    return hash ? hash : 1;
}

enum { SECOND_NS = 1000000000 };

bool s3_version_is(const struct s3_version *v, int64_t expected)
{
    if (expected <= 0)
        return false;
    if (v->etag_hash)
        return (uint64_t)(expected % SECOND_NS) == v->etag_hash % SECOND_NS;
    return v->modified_s >= 0 && expected / SECOND_NS == v->modified_s;
}

int64_t s3_version_mtime_ns(const struct s3_version *v, int64_t expected)
{
    if (s3_version_is(v, expected))
        return expected;
    int64_t seconds = v->modified_s > 0 && v->modified_s < INT64_MAX / SECOND_NS - 1 ? v->modified_s : 1;
    return seconds * SECOND_NS + (int64_t)(v->etag_hash % SECOND_NS);
}

bool s3_version_differs(const struct s3_version *a, const struct s3_version *b)
{
    if (a->size != S3_UNKNOWN && b->size != S3_UNKNOWN && a->size != b->size)
        return true;
    if (a->etag_hash || b->etag_hash)
        return a->etag_hash != b->etag_hash;
    return a->modified_s < 0 || a->modified_s != b->modified_s;
}

/* ---- the head ---- */

struct span {
    const char *at;
    size_t n;
};

static bool take_number(struct span *s, uint64_t *out)
{
    uint64_t value = 0;
    size_t digits = 0;
    for (; s->n > 0 && isdigit((unsigned char)*s->at); s->at++, s->n--, digits++) {
        if (digits == 18)
            return false;
        value = 10 * value + (uint64_t)(*s->at - '0');
    }
    *out = value;
    return digits > 0;
}

static bool take_word(struct span *s, const char *word)
{
    size_t n = strlen(word);
    if (s->n < n || strncasecmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    s->n -= n;
    return true;
}

static void copy(struct span v, char *out, size_t out_size)
{
    size_t n = v.n < out_size ? v.n : 0; /* too long: none */
    memcpy(out, v.at, n);
    out[n] = 0;
}

/* "bytes 10-19/100", "bytes 10-19/(star)", "bytes (star)/100" */
static void read_range(struct s3_answer *a, struct span v)
{
    uint64_t first, last, total = S3_UNKNOWN;
    if (!take_word(&v, "bytes "))
        return;
    if (take_word(&v, "*/")) {
        if (take_number(&v, &total))
            a->range_total = total;
        return;
    }
    if (!take_number(&v, &first) || !take_word(&v, "-") || !take_number(&v, &last) || !take_word(&v, "/") || last < first)
        return;
    if (!take_word(&v, "*") && (!take_number(&v, &total) || total <= last))
        return;
    a->has_range = true;
    a->range_first = first;
    a->range_last = last;
    a->range_total = total;
}

static void read_etag(struct s3_answer *a, struct span v)
{
    copy(v, a->version.etag, sizeof(a->version.etag));
    a->version.etag_hash = s3_etag_hash(v.at, v.n);
}

static void read_length(struct s3_answer *a, struct span v)
{
    uint64_t n;
    a->content_length = take_number(&v, &n) && v.n == 0 ? n : S3_UNKNOWN;
}

static void read_retry(struct s3_answer *a, struct span v)
{
    char date[64];
    uint64_t seconds;
    copy(v, date, sizeof(date));
    int64_t at = s3_time_http(date);
    if (take_number(&v, &seconds) && v.n == 0)
        a->retry_after_s = seconds > 3600 ? 3600 : (int)seconds;
    else if (at > 0 && a->date_s > 0)
        a->retry_after_s = at <= a->date_s ? 0 : at - a->date_s > 3600 ? 3600 : (int)(at - a->date_s);
}

static int64_t read_time(struct span v)
{
    char text[64];
    copy(v, text, sizeof(text));
    return s3_time_http(text);
}

static void read_status(struct s3_answer *a, struct span line)
{
    uint64_t status;
    s3_answer_clear(a);
    const char *space = memchr(line.at, ' ', line.n);
    struct span rest = {space ? space + 1 : line.at, space ? line.n - (size_t)(space + 1 - line.at) : 0};
    if (take_number(&rest, &status) && status >= 100 && status < 600)
        a->status = (int)status;
}

void s3_answer_line(struct s3_answer *a, const char *line, size_t n)
{
    while (n > 0 && isspace((unsigned char)line[n - 1]))
        n--;
    struct span all = {line, n};
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        read_status(a, all);
        return;
    }
    const char *colon = memchr(line, ':', n);
    if (!colon)
        return;
    struct span name = {line, (size_t)(colon - line)}, v = {colon + 1, n - name.n - 1};
    while (v.n > 0 && (*v.at == ' ' || *v.at == '\t')) {
        v.at++;
        v.n--;
    }
#define IS(word) (name.n == sizeof(word) - 1 && strncasecmp(name.at, word, sizeof(word) - 1) == 0)
    if (IS("content-length"))
        read_length(a, v);
    else if (IS("etag"))
        read_etag(a, v);
    else if (IS("content-range"))
        read_range(a, v);
    else if (IS("last-modified"))
        a->version.modified_s = read_time(v);
    else if (IS("date"))
        a->date_s = read_time(v);
    else if (IS("transfer-encoding"))
        a->is_chunked = v.n >= 7 && strncasecmp(v.at + v.n - 7, "chunked", 7) == 0;
    else if (IS("retry-after"))
        read_retry(a, v);
    else if (IS("location"))
        copy(v, a->location, sizeof(a->location));
    else if (IS("x-amz-bucket-region"))
        copy(v, a->region, sizeof(a->region));
#undef IS
}

/* ---- the verdict ---- */

static enum s3_verdict nonsense(const char **why, const char *what)
{
    *why = what;
    return S3_NONSENSE;
}

static enum s3_verdict check_version(const struct s3_version *v, const struct s3_wanted *w, const char **why)
{
    if (w->pin && s3_version_differs(v, w->pin))
        return S3_CHANGED;
    if (w->must_match && w->expected_mtime_ns && !s3_version_is(v, w->expected_mtime_ns))
        return S3_CHANGED;
    if (v->etag_hash && w->expected_size != S3_UNKNOWN && v->size != S3_UNKNOWN && v->size != w->expected_size &&
        s3_version_is(v, w->expected_mtime_ns))
        return nonsense(why, "the object's size differs from its listing, but its ETag does not");
    return S3_TAKE;
}

static enum s3_verdict judge_part(const struct s3_answer *a, const struct s3_wanted *w, uint64_t *body, const char **why)
{
    uint64_t n = a->range_last - a->range_first + 1;
    if (w->length == S3_ALL)
        return nonsense(why, "the server sent only part of the object, but all of it was requested");
    if (a->range_first != w->offset || n > w->length)
        return nonsense(why, "the server sent other bytes than those requested");
    if (n < w->length && a->range_last + 1 != a->range_total)
        return nonsense(why, "the server sent fewer bytes than requested");
    if (a->content_length != S3_UNKNOWN && a->content_length != n)
        return nonsense(why, "Content-Length and Content-Range contradict each other");
    *body = n;
    return n <= w->room ? S3_TAKE : S3_TOO_LARGE;
}

static enum s3_verdict judge_whole(const struct s3_answer *a, const struct s3_wanted *w, uint64_t *skip, uint64_t *body, const char **why)
{
    uint64_t size = a->content_length;
    if (size == S3_UNKNOWN && !a->is_chunked)
        return nonsense(why, "the answer does not say how long it is");
    if (w->length == S3_ALL) {
        *body = size;
        return size == S3_UNKNOWN || size <= w->room ? S3_TAKE : S3_TOO_LARGE;
    }
    if (w->offset == 0 && size != S3_UNKNOWN && size <= w->length && size <= w->room) {
        *body = size;
        return S3_TAKE;
    }
    if (!w->may_skip || size == S3_UNKNOWN)
        return S3_NO_RANGES;
    if (size <= w->offset)
        return S3_NOTHING;
    *skip = w->offset;
    *body = size - w->offset < w->length ? size - w->offset : w->length;
    return *body <= w->room ? S3_TAKE : S3_TOO_LARGE;
}

enum s3_verdict s3_answer_judge(const struct s3_answer *a, const struct s3_wanted *w, uint64_t *skip, uint64_t *body, const char **why)
{
    struct s3_version v = a->version;
    *skip = 0;
    *body = S3_UNKNOWN;
    *why = "";
    if (a->status == 412)
        return S3_CHANGED;
    if (a->status == 416)
        return w->length == S3_ALL ? nonsense(why, "416 without a range") : S3_NOTHING;
    if (a->status != 200 && a->status != 206)
        return a->status < 300 ? nonsense(why, "an answer that does not fit the request") : S3_ERROR_BODY;
    if (a->status == 206 && !a->has_range)
        return nonsense(why, "206 without Content-Range");
    v.size = a->has_range ? a->range_total : a->content_length;
    enum s3_verdict verdict = check_version(&v, w, why);
    if (verdict != S3_TAKE)
        return verdict;
    return a->has_range ? judge_part(a, w, body, why) : judge_whole(a, w, skip, body, why);
}
