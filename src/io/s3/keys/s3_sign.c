#include "io/s3/keys/s3_sign.h"

#include <ctype.h>
#include <string.h>

static bool is_unreserved(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

void s3_encode(struct text *out, const char *s, size_t n, bool keeps_slash)
{
    static const char digit[] = "0123456789ABCDEF";
    for (size_t i = 0; i < n;) {
        size_t plain = i;
        while (plain < n && (is_unreserved((unsigned char)s[plain]) || (keeps_slash && s[plain] == '/')))
            plain++;
        text_append(out, s + i, plain - i);
        for (i = plain; i < n && !is_unreserved((unsigned char)s[i]) && !(keeps_slash && s[i] == '/'); i++) {
            unsigned char c = (unsigned char)s[i];
            text_append(out, (const char[]){'%', digit[c >> 4], digit[c & 15]}, 3);
        }
    }
}

/* ---- query ---- */

struct encoded {
    size_t start, name_end, end; /* in a text */
};

static int compare_encoded(const char *base, const struct encoded *a, const struct encoded *b)
{
    size_t an = a->name_end - a->start, bn = b->name_end - b->start, n = an < bn ? an : bn;
    int c = memcmp(base + a->start, base + b->start, n);
    if (c || an != bn)
        return c ? c : an < bn ? -1 : 1;
    size_t av = a->end - a->name_end, bv = b->end - b->name_end;
    c = memcmp(base + a->name_end, base + b->name_end, av < bv ? av : bv);
    return c ? c : av < bv ? -1 : av > bv;
}

static void sort_encoded(const char *base, struct encoded *e, int count)
{
    for (int i = 1; i < count; i++)
        for (int k = i; k > 0 && compare_encoded(base, &e[k], &e[k - 1]) < 0; k--) {
            struct encoded t = e[k];
            e[k] = e[k - 1];
            e[k - 1] = t;
        }
}

void s3_encode_query(struct text *out, const struct s3_pair *query, int count)
{
    struct text all = {.limit = 1 << 20};
    struct encoded part[S3_MOST_PAIRS];
    count = count < S3_MOST_PAIRS ? count : S3_MOST_PAIRS;
    for (int i = 0; i < count; i++) {
        part[i].start = all.length;
        s3_encode(&all, query[i].name, strlen(query[i].name), false);
        part[i].name_end = all.length;
        s3_encode(&all, query[i].value, strlen(query[i].value), false);
        part[i].end = all.length;
    }
    out->failed |= all.failed;
    if (!all.failed && count > 0 && all.data)
        sort_encoded(all.data, part, count);
    for (int i = 0; i < count && !all.failed && all.data; i++) {
        if (i > 0)
            text_append(out, "&", 1);
        text_append(out, all.data + part[i].start, part[i].name_end - part[i].start);
        text_append(out, "=", 1);
        text_append(out, all.data + part[i].name_end, part[i].end - part[i].name_end);
    }
    text_free(&all);
}

/* ---- headers ---- */

/* By name, ignoring case; equal names keep their order. */
static int sort_headers(const struct s3_signing *s, int order[S3_MOST_PAIRS])
{
    int count = s->header_count < S3_MOST_PAIRS ? s->header_count : S3_MOST_PAIRS;
    for (int i = 0; i < count; i++) {
        int k = i;
        for (; k > 0 && strcasecmp(s->header[order[k - 1]].name, s->header[i].name) > 0; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    return count;
}

static void append_lower(struct text *out, const char *name)
{
    for (; *name; name++)
        text_append(out, (const char[]){(char)tolower((unsigned char)*name)}, 1);
}

/* Without spaces at the ends, runs of them inside as one. */
static void append_value(struct text *out, const char *value)
{
    bool is_gap = false, is_first = true;
    for (; *value; value++) {
        if (isspace((unsigned char)*value)) {
            is_gap = true;
            continue;
        }
        if (is_gap && !is_first)
            text_append(out, " ", 1);
        text_append(out, value, 1);
        is_gap = is_first = false;
    }
}

static void append_names(struct text *out, const struct s3_signing *s)
{
    int order[S3_MOST_PAIRS], count = sort_headers(s, order);
    for (int i = 0; i < count; i++) {
        if (i > 0 && strcasecmp(s->header[order[i]].name, s->header[order[i - 1]].name) == 0)
            continue;
        if (i > 0)
            text_append(out, ";", 1);
        append_lower(out, s->header[order[i]].name);
    }
}

static void append_headers(struct text *out, const struct s3_signing *s)
{
    int order[S3_MOST_PAIRS], count = sort_headers(s, order);
    for (int i = 0; i < count; i++) {
        bool is_more = i > 0 && strcasecmp(s->header[order[i]].name, s->header[order[i - 1]].name) == 0;
        if (i > 0)
            text_append(out, is_more ? "," : "\n", 1);
        if (!is_more) {
            append_lower(out, s->header[order[i]].name);
            text_append(out, ":", 1);
        }
        append_value(out, s->header[order[i]].value);
    }
    text_append(out, "\n\n", 2);
}

/* ---- the steps ---- */

void s3_canonical_request(struct text *out, const struct s3_signing *s)
{
    text_append(out, s->method, strlen(s->method));
    text_append(out, "\n", 1);
    s3_encode(out, s->path, strlen(s->path), true);
    text_append(out, "\n", 1);
    s3_encode_query(out, s->query, s->query_count);
    text_append(out, "\n", 1);
    append_headers(out, s);
    append_names(out, s);
    text_append(out, "\n", 1);
    text_append(out, s->payload_hash, strlen(s->payload_hash));
}

void s3_string_to_sign(struct text *out, const struct s3_signing *s, const char *canonical, size_t n)
{
    uint8_t hash[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    struct sha256 h;
    sha256_start(&h);
    sha256_add(&h, canonical, n);
    sha256_end(&h, hash);
    sha256_hex(hash, hex);
    text_printf(out, "AWS4-HMAC-SHA256\n%s\n%.8s/%s/%s/aws4_request\n%s", s->date, s->date, s->region, s->service, hex);
}

void s3_signing_key(uint8_t out[SHA256_BYTES], const char *secret, const char *date, const char *region, const char *service)
{
    char start[4 + 256];
    size_t n = strlen(secret) < 256 ? strlen(secret) : 256;
    memcpy(start, "AWS4", 4);
    memcpy(start + 4, secret, n);
    sha256_hmac(start, 4 + n, date, 8, out);
    sha256_hmac(out, SHA256_BYTES, region, strlen(region), out);
    sha256_hmac(out, SHA256_BYTES, service, strlen(service), out);
    sha256_hmac(out, SHA256_BYTES, "aws4_request", 12, out);
    explicit_bzero(start, sizeof(start));
}

bool s3_authorization(struct text *out, struct text *work, const struct s3_signing *s, const char *access_key,
                      const uint8_t key[SHA256_BYTES])
{
    uint8_t signature[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];
    work->length = 0;
    s3_canonical_request(work, s);
    size_t canonical = work->length;
    if (work->failed)
        return false;
    s3_string_to_sign(work, s, work->data, canonical);
    if (work->failed)
        return false;
    sha256_hmac(key, SHA256_BYTES, work->data + canonical, work->length - canonical, signature);
    sha256_hex(signature, hex);
    text_printf(out, "AWS4-HMAC-SHA256 Credential=%s/%.8s/%s/%s/aws4_request, SignedHeaders=", access_key, s->date, s->region, s->service);
    append_names(out, s);
    text_printf(out, ", Signature=%s", hex);
    return !out->failed;
}
