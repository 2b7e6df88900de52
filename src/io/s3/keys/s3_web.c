/* Keys that a server hands out: STS for a web identity, a container's agent, the instance's metadata (IMDSv2).
 *
 * Blocking requests, on the thread that opens or on the one that renews. Answers stay in secret memory, and what is wanted of them is cut
 * out there: a JSON library would leave copies on the heap. Addresses that are not https must be this machine's or the well-known
 * link-local ones.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/s3/loop/curl_dynlib.h"
#include "io/s3/keys/s3_credentials.h"
#include "io/s3/keys/s3_profile.h"
#include "io/s3/s3_time.h"
#include "io/s3/s3_xml.h"

enum { ANSWER_BYTES = 64 << 10, TRIES = 3 };

struct answer {
    long status;
    size_t length;
    char text[ANSWER_BYTES]; /* NUL-terminated */
};

struct asked {
    const char *url;
    struct curl_slist *headers;
    const char *body; /* POST, if set */
    bool is_put;
    long connect_ms, total_ms;
};

static size_t take(char *bytes, size_t size, size_t n, void *ctx)
{
    struct answer *a = ctx;
    if (n * size >= sizeof(a->text) - a->length)
        return 0;
    memcpy(a->text + a->length, bytes, n * size);
    a->length += n * size;
    a->text[a->length] = 0;
    return n * size;
}

static int must_stop(void *ctx, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
    (void)a, (void)b, (void)c, (void)d;
    const _Atomic bool *is_closing = ctx;
    return is_closing && atomic_load_explicit(is_closing, memory_order_relaxed);
}

static CURLcode perform(CURL *curl, const struct s3_asking *a, const struct asked *q, struct answer *out)
{
    out->length = 0;
    out->status = 0;
    curl_easy_setopt(curl, CURLOPT_URL, q->url);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L);
    if (strncmp(q->url, "https:", 6) != 0)
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*"); /* metadata is on this machine */
    if (a->place->ca_bundle[0])
        curl_easy_setopt(curl, CURLOPT_CAINFO, a->place->ca_bundle);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, q->connect_ms);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, q->total_ms);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, q->headers);
    if (q->body)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, q->body);
    if (q->is_put)
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, out);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, must_stop);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, (void *)a->is_closing);
    CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &out->status);
    return code;
}

static CURLcode ask(const struct s3_asking *a, const struct asked *q, struct answer *out)
{
    CURL *curl = curl_easy_init();
    CURLcode code = curl ? perform(curl, a, q, out) : CURLE_OUT_OF_MEMORY;
    curl_easy_cleanup(curl);
    return code;
}

/* Again when it is worth it: a server error or none at all. */
static CURLcode ask_often(const struct s3_asking *a, const struct asked *q, struct answer *out)
{
    CURLcode code = CURLE_OK;
    for (int i = 0; i < TRIES; i++) {
        code = ask(a, q, out);
        if (code == CURLE_ABORTED_BY_CALLBACK || (code == CURLE_OK && out->status < 500))
            break;
    }
    return code;
}

static int failed(const char *who, CURLcode code, const struct answer *a, struct fb_error *e)
{
    struct s3_xml_error said;
    char shown[128];
    if (code != CURLE_OK)
        return error_set(e, FB_E_IO, "read", "no keys from %s: %s", who, curl_easy_strerror(code));
    s3_xml_read_error(&said, a->text, a->length);
    return error_set(e, FB_E_IO, "read", "no keys from %s: it answered %ld %s", who, a->status,
                     text_escape(said.code, shown, sizeof(shown)));
}

/* ---- JSON, as flat as these servers write it ---- */

/* The string behind "name": at any depth; in place, NUL-terminated, escapes of '/' and '"' undone. NULL: none. */
static char *json_string(char *json, const char *name)
{
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\"", name);
    char *at = strstr(json, quoted);
    if (!at)
        return NULL;
    at += strlen(quoted);
    at += strspn(at, " \t\r\n");
    if (*at++ != ':')
        return NULL;
    at += strspn(at, " \t\r\n");
    if (*at++ != '"')
        return NULL;
    char *out = at, *start = at;
    for (; *at && *at != '"'; at++) {
        if (*at == '\\' && at[1])
            at++;
        *out++ = *at;
    }
    if (*at != '"')
        return NULL;
    *out = 0;
    return start;
}

