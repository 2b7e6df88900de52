/* Signatures: SHA-256's and HMAC's published answers, S3's published examples, and AWS's case suite where it is at hand. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "io/s3/keys/s3_sign.h"

static void hex_of(const char *text, size_t n, char out[65])
{
    uint8_t hash[32];
    struct sha256 s;
    sha256_start(&s);
    for (size_t i = 0; i < n; i += 7)
        sha256_add(&s, text + i, n - i < 7 ? n - i : 7);
    sha256_end(&s, hash);
    sha256_hex(hash, out);
}

static void sha256_gives_the_published_hashes(void **state)
{
    (void)state;
    char hex[65], *million = malloc(1000000);
    hex_of("", 0, hex);
    assert_string_equal(hex, S3_EMPTY_HASH);
    hex_of("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    assert_string_equal(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(million, 'a', 1000000);
    hex_of(million, 1000000, hex);
    assert_string_equal(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void hmac_gives_rfc_4231s_answers(void **state)
{
    (void)state;
    uint8_t out[32];
    char hex[65], key[131];
    sha256_hmac("Jefe", 4, "what do ya want for nothing?", 28, out);
    sha256_hex(out, hex);
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    sha256_hmac(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54, out);
    sha256_hex(out, hex);
    assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

/* ---- S3's own examples ---- */

