#include "io/s3/loop/s3_flight.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "io/s3/keys/s3_sign.h"
#include "io/s3/s3_time.h"

enum { RECEIVE_BYTES = 96 << 10, CONNECT_MS = 6000, URL_LIMIT = 64 << 10 };

/* ---- from the wire ---- */

static size_t on_header(char *line, size_t size, size_t n, void *ctx)
{
    struct s3_flight *f = ctx;
    n *= size;
    if (f->first_ns == 0) {
        f->first_ns = clock_now_ns();
        f->sender->first_byte(f->sender->loop, f);
    }
    if (f->is_lost)
        return 0;
    s3_answer_line(&f->answer, line, n);
    return n;
}

/* Once, when the first byte of the body comes or the answer is over. */
static void judge(struct s3_flight *f)
{
    f->is_judged = true;
    f->verdict = s3_answer_judge(&f->answer, &f->task->wanted, &f->skip, &f->body, &f->why);
    if (f->verdict == S3_TAKE && f->task->body)
        f->task->body->length = 0; /* of an earlier attempt */
    if (f->verdict == S3_TAKE)
        f->sender->takes(f->sender->loop, f);
}

static size_t keep_error_text(struct s3_flight *f, const char *bytes, size_t n)
{
    size_t room = sizeof(f->error_text) - f->error_length, kept = n < room ? n : room;
    memcpy(f->error_text + f->error_length, bytes, kept);
    f->error_length += kept;
    return f->error_length < sizeof(f->error_text) ? n : 0; /* longer than any error: not worth waiting for */
}

static bool keep(struct s3_flight *f, const char *bytes, size_t n)
{
    struct s3_task *t = f->task;
    if (t->to) {
        if (n > t->wanted.room - f->got)
            return false;
        memcpy(t->to + f->got, bytes, n);
    } else {
        text_append(t->body, bytes, n);
        if (t->body->failed)
            return false;
    }
    f->got += n;
    return true;
}

static size_t on_body(char *bytes, size_t size, size_t n, void *ctx)
{
    struct s3_flight *f = ctx;
    n *= size;
    if (f->is_lost)
        return 0;
    if (!f->is_judged)
        judge(f);
    if (f->verdict == S3_ERROR_BODY)
        return keep_error_text(f, bytes, n);
    if (f->verdict != S3_TAKE)
        return 0;
    size_t passed = f->skip < n ? (size_t)f->skip : n, left = n - passed;
    f->skip -= passed;
    if (f->body != S3_UNKNOWN && left > f->body - f->got) {
        if (!f->task->wanted.may_skip) { /* longer than announced */
            f->verdict = S3_NONSENSE;
            f->why = "the server sent more bytes than it announced";
            return 0;
        }
        left = (size_t)(f->body - f->got);
        f->is_enough = true;
    }
    if (!keep(f, bytes + passed, left)) {
        f->verdict = S3_TOO_LARGE;
        return 0;
    }
    f->is_enough |= f->body != S3_UNKNOWN && f->task->wanted.may_skip && f->got == f->body && f->answer.content_length > f->body;
    return f->is_enough ? 0 : n;
}

/* Addresses of this machine and of its link: 127.0.0.0/8, 169.254.0.0/16 (where clouds give out keys), 0.0.0.0, ::1, ::, fe80::/10. */
static bool is_near_v4(uint32_t a)
{
    return a >> 24 == 127 || a >> 24 == 0 || a >> 16 == 0xA9FE;
}

static bool is_near(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return is_near_v4(ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr));
    if (a->sa_family != AF_INET6)
        return true;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
    uint32_t last;
    memcpy(&last, v6->s6_addr + 12, sizeof(last));
    return IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_UNSPECIFIED(v6) || IN6_IS_ADDR_LINKLOCAL(v6) ||
           (IN6_IS_ADDR_V4MAPPED(v6) && is_near_v4(ntohl(last)));
}

/* A redirect leads to a name of the endpoint's; that name may still lead anywhere. */
static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *a)
{
    const struct s3_flight *f = ctx;
    bool is_redirect = f->task && f->task->redirect, near = is_near(&a->addr);
    (void)purpose;
    if (is_redirect && near && !*f->sender->is_near)
        return CURL_SOCKET_BAD;
    if (!is_redirect && near)
        *f->sender->is_near = true;
    return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static int on_close(void *ctx, curl_socket_t fd)
{
    const struct s3_sender *s = ctx;
    return s->closes(s->loop, fd);
}

/* ---- handles ---- */

static void set_for_good(struct s3_flight *f, const struct s3_sender *s)
{
    CURL *c = f->easy;
    const struct s3_options *o = s->options;
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L); /* a stuck DNS thread must not hold up close */
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, (long)RECEIVE_BYTES);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)o->stall_bytes);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)(o->stall_s < 1 ? 1 : o->stall_s));
    curl_easy_setopt(c, CURLOPT_USERAGENT, "fullbore/" FB_VERSION);
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    if (s->place->ca_bundle[0])
        curl_easy_setopt(c, CURLOPT_CAINFO, s->place->ca_bundle);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, f);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
    curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, f);
    curl_easy_setopt(c, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    curl_easy_setopt(c, CURLOPT_CLOSESOCKETDATA, (void *)f->sender);
    curl_easy_setopt(c, CURLOPT_PRIVATE, f);
}

