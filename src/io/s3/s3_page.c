/* A page of a listing: <ListBucketResult> with <Contents> and <CommonPrefixes>. */
#include <stdlib.h>
#include <string.h>

#include "io/s3/s3_list.h"
#include "io/s3/s3_time.h"
#include "io/s3/s3_xml.h"

enum { TEXT_LIMIT = 16 << 10 };

struct reading {
    struct s3_page *page;
    const struct s3_page_visitor *v;
    bool is_encoded; /* keys are written as in a URL */
    bool is_listing;
    struct text key, etag;
    uint64_t size;
    int64_t modified_s;
    bool has_size;
};

static int broken(struct fb_error *e, const char *what)
{
    return error_advise(e, error_set(e, FB_E_DATA, "dataset", "the S3 server's listing cannot be read: %s", what),
                        "check AWS_ENDPOINT_URL: is it an S3 server?");
}

static void set(struct text *t, const char *value)
{
    t->length = 0;
    text_append(t, value, strlen(value));
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

/* %XX and '+', in place. False: a NUL, or no such thing. */
static bool decode(char *s)
{
    char *out = s;
    for (; *s; s++) {
        char c = *s == '+' ? ' ' : *s;
        if (*s == '%') {
            int high = digit(s[1]), low = high < 0 ? -1 : digit(s[2]);
            if (low < 0 || high * 16 + low == 0)
                return false;
            c = (char)(high * 16 + low);
            s += 2;
        }
        *out++ = c;
    }
    *out = 0;
    return true;
}

static bool read_number(const char *s, uint64_t *out)
{
    char *end;
    if (*s < '0' || *s > '9' || strlen(s) > 18)
        return false;
    *out = strtoull(s, &end, 10);
    return *end == 0;
}

static int end_object(struct reading *r, struct fb_error *e)
{
    if (r->key.length == 0 || !r->has_size)
        return broken(e, "an object without a key or a size");
    if (r->is_encoded && !decode(r->key.data))
        return broken(e, "a key that is not encoded as announced");
    const char *etag = r->etag.length ? r->etag.data : "";
    struct s3_version v = {.etag_hash = s3_etag_hash(etag, strlen(etag)), .modified_s = r->modified_s, .size = r->size};
    struct store_object o = {r->key.data, r->size, s3_version_mtime_ns(&v, 0)};
    return r->v->object ? r->v->object(r->v->ctx, &o, e) : 0;
}

static int end_prefix(struct reading *r, const char *text, struct fb_error *e)
{
    set(&r->key, text);
    if (r->key.failed || !*text || (r->is_encoded && !decode(r->key.data)))
        return broken(e, "a prefix that is not encoded as announced");
    return r->v->prefix ? r->v->prefix(r->v->ctx, r->key.data, e) : 0;
}

static int end_in_object(struct reading *r, const char *name, const char *text, struct fb_error *e)
{
    if (strcmp(name, "Key") == 0)
        set(&r->key, text);
    else if (strcmp(name, "ETag") == 0)
        set(&r->etag, text);
    else if (strcmp(name, "LastModified") == 0)
        r->modified_s = s3_time_iso(text);
    else if (strcmp(name, "Size") == 0)
        r->has_size = read_number(text, &r->size);
    bool is_short = strlen(text) < r->key.limit && strlen(text) < r->etag.limit;
    if ((r->key.failed || r->etag.failed) && is_short)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to list");
    return r->key.failed || r->etag.failed ? broken(e, "a key that is too long") : 0;
}

static int end_element(struct reading *r, const struct s3_xml *x, struct fb_error *e)
{
    const char *name = s3_xml_name(x), *parent = s3_xml_parent(x), *text = s3_xml_text(x);
    if (strcmp(parent, "Contents") == 0)
        return end_in_object(r, name, text, e);
    if (strcmp(parent, "CommonPrefixes") == 0 && strcmp(name, "Prefix") == 0)
        return end_prefix(r, text, e);
    if (strcmp(parent, "ListBucketResult") != 0)
        return 0;
    if (strcmp(name, "Contents") == 0)
        return end_object(r, e);
    if (strcmp(name, "IsTruncated") == 0)
        r->page->is_truncated = strcmp(text, "true") == 0;
    else if (strcmp(name, "NextContinuationToken") == 0)
        set(&r->page->token, text);
    return 0;
}

static void start_element(struct reading *r, const struct s3_xml *x)
{
    const char *name = s3_xml_name(x);
    if (!*s3_xml_parent(x))
        r->is_listing = strcmp(name, "ListBucketResult") == 0;
    if (strcmp(name, "Contents") == 0) {
        r->key.length = r->etag.length = 0;
        r->has_size = false;
        r->modified_s = -1;
    }
}

static int read_all(struct reading *r, struct s3_xml *x, struct fb_error *e)
{
    for (;;) {
        switch (s3_xml_next(x)) {
        case S3_XML_START: start_element(r, x); break;
        case S3_XML_END_OF: FB_TRY(end_element(r, x, e)); break;
        case S3_XML_OVER: return r->is_listing ? 0 : broken(e, "it is another document, not a listing");
        default: return broken(e, "it is not well-formed");
        }
    }
}

/* EncodingType may stand behind the keys: it is looked for first. */
static bool finds_encoding(const char *bytes, size_t n)
{
    static const char mark[] = "<EncodingType>url</EncodingType>";
    return memmem(bytes, n, mark, sizeof(mark) - 1) != NULL;
}

int s3_page_read(struct s3_page *p, const char *bytes, size_t n, const struct s3_page_visitor *v, struct fb_error *e)
{
    struct s3_xml x;
    struct reading r = {.page = p, .v = v, .is_encoded = finds_encoding(bytes, n), .key.limit = TEXT_LIMIT, .etag.limit = 1024};
    *p = (struct s3_page){.token.limit = TEXT_LIMIT};
    s3_xml_start(&x, bytes, n, TEXT_LIMIT);
    int rc = read_all(&r, &x, e);
    if (rc == 0 && p->is_truncated && p->token.length == 0)
        rc = broken(e, "it says that more follows, but has no continuation token");
    s3_xml_free(&x);
    text_free(&r.key);
    text_free(&r.etag);
    return rc;
}

void s3_page_free(struct s3_page *p)
{
    text_free(&p->token);
}
