#include "io/s3/s3_place.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/s3/keys/s3_profile.h"

static int refuse(struct fb_error *e, const char *url, const char *cause, const char *remedy)
{
    error_set(e, FB_E_USAGE, "read", "%s", cause);
    error_remedy(e, "%s", remedy);
    error_at(e, url, -1);
    return FB_E_USAGE;
}

/* ---- the URL ---- */

static bool is_bucket_name(const char *s, size_t n)
{
    if (n < 1 || n >= 64 || !isalnum((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '.' && s[i] != '_')
            return false;
    return true;
}

static int split_url(struct s3_place *p, const char *url, struct fb_error *e)
{
    if (strncmp(url, "s3://", 5) != 0)
        return refuse(e, url, "this is not a URL of an S3 store", "it looks like s3://bucket/prefix");
    const char *bucket = url + 5, *slash = strchrnul(bucket, '/');
    if (!is_bucket_name(bucket, (size_t)(slash - bucket)))
        return refuse(e, url, "the URL names no bucket", "it looks like s3://bucket/prefix; names have letters, digits, '-', '.' and '_'");
    snprintf(p->bucket, sizeof(p->bucket), "%.*s", (int)(slash - bucket), bucket);
    const char *prefix = *slash ? slash + 1 : slash;
    if (strlen(prefix) >= sizeof(p->prefix))
        return refuse(e, url, "the prefix is longer than any key", "keys have at most 1024 bytes");
    strcpy(p->prefix, prefix);
    return 0;
}

/* ---- the endpoint ---- */

static bool is_region(const char *s)
{
    size_t n = strlen(s);
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
            return false;
    return n > 0 && n < S3_REGION_BYTES;
}

static const char *from_environment(const char *const *names)
{
    for (; *names; names++) {
        const char *value = getenv(*names);
        if (value && *value)
            return value;
    }
    return NULL;
}

static int find_region(struct s3_place *p, struct fb_error *e)
{
    const char *given = from_environment((const char *const[]){"AWS_REGION", "AWS_DEFAULT_REGION", NULL});
    char found[S3_REGION_BYTES] = "us-east-1";
    if (!given)
        s3_profile_setting("region", found, sizeof(found));
    if (!is_region(given ? given : found))
        return refuse(e, NULL, "this is not the name of a region", "AWS_REGION looks like eu-central-1");
    snprintf(p->region, sizeof(p->region), "%s", given ? given : found);
    return 0;
}

static void use_amazon(struct s3_place *p)
{
    const char *end = strncmp(p->region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
    p->is_amazon = true;
    strcpy(p->scheme, "https");
    p->base[0] = 0;
    if (p->is_path_style)
        snprintf(p->host, sizeof(p->host), "s3.%s.%s", p->region, end);
    else
        snprintf(p->host, sizeof(p->host), "%s.s3.%s.%s", p->bucket, p->region, end);
}

bool s3_place_move(struct s3_place *p, const char *region)
{
    if (!is_region(region))
        return false;
    snprintf(p->region, sizeof(p->region), "%s", region);
    if (p->is_amazon)
        use_amazon(p);
    return true;
}

/* Letters, digits, '.', '-', '_', ':' and the brackets of IPv6: nothing that could become another header or another host. */
static bool is_host(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr(".-_:[]", s[i]))
            return false;
    return n > 0 && n < 256;
}

static int use_endpoint(struct s3_place *p, const char *endpoint, struct fb_error *e)
{
    const char *words = "AWS_ENDPOINT_URL looks like https://host:9000 or http://localhost:9000/path, without a user name or a query";
    bool is_https = strncasecmp(endpoint, "https://", 8) == 0;
    if (!is_https && strncasecmp(endpoint, "http://", 7) != 0)
        return refuse(e, endpoint, "the endpoint is neither http:// nor https://", words);
    strcpy(p->scheme, is_https ? "https" : "http");
    const char *host = endpoint + (is_https ? 8 : 7), *path = host + strcspn(host, "/?#");
    size_t n = (size_t)(path - host), base = strlen(path);
    if (!is_host(host, n) || strpbrk(path, "?#"))
        return refuse(e, NULL, "the endpoint has no valid host name", words);
    const char *port = is_https ? ":443" : ":80";
    if (n > strlen(port) && memcmp(host + n - strlen(port), port, strlen(port)) == 0)
        n -= strlen(port);
    while (base > 0 && path[base - 1] == '/')
        base--;
    if (base >= sizeof(p->base))
        return refuse(e, NULL, "the endpoint's path is too long", words);
    snprintf(p->base, sizeof(p->base), "%.*s", (int)base, path);
    if (p->is_path_style)
        snprintf(p->host, sizeof(p->host), "%.*s", (int)n, host);
    else
        snprintf(p->host, sizeof(p->host), "%s.%.*s", p->bucket, (int)n, host);
    return 0;
}

static bool wants_path_style(const struct s3_place *p, bool is_amazon)
{
    char style[16] = "";
    const char *given = getenv("FULLBORE_S3_ADDRESSING");
    if (given && *given)
        snprintf(style, sizeof(style), "%s", given);
    else
        s3_profile_setting("s3.addressing_style", style, sizeof(style));
    if (strcmp(style, "path") == 0)
        return true;
    if (strcmp(style, "virtual") == 0)
        return false;
    return !is_amazon || strchr(p->bucket, '.') != NULL;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value && *value && strcmp(value, "0") != 0 && strcasecmp(value, "false") != 0;
}

int s3_place_find(struct s3_place *p, const char *url, struct fb_error *e)
{
    char from_profile[512] = "";
    *p = (struct s3_place){0};
    FB_TRY(split_url(p, url, e));
    FB_TRY(find_region(p, e));
    const char *endpoint = from_environment((const char *const[]){"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL});
    if (!endpoint && s3_profile_setting("endpoint_url", from_profile, sizeof(from_profile)))
        endpoint = from_profile;
    if (is_set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"))
        endpoint = NULL;
    p->is_path_style = wants_path_style(p, !endpoint);
    p->is_anonymous = is_set("FULLBORE_S3_ANONYMOUS");
    const char *bundle = getenv("AWS_CA_BUNDLE");
    snprintf(p->ca_bundle, sizeof(p->ca_bundle), "%s", bundle ? bundle : "");
    if (endpoint)
        return use_endpoint(p, endpoint, e);
    use_amazon(p);
    return 0;
}

/* ---- redirects ---- */

/* Without its port: "[::1]:9000" -> "[::1]". */
static size_t host_length(const char *host, size_t n)
{
    const char *bracket = memchr(host, ']', n), *from = bracket ? bracket : host;
    const char *colon = memchr(from, ':', n - (size_t)(from - host));
    return colon ? (size_t)(colon - host) : n;
}

static bool is_same(const char *a, size_t n, const char *b)
{
    return strlen(b) == n && strncasecmp(a, b, n) == 0;
}

static bool is_address(const char *host)
{
    return host[0] == '[' || host[strspn(host, "0123456789.")] == 0 || strncasecmp(host, "0x", 2) == 0;
}

/* The endpoint or a name below it. Below an address there is nothing. */
static bool is_below(const char *host, size_t n, const char *domain)
{
    size_t below = strlen(domain);
    if (is_same(host, n, domain))
        return true;
    return !is_address(domain) && n > below && host[n - below - 1] == '.' && is_same(host + n - below, below, domain);
}

/* [bucket.]s3[.dualstack].REGION, [bucket.]s3-REGION or [bucket.]s3 before Amazon's own end. Customers choose names below that end, too. */
static bool is_amazon_name(const struct s3_place *p, const char *host, size_t n)
{
    const char *end = strncmp(p->region, "cn-", 3) == 0 ? ".amazonaws.com.cn" : ".amazonaws.com";
    size_t tail = strlen(end), own = strlen(p->bucket) + 1;
    if (n <= tail || !is_same(host + n - tail, tail, end))
        return false;
    n -= tail;
    if (n > own && strncasecmp(host, p->bucket, own - 1) == 0 && host[own - 1] == '.') {
        host += own;
        n -= own;
    }
    if (n < 2 || strncasecmp(host, "s3", 2) != 0)
        return false;
    host += 2;
    n -= 2;
    if (n > 10 && strncasecmp(host, ".dualstack", 10) == 0) {
        host += 10;
        n -= 10;
    }
    return n == 0 || ((host[0] == '.' || host[0] == '-') && !memchr(host + 1, '.', n - 1));
}

bool s3_place_may_redirect(const struct s3_place *p, const char *url)
{
    bool is_https = strncasecmp(url, "https://", 8) == 0;
    if (!is_https && (strncasecmp(url, "http://", 7) != 0 || strcmp(p->scheme, "http") != 0))
        return false;
    const char *host = url + (is_https ? 8 : 7);
    size_t n = strcspn(host, "/?#"), own = strlen(p->bucket) + 1;
    if (!is_host(host, n))
        return false;
    n = host_length(host, n);
    if (p->is_amazon)
        return is_amazon_name(p, host, n);
    const char *ours = p->is_path_style ? p->host : p->host + own;
    char domain[sizeof(p->host)];
    snprintf(domain, sizeof(domain), "%.*s", (int)host_length(ours, strlen(ours)), ours);
    return is_below(host, n, domain);
}

/* ---- requests ---- */

void s3_place_path(const struct s3_place *p, const char *key, struct text *out)
{
    text_append(out, p->base, strlen(p->base));
    if (p->is_path_style)
        text_printf(out, "/%s", p->bucket);
    if (*key || !p->is_path_style)
        text_append(out, "/", 1);
    text_append(out, key, strlen(key));
}

void s3_place_url(const struct s3_place *p, const char *path, const struct s3_pair *query, int query_count, struct text *out)
{
    text_printf(out, "%s://%s", p->scheme, p->host);
    s3_encode(out, path, strlen(path), true);
    if (query_count == 0)
        return;
    text_append(out, "?", 1);
    s3_encode_query(out, query, query_count);
}