static void assert_signature(const struct s3_signing *s, const char *expected)
{
    uint8_t key[32];
    struct text out = {.limit = 1 << 16}, work = {.limit = 1 << 16};
    s3_signing_key(key, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", s->date, s->region, s->service);
    assert_true(s3_authorization(&out, &work, s, "AKIAIOSFODNN7EXAMPLE", key));
    const char *found = strstr(out.data, "Signature=");
    assert_non_null(found);
    assert_string_equal(found + strlen("Signature="), expected);
    text_free(&out);
    text_free(&work);
}

static const struct s3_pair example_headers[] = {{"Host", "examplebucket.s3.amazonaws.com"},
                                                 {"x-amz-content-sha256", S3_EMPTY_HASH},
                                                 {"x-amz-date", "20130524T000000Z"},
                                                 {"Range", "bytes=0-9"}};

static void s3s_published_examples_are_signed_alike(void **state)
{
    (void)state;
    struct s3_signing s = {.method = "GET",
                           .path = "/test.txt",
                           .header = example_headers,
                           .header_count = 4,
                           .payload_hash = S3_EMPTY_HASH,
                           .date = "20130524T000000Z",
                           .region = "us-east-1",
                           .service = "s3"};
    assert_signature(&s, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    s.path = "/";
    s.header_count = 3;
    s.query = (const struct s3_pair[]){{"prefix", "J"}, {"max-keys", "2"}};
    s.query_count = 2;
    assert_signature(&s, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
    s.query = (const struct s3_pair[]){{"lifecycle", ""}};
    s.query_count = 1;
    assert_signature(&s, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
}

/* ---- encoding ---- */

static void every_key_character_is_encoded_as_s3_wants_it(void **state)
{
    (void)state;
    static const struct {
        const char *key, *encoded;
    } table[] = {{"a=b", "a%3Db"},
                 {"a+b", "a%2Bb"},
                 {"a@b", "a%40b"},
                 {"a&b", "a%26b"},
                 {"100%", "100%25"},
                 {"a b", "a%20b"},
                 {"it's", "it%27s"},
                 {"(x)", "%28x%29"},
                 {"~", "~"},
                 {"a:b", "a%3Ab"},
                 {"\xC3\xBC", "%C3%BC"},
                 {"a//b", "a//b"},
                 {"./a", "./a"},
                 {"a/../b", "a/../b"},
                 {"*", "%2A"},
                 {"?#", "%3F%23"},
                 {"\x01\x7F", "%01%7F"},
                 {"-._~09azAZ", "-._~09azAZ"},
                 {"", ""}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct text t = {.limit = 1000};
        s3_encode(&t, table[i].key, strlen(table[i].key), true);
        assert_string_equal(t.length ? t.data : "", table[i].encoded);
        text_free(&t);
    }
    struct text t = {.limit = 1000};
    s3_encode(&t, "a/b", 3, false);
    assert_string_equal(t.data, "a%2Fb");
    text_free(&t);
}

/* ---- AWS's suite ---- */

enum { MOST = 65536 };

static char *slurp(const char *folder, const char *name, const char *part)
{
    char path[1024];
    char *text = calloc(1, MOST);
    snprintf(path, sizeof(path), "%s/tests+aws-signing-test-suite+v4+%s+%s", folder, name, part);
    FILE *f = fopen(path, "rb");
    if (f) {
        size_t n = fread(text, 1, MOST - 1, f);
        text[n] = 0;
        fclose(f);
    }
    return text;
}

static int decode(char *s)
{
    char *out = s;
    for (; *s; s++) {
        unsigned c;
        if (*s == '%' && sscanf(s + 1, "%2x", &c) == 1) {
            *out++ = (char)c;
            s += 2;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
    return 0;
}

struct request {
    char method[16], *path;
    struct s3_pair query[S3_MOST_PAIRS], header[S3_MOST_PAIRS];
    int query_count, header_count;
    const char *body;
};

static void parse_query(struct request *r, char *text)
{
    for (char *save = NULL, *one = strtok_r(text, "&", &save); one; one = strtok_r(NULL, "&", &save)) {
        char *equals = strchr(one, '=');
        char *value = equals ? equals + 1 : one + strlen(one);
        if (equals)
            *equals = 0;
        decode(one);
        decode(value);
        r->query[r->query_count++] = (struct s3_pair){one, value};
    }
}

static void parse(struct request *r, char *text)
{
    char *end = strstr(text, " HTTP/1.1"), *line = strchr(end, '\n');
    *end = 0;
    char *space = strchr(text, ' ');
    snprintf(r->method, sizeof(r->method), "%.*s", (int)(space - text), text);
    r->path = space + 1;
    char *question = strchr(r->path, '?');
    if (question) {
        *question = 0;
        parse_query(r, question + 1);
    }
    for (char *next; line && *++line && *line != '\n'; line = next) {
        next = strchr(line, '\n');
        while (next && (next[1] == ' ' || next[1] == '\t')) /* a value over several lines */
            next = strchr(next + 1, '\n');
        if (next)
            *next = 0;
        char *colon = strchr(line, ':');
        *colon = 0;
        r->header[r->header_count++] = (struct s3_pair){line, colon + 1};
    }
    r->body = line && *line == '\n' ? line + 1 : "";
}

static bool has(const char *context, const char *word)
{
    return strstr(context, word) != NULL;
}

static void check_case(const char *folder, const char *name)
{
    char *text = slurp(folder, name, "request.txt"), *context = slurp(folder, name, "context.json"), hash[65], token[2048] = "";
    char *canonical = slurp(folder, name, "header-canonical-request.txt"), *to_sign = slurp(folder, name, "header-string-to-sign.txt");
    char *signature = slurp(folder, name, "header-signature.txt");
    struct request r = {0};
    parse(&r, text);
    hex_of(r.body, strlen(r.body), hash);
    r.header[r.header_count++] = (struct s3_pair){"X-Amz-Date", "20150830T123600Z"};
    char *found = strstr(context, "\"token\": \"");
    if (found && !has(context, "\"omit_session_token\": true")) {
        sscanf(found, "\"token\": \"%2047[^\"]", token);
        r.header[r.header_count++] = (struct s3_pair){"X-Amz-Security-Token", token};
    }
    if (has(context, "\"sign_body\": true"))
        r.header[r.header_count++] = (struct s3_pair){"x-amz-content-sha256", hash};
    struct s3_signing s = {r.method,           r.path,      r.query,  r.query_count, r.header, r.header_count, hash,
                           "20150830T123600Z", "us-east-1", "service"};
    struct text mine = {.limit = MOST}, sts = {.limit = MOST};
    uint8_t key[32], mac[32];
    char hex[65];
    s3_canonical_request(&mine, &s);
    if (strcmp(mine.data, canonical) != 0)
        fail_msg("%s:\n%s\n--- instead of\n%s", name, mine.data, canonical);
    s3_string_to_sign(&sts, &s, mine.data, mine.length);
    assert_string_equal(sts.data, to_sign);
    s3_signing_key(key, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", s.date, s.region, s.service);
    sha256_hmac(key, 32, sts.data, sts.length, mac);
    sha256_hex(mac, hex);
    assert_string_equal(hex, signature);
    text_free(&mine);
    text_free(&sts);
    free(text), free(context), free(canonical), free(to_sign), free(signature);
}

/* S3 does not normalise paths: those cases of the suite are other services'. */
static void the_case_suite_is_signed_alike(void **state)
{
    (void)state;
    const char *folder = getenv("FB_SIGV4_CASES");
    DIR *d = folder ? opendir(folder) : NULL;
    int count = 0;
    if (!d) {
        print_message("skipped: FB_SIGV4_CASES names no folder\n");
        skip();
    }
    for (struct dirent *entry; (entry = readdir(d));) {
        char name[256];
        if (sscanf(entry->d_name, "tests+aws-signing-test-suite+v4+%255[^+]+", name) != 1 || !strstr(entry->d_name, "+request.txt"))
            continue;
        size_t n = strlen(name);
        bool is_normalised =
            n > 11 && strcmp(name + n - 11, "-normalized") == 0 && !strstr(name, "-unnormalized") && !strstr(name, "space");
        if (is_normalised)
            continue;
        check_case(folder, name);
        count++;
    }
    closedir(d);
    assert_true(count >= 30);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_gives_the_published_hashes),       cmocka_unit_test(hmac_gives_rfc_4231s_answers),
        cmocka_unit_test(s3s_published_examples_are_signed_alike), cmocka_unit_test(every_key_character_is_encoded_as_s3_wants_it),
        cmocka_unit_test(the_case_suite_is_signed_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
