/* Everything that an S3 server sends: listings and error texts (XML), heads of answers, and what is made of them. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "io/s3/s3_answer.h"
#include "io/s3/s3_list.h"
#include "io/s3/keys/s3_profile.h"
#include "io/s3/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_object(void *ctx, const struct store_object *o, struct fb_error *e)
{
    (void)e;
    assert(o->key[0] && o->mtime_ns > 0);
    *(size_t *)ctx += strlen(o->key);
    return 0;
}

static int on_prefix(void *ctx, const char *prefix, struct fb_error *e)
{
    (void)e;
    assert(prefix[0]);
    *(size_t *)ctx += strlen(prefix);
    return 0;
}

static void check_page(const char *text, size_t size)
{
    size_t sum = 0;
    struct s3_page page;
    struct s3_page_visitor v = {on_object, on_prefix, &sum};
    struct fb_error e;
    error_clear(&e);
    int rc = s3_page_read(&page, text, size, &v, &e);
    (void)rc; /* asserts may be off */
    assert(rc == 0 || e.cause[0]);
    assert(rc < 0 || !page.is_truncated || page.token.length > 0);
    s3_page_free(&page);
    struct s3_xml_error said;
    s3_xml_read_error(&said, text, size);
}

/* Whatever the head says, no more is taken than there is room for, and nothing that was not asked for. */
static void check_head(const char *text, size_t size)
{
    struct s3_answer a;
    uint64_t skip, body;
    const char *why;
    s3_answer_clear(&a);
    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        s3_answer_line(&a, text + at, n);
        at += n + 1;
    }
    static const struct s3_wanted wanted[] = {
        {.length = S3_ALL, .room = 1000, .expected_size = S3_UNKNOWN},
        {.offset = 10, .length = 100, .room = 100, .expected_size = S3_UNKNOWN},
        {.offset = 10, .length = 100, .room = 50, .expected_size = 7, .expected_mtime_ns = 5, .may_skip = true}};
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (s3_answer_judge(&a, &wanted[i], &skip, &body, &why) == S3_TAKE) {
            assert(body <= wanted[i].room || body == S3_UNKNOWN);
            assert(body != S3_UNKNOWN || wanted[i].length == S3_ALL);
            assert(wanted[i].length == S3_ALL || body <= wanted[i].length);
            assert(skip == 0 || skip == wanted[i].offset);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char out[64];
    const char *text = (const char *)data;
    check_page(text, size);
    check_head(text, size);
    if (s3_profile_find(text, size, "default", "region", out, sizeof(out)))
        assert(strlen(out) < sizeof(out));
    s3_profile_find(text, size, "profile x", "s3.addressing_style", out, sizeof(out));
    return 0;
}
