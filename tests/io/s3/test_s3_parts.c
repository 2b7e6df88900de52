/* The pure parts: XML, profile files, answers, places, pace, second requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/s3/s3_answer.h"
#include "io/s3/loop/s3_hedge.h"
#include "io/s3/loop/s3_pace.h"
#include "io/s3/s3_place.h"
#include "io/s3/keys/s3_profile.h"
#include "io/s3/s3_time.h"
#include "io/s3/s3_xml.h"

/* ---- XML ---- */

static int read_to_end(const char *text, char *out, size_t size)
{
    struct s3_xml x;
    enum s3_xml_event event;
    out[0] = 0;
    s3_xml_start(&x, text, strlen(text), 1000);
    while ((event = s3_xml_next(&x)) != S3_XML_OVER && event != S3_XML_BAD) {
        size_t n = strlen(out);
        snprintf(out + n, size - n, event == S3_XML_START ? "<%s>" : "%s|", event == S3_XML_START ? s3_xml_name(&x) : s3_xml_text(&x));
    }
    s3_xml_free(&x);
    return event == S3_XML_OVER;
}

static void xml_is_read_as_written(void **state)
{
    (void)state;
    char out[1000];
    assert_true(read_to_end("<?xml version='1.0'?><!-- c --><a x='>'><b>1 &lt;&amp;&#65;&#x20AC;</b><n:c/><d><![CDATA[<x>]]></d></a>\n",
                            out, sizeof(out)));
    assert_string_equal(out, "<a><b>1 <&A\xE2\x82\xAC|<c>|<d><x>||");
}

static void xml_that_is_not_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "x",
                                      "<a>",
                                      "<a></b>",
                                      "</a>",
                                      "<a/><b/>",
                                      "<a>&x;</a>",
                                      "<a>&#0;</a>",
                                      "<a>&#xD800;</a>",
                                      "<a>&#1114112;</a>",
                                      "<!DOCTYPE a><a/>",
                                      "<a><![CDATA[x</a>",
                                      "<a",
                                      "<a b='",
                                      "<>",
                                      "<a>&amp</a>",
                                      "<a>text",
                                      "<a/>tail",
                                      "<!-- -><a/>",
                                      "<a>&#;</a>",
                                      "<a>&#x;</a>"};
    char out[1000], deep[200] = "";
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (read_to_end(bad[i], out, sizeof(out)))
            fail_msg("taken: %s", bad[i]);
    for (int i = 0; i < S3_XML_DEPTH + 1; i++)
        strcat(deep, "<a>");
    assert_false(read_to_end(deep, out, sizeof(out)));
}

static void errors_are_read_from_answers(void **state)
{
    (void)state;
    struct s3_xml_error e;
    const char *text = "<Error><Code>NoSuchKey</Code><Message>gone</Message><Region>eu</Region></Error>";
    s3_xml_read_error(&e, text, strlen(text));
    assert_string_equal(e.code, "NoSuchKey");
    assert_string_equal(e.message, "gone");
    assert_string_equal(e.region, "eu");
    s3_xml_read_error(&e, "<html>", 6);
    assert_string_equal(e.code, "");
}

/* ---- profile files ---- */

static void profiles_are_read_as_awss_tools_do(void **state)
{
    (void)state;
    static const char text[] =
        "# c\n[default]\naws_access_key_id=A1\nregion = eu-1 # here\n\n[profile  work]\nregion=us-2\ns3 =\n  addressing_style = virtual\n"
        "  other = 1\nendpoint_url = http://h:1\n[other]\naws_access_key_id = A;2\r\nregion = last\nregion = wins\n";
    char out[32];
    assert_true(s3_profile_find(text, sizeof(text) - 1, "default", "region", out, sizeof(out)));
    assert_string_equal(out, "eu-1");
    assert_true(s3_profile_find(text, sizeof(text) - 1, "profile work", "s3.addressing_style", out, sizeof(out)));
    assert_string_equal(out, "virtual");
    assert_true(s3_profile_find(text, sizeof(text) - 1, "profile work", "endpoint_url", out, sizeof(out)));
    assert_string_equal(out, "http://h:1");
    assert_true(s3_profile_find(text, sizeof(text) - 1, "other", "aws_access_key_id", out, sizeof(out)));
    assert_string_equal(out, "A;2");
    assert_true(s3_profile_find(text, sizeof(text) - 1, "other", "region", out, sizeof(out)));
    assert_string_equal(out, "wins");
    assert_false(s3_profile_find(text, sizeof(text) - 1, "work", "region", out, sizeof(out)));
    assert_false(s3_profile_find(text, sizeof(text) - 1, "profile work", "addressing_style", out, sizeof(out)));
    assert_false(s3_profile_find(text, sizeof(text) - 1, "default", "aws_secret_access_key", out, sizeof(out)));
    assert_false(s3_profile_find(text, sizeof(text) - 1, "default", "region", out, 3));
}