struct s3_flight *s3_flight_new(const struct s3_sender *s)
{
    struct s3_flight *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->easy = curl_easy_init();
    if (!f->easy) {
        free(f);
        return NULL;
    }
    f->sender = s;
    f->url.limit = f->authorization.limit = URL_LIMIT;
    set_for_good(f, s);
    return f;
}

void s3_flight_free(struct s3_flight *f)
{
    curl_easy_cleanup(f->easy);
    text_free(&f->url);
    text_free(&f->authorization);
    free(f);
}

/* ---- a task's request ---- */

static void add_header(struct s3_flight *f, int *count, char *line)
{
    f->header[*count] = (struct curl_slist){line, NULL};
    if (*count > 0)
        f->header[*count - 1].next = &f->header[*count];
    ++*count;
}

static bool sign(struct s3_flight *f, const struct s3_sender *s, const struct s3_task *t, int *count)
{
    struct s3_keys *k = s->keys;
    char stamp[S3_STAMP_BYTES];
    s3_time_stamp(s->now_s, stamp);
    if (strncmp(k->signing_date, stamp, 8) != 0 || strcmp(k->signing_region, s->place->region) != 0) {
        s3_signing_key(k->signing_key, k->secret_key, stamp, s->place->region, "s3");
        snprintf(k->signing_date, sizeof(k->signing_date), "%.8s", stamp);
        snprintf(k->signing_region, sizeof(k->signing_region), "%s", s->place->region);
    }
    const struct s3_pair header[] = {{"host", s->place->host},
                                     {"x-amz-content-sha256", S3_EMPTY_HASH},
                                     {"x-amz-date", stamp},
                                     {"x-amz-security-token", s3_keys_token(k)}};
    struct s3_signing g = {.method = "GET",
                           .path = s->path->data,
                           .query = t->query,
                           .query_count = t->query_count,
                           .header = header,
                           .header_count = k->token_header[0] ? 4 : 3,
                           .payload_hash = S3_EMPTY_HASH,
                           .date = stamp,
                           .region = s->place->region,
                           .service = "s3"};
    f->authorization.length = 0;
    text_append(&f->authorization, "Authorization: ", 15);
    if (!s3_authorization(&f->authorization, s->work, &g, k->access_key, k->signing_key))
        return false;
    f->keys = k->generation;
    snprintf(f->date, sizeof(f->date), "x-amz-date: %s", stamp);
    add_header(f, count, f->authorization.data);
    add_header(f, count, f->date);
    add_header(f, count, (char *)"x-amz-content-sha256: " S3_EMPTY_HASH);
    if (k->token_header[0])
        add_header(f, count, k->token_header);
    return true;
}

static void ask_for_part(struct s3_flight *f, const struct s3_wanted *w, int *count)
{
    if (w->length != S3_ALL) {
        snprintf(f->range, sizeof(f->range), "Range: bytes=%llu-%llu", (unsigned long long)w->offset,
                 (unsigned long long)(w->offset + w->length - 1));
        add_header(f, count, f->range);
    }
    if (w->pin && w->pin->etag[0] == '"') { /* weak ones match nothing */
        snprintf(f->if_match, sizeof(f->if_match), "If-Match: %s", w->pin->etag);
        add_header(f, count, f->if_match);
    }
}

static bool set_url(struct s3_flight *f, const struct s3_task *t, const struct s3_sender *s)
{
    f->url.length = s->path->length = 0;
    s3_place_path(s->place, t->key, s->path);
    if (t->redirect)
        text_append(&f->url, t->redirect, strlen(t->redirect));
    else
        s3_place_url(s->place, s->path->data, t->query, t->query_count, &f->url);
    return !f->url.failed && !s->path->failed;
}

bool s3_flight_prepare(struct s3_flight *f, struct s3_task *t, const struct s3_sender *s, bool is_hedge)
{
    int count = 0;
    f->task = t;
    f->is_hedge = is_hedge;
    f->is_lost = f->is_judged = f->is_enough = false;
    f->first_ns = 0;
    f->got = f->error_length = 0;
    f->keys = 0;
    f->why = "";
    s3_answer_clear(&f->answer);
    if (!set_url(f, t, s) || (s->keys && !t->redirect && !sign(f, s, t, &count)))
        return false;
    ask_for_part(f, &t->wanted, &count);
    curl_easy_setopt(f->easy, CURLOPT_URL, f->url.data);
    curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, count > 0 ? &f->header[0] : NULL);
    curl_easy_setopt(f->easy, CURLOPT_FRESH_CONNECT, (long)(t->wants_new_connection || is_hedge));
    return true;
}
