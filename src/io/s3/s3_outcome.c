/* What follows from an answer: it is accepted, the request is repeated, or it fails with an error text.
 *
 * Tried again: what may be different next time (no answer, a broken or dishonest one, 5xx, 408, 429). Not tried again: 400, 403, 404 and
 * their like, except for three causes that we can correct ourselves: a clock that is wrong, keys that have expired, a bucket in another
 * region. What the server says is shown only as its code and its message, escaped.
 */
#include <stdio.h>
#include <string.h>

#include "io/s3/loop/s3_flight.h"

static const char *const expired_words[] = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken", NULL};
static const char *const busy_words[] = {
    "SlowDown", "ServiceUnavailable", "ThrottlingException", "Throttling", "RequestLimitExceeded", "TooManyRequests", NULL};
static const char *const again_words[] = {"RequestTimeout", "InternalError", "OperationAborted", NULL};

static bool is_one_of(const char *word, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

/* ---- words ---- */

static void add_remedy(const struct s3_xml_error *said, int status, const struct s3_place *p, struct fb_error *e)
{
    const char *code = said->code;
    if (strcmp(code, "NoSuchBucket") == 0)
        error_remedy(e, "there is no bucket '%s' at %s: check its name, and AWS_ENDPOINT_URL", p->bucket, p->host);
    else if (strcmp(code, "InvalidAccessKeyId") == 0)
        error_remedy(e, "the server %s does not know this access key: check AWS_PROFILE or AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL",
                     p->host);
    else if (strcmp(code, "SignatureDoesNotMatch") == 0)
        error_remedy(e, "the secret key does not fit the access key: check AWS_SECRET_ACCESS_KEY");
    else if (is_one_of(code, expired_words))
        error_remedy(e, "the session token has expired: renew it");
    else if (strcmp(code, "InvalidObjectState") == 0)
        error_remedy(e, "the object is archived (Glacier): restore it first");
    else if (status == 403 && p->is_anonymous)
        error_remedy(e, "the bucket is not public: unset FULLBORE_S3_ANONYMOUS and give credentials");
    else if (status == 403)
        error_remedy(e, "the credentials lack the right to list or read s3://%s (s3:ListBucket, s3:GetObject)", p->bucket);
}

static int say_refused(const struct s3_flight *f, const struct s3_xml_error *said, const struct s3_place *p, struct fb_error *e)
{
    int status = f->answer.status;
    char code[80], message[260];
    text_escape(said->code, code, sizeof(code));
    text_escape(said->message, message, sizeof(message));
    bool has_both = code[0] && message[0];
    bool has_any = code[0] || message[0];
    error_set(e, status == 404 ? FB_E_NOT_FOUND : FB_E_IO, "read", "the S3 server answered %d%s%s%s%s%s", status, has_any ? " (" : "", code,
              has_both ? ": " : "", message, has_any ? ")" : "");
    add_remedy(said, status, p, e);
    return e ? e->code : FB_E_IO;
}

static void say_broken(const struct s3_flight *f, CURLcode code, const struct s3_place *p, struct fb_error *e)
{
    long sys = 0;
    char shown[128];
    curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &sys);
    error_set(e, FB_E_IO, "read", "the S3 server %s %s: %s%s%s", p->host,
              code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST ? "cannot be reached" : "broke off",
              code == CURLE_OPERATION_TIMEDOUT ? "too slow" : curl_easy_strerror(code), sys ? ", " : "",
              sys ? text_errno((int)sys, shown, sizeof(shown)) : "");
    if (e)
        e->sys_errno = (int)sys;
    if (code == CURLE_COULDNT_CONNECT || code == CURLE_COULDNT_RESOLVE_HOST)
        error_remedy(e, "check AWS_ENDPOINT_URL, AWS_REGION and the network");
    if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE)
        error_remedy(e, "its certificate is not trusted: AWS_CA_BUNDLE names the file with its authority");
}

/* ---- answers that refuse ---- */