/* ---- places ---- */

static void set_env(const char *endpoint, const char *region, const char *addressing)
{
    unsetenv("AWS_ENDPOINT_URL_S3");
    unsetenv("AWS_DEFAULT_REGION");
    setenv("AWS_CONFIG_FILE", "/dev/null", 1);
    endpoint ? setenv("AWS_ENDPOINT_URL", endpoint, 1) : unsetenv("AWS_ENDPOINT_URL");
    region ? setenv("AWS_REGION", region, 1) : unsetenv("AWS_REGION");
    addressing ? setenv("FULLBORE_S3_ADDRESSING", addressing, 1) : unsetenv("FULLBORE_S3_ADDRESSING");
}

static void assert_url(const char *url, const char *key, const char *expected)
{
    struct s3_place p;
    struct text path = {.limit = 10000}, out = {.limit = 10000};
    struct fb_error e;
    error_clear(&e);
    if (s3_place_find(&p, url, &e) < 0)
        fail_msg("%s: %s", url, e.cause);
    s3_place_path(&p, key, &path);
    s3_place_url(&p, path.data, NULL, 0, &out);
    assert_string_equal(out.data, expected);
    text_free(&path);
    text_free(&out);
}

static void endpoints_are_found(void **state)
{
    (void)state;
    set_env(NULL, "eu-central-1", NULL);
    assert_url("s3://bucket/p", "a b", "https://bucket.s3.eu-central-1.amazonaws.com/a%20b");
    assert_url("s3://my.bucket/p", "k", "https://s3.eu-central-1.amazonaws.com/my.bucket/k");
    set_env(NULL, NULL, "path");
    assert_url("s3://bucket", "k", "https://s3.us-east-1.amazonaws.com/bucket/k");
    set_env(NULL, "cn-north-1", NULL);
    assert_url("s3://bucket", "k", "https://bucket.s3.cn-north-1.amazonaws.com.cn/k");
    set_env("http://localhost:9000/", NULL, NULL);
    assert_url("s3://bucket/x", "k", "http://localhost:9000/bucket/k");
    set_env("https://h:443/store", NULL, NULL);
    assert_url("s3://bucket/x", "", "https://h/store/bucket");
    set_env("http://h:80", NULL, "virtual");
    assert_url("s3://bucket/x", "k", "http://bucket.h/k");
    setenv("AWS_ENDPOINT_URL_S3", "http://first:1", 1);
    assert_url("s3://bucket/x", "k", "http://bucket.first:1/k");
    set_env(NULL, NULL, NULL);
}

struct elsewhere {
    const char *endpoint, *url;
    bool is_ours;
};