static int keys_from_json(struct answer *a, const char *who, struct s3_keys *out, struct fb_error *e)
{
    struct answer *copy = s3_secret_map(3 * sizeof(*copy)); /* cutting out a string ends the text there */
    if (!copy)
        return error_set(e, FB_E_NOMEM, "read", "no memory for credentials");
    for (int i = 0; i < 3; i++)
        memcpy(copy[i].text, a->text, a->length + 1);
    const char *access = json_string(copy[0].text, "AccessKeyId"), *secret = json_string(copy[1].text, "SecretAccessKey");
    const char *token = json_string(copy[2].text, "Token"), *expires = json_string(a->text, "Expiration");
    int is_sound = access && secret && s3_keys_set(out, access, secret, token ? token : "");
    if (is_sound && expires && s3_time_iso(expires) > 0)
        out->expires_s = s3_time_iso(expires);
    s3_secret_unmap(copy, 3 * sizeof(*copy));
    return is_sound ? 1 : error_set(e, FB_E_IO, "read", "no keys from %s: its answer has none that can be used", who);
}

/* ---- web identity ---- */

struct sts_answer {
    struct s3_keys keys;
    char text[ANSWER_BYTES];
};

static int keys_from_sts(const struct answer *a, struct s3_keys *out, struct fb_error *e)
{
    struct s3_xml x;
    struct sts_answer *both = s3_secret_map(sizeof(*both));
    char expires[64] = "";
    if (!both)
        return error_set(e, FB_E_NOMEM, "read", "no memory for credentials");
    struct s3_keys *work = &both->keys;
    s3_xml_start(&x, a->text, a->length, 0);
    x.text = (struct text){both->text, 0, sizeof(both->text), sizeof(both->text) - 2, false}; /* never grows, so it is never copied */
    for (enum s3_xml_event event; (event = s3_xml_next(&x)) != S3_XML_OVER && event != S3_XML_BAD;) {
        const char *name = s3_xml_name(&x), *text = s3_xml_text(&x);
        if (event != S3_XML_END_OF || strcmp(s3_xml_parent(&x), "Credentials") != 0)
            continue;
        if (strcmp(name, "AccessKeyId") == 0)
            snprintf(work->access_key, sizeof(work->access_key), "%s", text);
        else if (strcmp(name, "SecretAccessKey") == 0)
            snprintf(work->secret_key, sizeof(work->secret_key), "%s", text);
        else if (strcmp(name, "SessionToken") == 0)
            snprintf(work->token_header, sizeof(work->token_header), "%s", text);
        else if (strcmp(name, "Expiration") == 0)
            snprintf(expires, sizeof(expires), "%s", text);
    }
    int is_sound = s3_keys_set(out, work->access_key, work->secret_key, work->token_header);
    s3_secret_unmap(both, sizeof(*both));
    if (is_sound && s3_time_iso(expires) > 0)
        out->expires_s = s3_time_iso(expires);
    return is_sound ? 1 : error_set(e, FB_E_IO, "read", "no keys from STS: its answer has none that can be used");
}

static void sts_url(const struct s3_place *p, char *out, size_t size)
{
    const char *given = getenv("AWS_ENDPOINT_URL_STS");
    const char *end = strncmp(p->region, "cn-", 3) == 0 ? ".cn" : "";
    if (given && *given)
        snprintf(out, size, "%s/", given);
    else
        snprintf(out, size, "https://sts.%s.amazonaws.com%s/", p->region, end);
}