static enum s3_next refused(struct s3_flight *f, const struct s3_place *p, struct s3_outcome *out, struct fb_error *e)
{
    struct s3_xml_error said;
    int status = f->answer.status;
    s3_xml_read_error(&said, f->error_text, f->error_length);
    snprintf(out->code, sizeof(out->code), "%s", said.code);
    say_refused(f, &said, p, e);
    const char *region = f->answer.region[0] ? f->answer.region : said.region;
    bool is_elsewhere = status == 301 || status == 307 || strcmp(said.code, "AuthorizationHeaderMalformed") == 0;
    if (is_elsewhere && region[0]) { /* perhaps the one that another answer has told us meanwhile */
        snprintf(out->region, sizeof(out->region), "%.*s", S3_REGION_BYTES - 1, region);
        return S3_NEXT_REGION;
    }
    if (status >= 300 && status < 400)
        return f->answer.location[0] ? S3_NEXT_REDIRECT : S3_NEXT_FAIL;
    if (strcmp(said.code, "RequestTimeTooSkewed") == 0)
        return f->answer.date_s > 0 ? S3_NEXT_CLOCK : S3_NEXT_FAIL;
    if (f->keys && is_one_of(said.code, expired_words))
        return S3_NEXT_KEYS;
    if (status == 429 || status == 503 || is_one_of(said.code, busy_words))
        return S3_NEXT_SLOWER;
    return status >= 500 || status == 408 || is_one_of(said.code, again_words) ? S3_NEXT_AGAIN : S3_NEXT_FAIL;
}

/* ---- answers that came ---- */

static enum s3_next nonsense(const struct s3_flight *f, struct fb_error *e)
{
    error_set(e, FB_E_IO, "read", "the S3 server's answer cannot be used: %s", f->why);
    return S3_NEXT_AGAIN;
}

static enum s3_next changed(struct fb_error *e)
{
    error_set(e, FB_E_DATA, "read", "the object has been replaced by another version while it was in use");
    error_remedy(e, "open the data set again once nobody writes to it");
    return S3_NEXT_FAIL;
}

static void fill_in(const struct s3_flight *f, int status)
{
    struct s3_task *t = f->task;
    const struct s3_answer *a = &f->answer;
    t->status = status;
    t->got = status == 0 && f->verdict == S3_TAKE ? f->got : 0;
    t->version = a->version;
    t->version.size = a->has_range ? a->range_total : a->content_length;
    if (f->verdict == S3_NOTHING)
        t->version.size = a->status == 416 ? a->range_total : a->content_length;
    else if (status == 0 && t->version.size == S3_UNKNOWN && t->wanted.length == S3_ALL)
        t->version.size = f->got;
}

static enum s3_next taken(struct s3_flight *f, struct fb_error *e)
{
    if (f->body != S3_UNKNOWN && f->got != f->body) {
        f->why = "the server sent fewer bytes than it announced";
        return nonsense(f, e);
    }
    fill_in(f, 0);
    const struct s3_wanted *w = &f->task->wanted;
    if (f->body == S3_UNKNOWN && w->expected_size != S3_UNKNOWN && f->got != w->expected_size &&
        s3_version_is(&f->answer.version, w->expected_mtime_ns)) {
        f->why = "the object's size differs from its listing, but its ETag does not";
        return nonsense(f, e);
    }
    return S3_NEXT_DONE;
}

static enum s3_next answered(struct s3_flight *f, const struct s3_place *p, struct s3_outcome *out, struct fb_error *e)
{
    switch (f->verdict) {
    case S3_TAKE: return taken(f, e);
    case S3_ERROR_BODY: return refused(f, p, out, e);
    case S3_NOTHING: fill_in(f, 0); return S3_NEXT_DONE;
    case S3_TOO_LARGE: fill_in(f, S3_IS_TOO_LARGE); return S3_NEXT_DONE;
    case S3_NO_RANGES: fill_in(f, S3_HAS_NO_RANGES); return S3_NEXT_DONE;
    case S3_CHANGED: return changed(e);
    default: return nonsense(f, e);
    }
}

/* A body that we did not want ends with a write error of our own making. */
static bool is_own_end(const struct s3_flight *f, CURLcode code)
{
    return code == CURLE_WRITE_ERROR && f->is_judged && (f->verdict != S3_TAKE || f->is_enough);
}

void s3_flight_outcome(struct s3_flight *f, CURLcode code, const struct s3_place *p, struct s3_outcome *out, struct fb_error *e)
{
    *out = (struct s3_outcome){0};
    error_clear(e);
    if (code == CURLE_OK && !f->is_judged) {
        f->is_judged = true;
        f->verdict = s3_answer_judge(&f->answer, &f->task->wanted, &f->skip, &f->body, &f->why);
    }
    if (code == CURLE_OK || is_own_end(f, code)) {
        out->next = answered(f, p, out, e);
        return;
    }
    say_broken(f, code, p, e);
    bool is_hopeless = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE || code == CURLE_UNSUPPORTED_PROTOCOL ||
                       code == CURLE_URL_MALFORMAT || code == CURLE_OUT_OF_MEMORY;
    out->next = is_hopeless ? S3_NEXT_FAIL : S3_NEXT_AGAIN;
}