static void redirects_stay_with_the_endpoint(void **state)
{
    (void)state;
    static const struct elsewhere cases[] = {
        {NULL, "https://bucket.s3.eu-west-1.amazonaws.com/k", true},
        {NULL, "https://bucket.s3-eu-west-1.amazonaws.com/k?x=1", true},
        {NULL, "https://BUCKET.S3.amazonaws.com/k", true},
        {NULL, "https://s3.dualstack.eu-west-1.amazonaws.com/bucket/k", true},
        {NULL, "https://bucket.s3.eu-west-1.amazonaws.com:8443/k", true},
        {NULL, "http://bucket.s3.eu-west-1.amazonaws.com/k", false}, /* not from https to http */
        {NULL, "https://other.s3.eu-west-1.amazonaws.com/k", false},
        {NULL, "https://s3-evil-12.us-east-1.elb.amazonaws.com/k", false},
        {NULL, "https://ec2-1-2-3-4.compute.amazonaws.com/k", false},
        {NULL, "https://bucket.s3.eu-west-1.amazonaws.com.evil.org/k", false},
        {NULL, "https://s3.amazonaws.com.cn/k", false},
        {NULL, "https://169.254.169.254/latest/meta-data/", false},
        {NULL, "https://evil.org/bucket.s3.eu-west-1.amazonaws.com", false},
        {NULL, "https://bucket.s3.eu-west-1.amazonaws.com@evil.org/", false},
        {NULL, "https://evil.org\\@bucket.s3.eu-west-1.amazonaws.com/", false},
        {NULL, "https://evil.org#bucket.s3.eu-west-1.amazonaws.com/", false},
        {NULL, "https://evil.org%2f.s3.eu-west-1.amazonaws.com/", false},
        {NULL, "https:/bucket.s3.amazonaws.com/k", false},
        {NULL, "https:///k", false},
        {NULL, "file:///etc/passwd", false},
        {NULL, "//bucket.s3.amazonaws.com/k", false},
        {NULL, "/k", false},
        {NULL, "", false},
        {"http://minio.example.com:9000", "http://minio.example.com:9001/bucket/k", true},
        {"http://minio.example.com:9000", "https://minio.example.com/bucket/k", true},
        {"http://minio.example.com:9000", "http://node2.minio.example.com:9000/bucket/k", true},
        {"http://minio.example.com:9000", "http://evilminio.example.com:9000/bucket/k", false},
        {"http://minio.example.com:9000", "http://example.com/bucket/k", false},
        {"http://minio.example.com:9000", "http://127.0.0.1/bucket/k", false},
        {"http://minio.example.com:9000", "http://localhost/bucket/k", false},
        {"http://minio.example.com:9000", "http://[::1]/bucket/k", false},
        {"http://minio.example.com:9000", "http://2130706433/bucket/k", false},
        {"http://minio.example.com:9000", "http://169.254.169.254/latest/meta-data/", false},
        {"http://minio.example.com:9000", "http://minio.example.com.:9000/k", false},
        {"http://minio.example.com:9000", "ftp://minio.example.com/k", false},
        {"https://minio.example.com", "http://minio.example.com/k", false},
        {"http://127.0.0.1:9000", "http://127.0.0.1:9001/bucket/k", true},
        {"http://127.0.0.1:9000", "http://x.127.0.0.1:9001/bucket/k", false},
        {"http://127.0.0.1:9000", "http://127.0.0.2/bucket/k", false},
        {"http://127.0.0.1:9000", "http://[::1]:9000/bucket/k", false},
        {"http://[::1]:9000", "http://[::1]:9001/bucket/k", true},
        {"http://localhost:9000", "http://localhost/bucket/k", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct s3_place p;
        set_env(cases[i].endpoint, "eu-west-1", NULL);
        assert_int_equal(s3_place_find(&p, "s3://bucket", NULL), 0);
        if (s3_place_may_redirect(&p, cases[i].url) != cases[i].is_ours)
            fail_msg("%s -> %s", cases[i].endpoint ? cases[i].endpoint : "Amazon", cases[i].url);
    }
    struct s3_place p;
    set_env("http://h.org:80", NULL, "virtual");
    assert_int_equal(s3_place_find(&p, "s3://bucket", NULL), 0);
    assert_true(s3_place_may_redirect(&p, "http://bucket.h.org/k") && s3_place_may_redirect(&p, "http://h.org/bucket/k"));
    assert_false(s3_place_may_redirect(&p, "http://bucket.org/k"));
    set_env(NULL, NULL, NULL);
}

static void what_is_no_place_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"s3://", "s3:///x", "http://x", "s3://-a", "s3://a b/c", "s3://a@b/c", "s3://a:b/c"};
    static const char *const endpoint[] = {"file:///etc",      "h:9000",  "http://user:pw@h", "http://h?x",
                                           "http://h\r\nX: y", "http://", "ftp://h"};
    struct s3_place p;
    set_env(NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(s3_place_find(&p, bad[i], NULL), FB_E_USAGE);
    for (size_t i = 0; i < sizeof(endpoint) / sizeof(endpoint[0]); i++) {
        set_env(endpoint[i], NULL, NULL);
        if (s3_place_find(&p, "s3://bucket", NULL) != FB_E_USAGE)
            fail_msg("taken: %s", endpoint[i]);
    }
    set_env(NULL, "x/../y", NULL);
    assert_int_equal(s3_place_find(&p, "s3://bucket", NULL), FB_E_USAGE);
    set_env(NULL, NULL, NULL);
}