/* The form: it holds the identity's token, so it lives in secret memory. */
static size_t sts_form(char *out, size_t size, const char *role, const char *token, size_t token_length)
{
    const char *session = getenv("AWS_ROLE_SESSION_NAME");
    struct text encoded = {out, 0, size, size - 2, false}; /* never grows, so it is never copied */
    while (token_length > 0 && (token[token_length - 1] == '\n' || token[token_length - 1] == '\r' || token[token_length - 1] == ' '))
        token_length--;
    text_printf(&encoded, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
    s3_encode(&encoded, role, strlen(role), false);
    text_printf(&encoded, "&RoleSessionName=");
    session = session && *session ? session : "fullbore";
    s3_encode(&encoded, session, strlen(session), false);
    text_printf(&encoded, "&WebIdentityToken=");
    s3_encode(&encoded, token, token_length, false);
    return encoded.failed || token_length == 0 ? 0 : encoded.length;
}

struct sts_work {
    char form[ANSWER_BYTES];
    struct answer answer;
};

static int ask_sts(const struct s3_asking *a, const char *role, const char *token, size_t n, struct s3_keys *out, struct fb_error *e)
{
    char url[600];
    FB_TRY(curl_dynlib_open(e));
    struct sts_work *w = s3_secret_map(sizeof(*w));
    if (!w)
        return error_set(e, FB_E_NOMEM, "read", "no memory for credentials");
    sts_url(a->place, url, sizeof(url));
    struct asked q = {.url = url, .body = w->form, .connect_ms = 5000, .total_ms = 20000};
    int rc;
    if (sts_form(w->form, sizeof(w->form), role, token, n) == 0) {
        rc = error_set(e, FB_E_DATA, "read", "the web identity's token is empty or too long");
    } else {
        CURLcode code = ask_often(a, &q, &w->answer);
        rc = code == CURLE_OK && w->answer.status == 200 ? keys_from_sts(&w->answer, out, e) : failed("STS", code, &w->answer, e);
    }
    s3_secret_unmap(w, sizeof(*w));
    return rc;
}

static const char *setting(const char *variable, const char *key, char *out, size_t size)
{
    const char *value = getenv(variable);
    if (value && *value)
        return value;
    return s3_profile_setting(key, out, size) ? out : NULL;
}

int s3_keys_from_web_identity(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e)
{
    char file_found[1024], role_found[512];
    const char *file = setting("AWS_WEB_IDENTITY_TOKEN_FILE", "web_identity_token_file", file_found, sizeof(file_found));
    const char *role = setting("AWS_ROLE_ARN", "role_arn", role_found, sizeof(role_found));
    if (!file || !role)
        return 0;
    size_t n, mapped;
    char *token = s3_secret_read_file(file, &n, &mapped);
    if (!token) {
        error_set(e, FB_E_IO, "read", "cannot read the web identity's token");
        error_at(e, file, -1);
        return FB_E_IO;
    }
    int rc = ask_sts(a, role, token, n, out, e);
    s3_secret_unmap(token, mapped);
    return rc;
}

/* ---- a container's agent ---- */

static bool may_be_asked(const char *url)
{
    static const char *const hosts[] = {"127.", "localhost", "[::1]", "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]"};
    if (strncmp(url, "https://", 8) == 0)
        return true;
    if (strncmp(url, "http://", 7) != 0)
        return false;
    const char *host = url + 7;
    size_t n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    if (memchr(host, '@', strcspn(host, "/?#")))
        return false;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (strncmp(host, hosts[i], strlen(hosts[i])) == 0 && (n == strlen(hosts[i]) || (i == 0 && strspn(host, "0123456789.") == n)))
            return true;
    return false;
}

/* "Authorization: ..." into secret memory; "" : none is wanted. */
static int agent_authorization(char *out, size_t size, struct fb_error *e)
{
    const char *file = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"), *given = getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    size_t n, mapped;
    out[0] = 0;
    if (file && *file) {
        char *token = s3_secret_read_file(file, &n, &mapped);
        if (!token) {
            error_set(e, FB_E_IO, "read", "cannot read the container's authorization token");
            error_at(e, file, -1);
            return FB_E_IO;
        }
        snprintf(out, size, "Authorization: %.*s", (int)strcspn(token, "\r\n"), token);
        s3_secret_unmap(token, mapped);
    } else if (given && *given) {
        snprintf(out, size, "Authorization: %.*s", (int)strcspn(given, "\r\n"), given);
    }
    return 0;
}

struct agent_work {
    char authorization[16384];
    struct answer answer;
};

int s3_keys_from_container(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e)
{
    char url[1024];
    const char *relative = getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"), *full = getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    if ((!relative || !*relative) && (!full || !*full))
        return 0;
    if (relative && *relative)
        snprintf(url, sizeof(url), "http://169.254.170.2%s%s", *relative == '/' ? "" : "/", relative);
    else
        snprintf(url, sizeof(url), "%s", full);
    if (!may_be_asked(url))
        return error_set(e, FB_E_USAGE, "read", "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this machine");
    FB_TRY(curl_dynlib_open(e));
    struct agent_work *w = s3_secret_map(sizeof(*w));
    if (!w)
        return error_set(e, FB_E_NOMEM, "read", "no memory for credentials");
    int rc = agent_authorization(w->authorization, sizeof(w->authorization), e);
    if (rc == 0) {
        struct curl_slist header = {w->authorization, NULL};
        struct asked q = {.url = url, .headers = w->authorization[0] ? &header : NULL, .connect_ms = 2000, .total_ms = 10000};
        CURLcode code = ask_often(a, &q, &w->answer);
        rc = code == CURLE_OK && w->answer.status == 200 ? keys_from_json(&w->answer, "the container", out, e)
                                                         : failed("the container", code, &w->answer, e);
    }
    s3_secret_unmap(w, sizeof(*w));
    return rc;
}

/* ---- the instance ---- */

struct instance_work {
    char token[1024], role[256], url[1024];
    struct answer answer;
};

static bool ask_instance(const struct s3_asking *a, struct instance_work *w, const char *path, bool is_token)
{
    const char *base = getenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    base = base && *base ? base : "http://169.254.169.254";
    size_t n = strlen(base);
    snprintf(w->url, sizeof(w->url), "%.*s%s", (int)(n > 0 && base[n - 1] == '/' ? n - 1 : n), base, path);
    struct curl_slist lifetime = {(char *)"X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL}, token = {w->token, NULL};
    struct asked q = {.url = w->url, .headers = is_token ? &lifetime : &token, .is_put = is_token, .connect_ms = 1000, .total_ms = 2000};
    return ask(a, &q, &w->answer) == CURLE_OK && w->answer.status == 200;
}

/* An instance without metadata (not at Amazon, or switched off) is no error: there is no server. */
int s3_keys_from_instance(const struct s3_asking *a, struct s3_keys *out, struct fb_error *e)
{
    const char *is_disabled = getenv("AWS_EC2_METADATA_DISABLED");
    if (is_disabled && strcasecmp(is_disabled, "true") == 0)
        return 0;
    FB_TRY(curl_dynlib_open(e));
    struct instance_work *w = s3_secret_map(sizeof(*w));
    if (!w)
        return error_set(e, FB_E_NOMEM, "read", "no memory for credentials");
    int rc = 0;
    if (ask_instance(a, w, "/latest/api/token", true)) {
        snprintf(w->token, sizeof(w->token), "X-aws-ec2-metadata-token: %.*s", (int)strcspn(w->answer.text, "\r\n"), w->answer.text);
        if (ask_instance(a, w, "/latest/meta-data/iam/security-credentials/", false)) {
            char path[400];
            snprintf(w->role, sizeof(w->role), "%.*s", (int)strcspn(w->answer.text, "\r\n"), w->answer.text);
            snprintf(path, sizeof(path), "/latest/meta-data/iam/security-credentials/%s", w->role);
            rc = w->role[0] && ask_instance(a, w, path, false) ? keys_from_json(&w->answer, "the instance", out, e) : 0;
        }
    }
    s3_secret_unmap(w, sizeof(*w));
    return rc;
}