/* ---- answers ---- */

static struct s3_answer answer_of(const char *head)
{
    struct s3_answer a;
    s3_answer_clear(&a);
    while (*head) {
        size_t n = strcspn(head, "\n");
        s3_answer_line(&a, head, n);
        head += n + (head[n] == '\n');
    }
    return a;
}

static enum s3_verdict judged(const char *head, struct s3_wanted w, uint64_t *skip, uint64_t *body)
{
    struct s3_answer a = answer_of(head);
    const char *why;
    if (w.expected_size == 0)
        w.expected_size = S3_UNKNOWN;
    return s3_answer_judge(&a, &w, skip, body, &why);
}

static void ranges_are_taken_only_as_asked_for(void **state)
{
    (void)state;
    uint64_t skip, body;
    struct s3_wanted w = {.offset = 10, .length = 10, .room = 10};
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 10-19/100\nContent-Length: 10\nETag: \"a\"\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(body, 10);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Range: bytes 10-19/100\nContent-Length: 10\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 10-14/15\nContent-Length: 5\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 10-14/100\nContent-Length: 5\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 11-20/100\nContent-Length: 10\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 10-20/100\nContent-Length: 11\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 10-19/100\nContent-Length: 11\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Length: 10\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 206 P\nContent-Range: bytes 19-10/100\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 100\n", w, &skip, &body), S3_NO_RANGES);
    assert_int_equal(judged("HTTP/1.1 416 R\nContent-Range: bytes */5\n", w, &skip, &body), S3_NOTHING);
    w.may_skip = true;
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 15\n", w, &skip, &body), S3_TAKE);
    assert_true(skip == 10 && body == 5);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 10\n", w, &skip, &body), S3_NOTHING);
}

static void versions_are_kept_apart(void **state)
{
    (void)state;
    uint64_t skip, body;
    struct s3_version pin = answer_of("HTTP/1.1 200\nETag: \"a\"\n").version;
    struct s3_wanted w = {.length = S3_ALL, .room = 100, .pin = &pin};
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 5\nETag: \"a\"\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 5\nETag: W/\"a\"\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 5\nETag: \"b\"\n", w, &skip, &body), S3_CHANGED);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 5\n", w, &skip, &body), S3_CHANGED);
    assert_int_equal(judged("HTTP/1.1 412 P\n", w, &skip, &body), S3_CHANGED);
    int64_t number = s3_version_mtime_ns(&pin, 0);
    struct s3_wanted m = {.length = S3_ALL, .room = 100, .expected_mtime_ns = number, .must_match = true, .expected_size = 5};
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 5\nETag: \"a\"\n", m, &skip, &body), S3_TAKE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 4\nETag: \"a\"\n", m, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 5\nETag: \"b\"\n", m, &skip, &body), S3_CHANGED);
    assert_int_equal(s3_etag_hash("\"a\"", 3), s3_etag_hash("a", 1));
}

static void lengths_must_be_told(void **state)
{
    (void)state;
    uint64_t skip, body;
    struct s3_wanted w = {.length = S3_ALL, .room = 100};
    assert_int_equal(judged("HTTP/1.1 200 OK\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 101\n", w, &skip, &body), S3_TOO_LARGE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: 99999999999999999999\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 200 OK\nContent-Length: -1\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 204 No\n", w, &skip, &body), S3_NONSENSE);
    assert_int_equal(judged("HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 7\n", w, &skip, &body), S3_TAKE);
    assert_int_equal(answer_of("HTTP/1.1 503 S\nRetry-After: 7\n").retry_after_s, 7);
    assert_int_equal(
        answer_of("HTTP/1.1 503 S\nDate: Wed, 12 Oct 2009 17:50:00 GMT\nRetry-After: Wed, 12 Oct 2009 17:50:30 GMT\n").retry_after_s, 30);
}

static void times_are_read(void **state)
{
    (void)state;
    char stamp[S3_STAMP_BYTES];
    assert_int_equal(s3_time_iso("2009-10-12T17:50:30.000Z"), 1255369830);
    assert_int_equal(s3_time_http("Mon, 12 Oct 2009 17:50:30 GMT"), 1255369830);
    assert_int_equal(s3_time_iso("yesterday"), -1);
    assert_int_equal(s3_time_http("Mon, 12 Foo 2009 17:50:30 GMT"), -1);
    assert_int_equal(s3_time_http("Mon, 12 anF 2009 17:50:30 GMT"), -1);
    s3_time_stamp(1255369830, stamp);
    assert_string_equal(stamp, "20091012T175030Z");
}

/* ---- pace: against a model of a server that answers after `latency` and serves at most `rate` per second ---- */

static double run_model(struct s3_pace *p, double latency_s, double rate, uint64_t bytes, double seconds, double noise, uint64_t *now)
{
    double t = 0, served = 0;
    uint32_t seed = 1;
    while (t < seconds) {
        double n = s3_pace_window(p) / (double)s3_pace_cost(bytes), x = n / latency_s < rate ? n / latency_s : rate;
        seed = seed * 1664525u + 1013904223u;
        x *= 1 + noise * ((double)(seed >> 8) / (1 << 24) - 0.5);
        t += 1 / x;
        served++;
        *now += (uint64_t)(1e9 / x);
        s3_pace_answer(p, bytes, (uint64_t)(1e9 * n / x), true, *now);
    }
    return served / seconds;
}

static void the_window_finds_a_far_servers_rate_within_a_second(void **state)
{
    (void)state;
    struct s3_pace p;
    uint64_t now = 1;
    s3_pace_open(&p, 512, 0);
    double rate = run_model(&p, 0.03, 3000, 110000, 1, 0.2, &now);
    assert_true(rate > 0.9 * 3000); /* the first second, growing included */
    assert_true(run_model(&p, 0.03, 3000, 110000, 2, 0.2, &now) > 0.95 * 3000);
}

static void the_first_answer_tells_how_far_the_server_is(void **state)
{
    (void)state;
    struct s3_pace p;
    s3_pace_open(&p, 256, 0);
    uint32_t before = s3_pace_window(&p);
    s3_pace_answer(&p, 110000, 1000000, true, 1); /* next door */
    assert_in_range(s3_pace_window(&p), before, before + 1);
    s3_pace_open(&p, 256, 0);
    s3_pace_answer(&p, 110000, 31000000, true, 1);
    assert_true(s3_pace_window(&p) >= 240);
    s3_pace_open(&p, 64, 0);
    s3_pace_answer(&p, 110000, 5000000000, true, 1);
    assert_int_equal(s3_pace_window(&p), 64); /* never more than the caller allows */
    s3_pace_open(&p, 256, 0);
    s3_pace_answer(&p, 110000, 31000000, false, 1); /* nobody wanted more */
    assert_int_equal(s3_pace_window(&p), before);
}

static void the_window_stays_small_where_more_does_not_help(void **state)
{
    (void)state;
    struct s3_pace p;
    uint64_t now = 1;
    s3_pace_open(&p, 512, 0);
    run_model(&p, 0.002, 4000, 110000, 5, 0.1, &now);
    assert_in_range(s3_pace_window(&p), 8, 64);
    s3_pace_open(&p, 512, 0);
    run_model(&p, 0.004, 250, 8 << 20, 5, 0.1, &now); /* 2 GB/s in ranges */
    assert_in_range(s3_pace_window(&p), 5, 64);
}

static void a_server_that_says_slow_down_is_asked_less_and_then_more_again(void **state)
{
    (void)state;
    struct s3_pace p;
    uint64_t now = 1;
    s3_pace_open(&p, 256, 0);
    run_model(&p, 0.03, 1e9, 110000, 2, 0, &now);
    uint32_t before = s3_pace_window(&p);
    assert_int_equal(before, 256);
    s3_pace_back_off(&p, now);
    s3_pace_back_off(&p, now); /* the rest of the same storm */
    assert_int_equal(s3_pace_window(&p), 128);
    now += 600000000;
    s3_pace_back_off(&p, now);
    assert_int_equal(s3_pace_window(&p), 64);
    run_model(&p, 0.03, 1e9, 110000, 20, 0, &now);
    assert_true(s3_pace_window(&p) > 100);
    for (int i = 0; i < 20; i++)
        s3_pace_back_off(&p, now += 600000000);
    assert_int_equal(s3_pace_window(&p), 1);
}

static void a_consumer_that_wants_little_changes_nothing(void **state)
{
    (void)state;
    struct s3_pace p;
    s3_pace_open(&p, 256, 0);
    uint32_t before = s3_pace_window(&p);
    for (uint64_t i = 1; i < 5000; i++)
        s3_pace_answer(&p, 110000, 1000000, false, i * 1000000);
    assert_int_equal(s3_pace_window(&p), before);
    s3_pace_open(&p, 256, 7);
    s3_pace_back_off(&p, 1);
    assert_int_equal(s3_pace_window(&p), 7);
}

/* ---- second requests ---- */

static void late_is_twice_what_most_take(void **state)
{
    (void)state;
    struct s3_hedge h;
    s3_hedge_open(&h, false);
    assert_int_equal(s3_hedge_late_ns(&h), 1000000000);
    for (int i = 0; i < 2000; i++)
        s3_hedge_note(&h, i % 100 == 0 ? 5000000000u : 30000000u + (uint64_t)(i % 10) * 1000000u);
    assert_in_range(s3_hedge_late_ns(&h), 70000000, 110000000);
    s3_hedge_open(&h, true);
    assert_true(s3_hedge_late_ns(&h) == UINT64_MAX && !s3_hedge_take(&h));
}

static void at_most_one_in_twenty_five_is_sent_twice(void **state)
{
    (void)state;
    struct s3_hedge h;
    int taken = 0;
    s3_hedge_open(&h, false);
    for (int i = 0; i < 20000; i++) {
        s3_hedge_note(&h, 1000000);
        taken += s3_hedge_take(&h);
    }
    assert_in_range(taken, 700, 820);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xml_is_read_as_written),
        cmocka_unit_test(xml_that_is_not_is_refused),
        cmocka_unit_test(errors_are_read_from_answers),
        cmocka_unit_test(profiles_are_read_as_awss_tools_do),
        cmocka_unit_test(endpoints_are_found),
        cmocka_unit_test(redirects_stay_with_the_endpoint),
        cmocka_unit_test(what_is_no_place_is_refused),
        cmocka_unit_test(ranges_are_taken_only_as_asked_for),
        cmocka_unit_test(versions_are_kept_apart),
        cmocka_unit_test(lengths_must_be_told),
        cmocka_unit_test(times_are_read),
        cmocka_unit_test(the_window_finds_a_far_servers_rate_within_a_second),
        cmocka_unit_test(the_first_answer_tells_how_far_the_server_is),
        cmocka_unit_test(the_window_stays_small_where_more_does_not_help),
        cmocka_unit_test(a_server_that_says_slow_down_is_asked_less_and_then_more_again),
        cmocka_unit_test(a_consumer_that_wants_little_changes_nothing),
        cmocka_unit_test(late_is_twice_what_most_take),
        cmocka_unit_test(at_most_one_in_twenty_five_is_sent_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
