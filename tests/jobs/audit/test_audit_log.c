/* Audit logs with sound checks and senseless contents: every field of a head and of a run gets every kind of value. Such a log is damaged,
 * never a crash, and a number is taken only if it was one. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "jobs/audit.h"
#include "model/audit_format.h"

static char folder[] = "/tmp/fb-audit-XXXXXX", path[64];

struct field {
    const char *name, *sound;
    bool wants_digits; /* in a string */
};
static const struct field head[] = {{"format", "2", false},           {"fingerprint", "\"30baf363787b99d0\"", true},
                                    {"samples", "5", false},          {"seed", "\"7\"", true},
                                    {"order", "\"shuffled\"", false}, {"window", "[0,0]", false},
                                    {"config", "\"0\"", true}},
                          run[] = {{"began_ns", "1", false},     {"epoch", "0", false},        {"start", "0", false},
                                   {"rank", "0", false},         {"world", "1", false},        {"skip", "[]", false},
                                   {"global_batch", "2", false}, {"drop_last", "false", false}};
enum { HEAD_FIELDS = sizeof(head) / sizeof(*head), RUN_FIELDS = sizeof(run) / sizeof(*run) };

static const char *const values[] = {
    "\"12\"",
    "\"ab\"",
    "\"-1\"",
    "\"+1\"",
    "\"\"",
    "\" 1\"",
    "\"1 \"",
    "\"0x1\"",
    "\"1g\"",
    "\"ffffffffffffffffff\"",
    "\"99999999999999999999\"",
    "\"1\\t\"",
    "-1",
    "0",
    "1.5",
    "1e3",
    "9223372036854775807",
    "-9223372036854775808",
    "1000000000000",
    "null",
    "true",
    "[]",
    "{}",
    "\"window\"",
    "[1,1]",
    "[-1,-1]",
    "[0,9223372036854775807]",
    "[9223372036854775807,9223372036854775807]",
    "[[0,1]]",
    "[[-1,-1]]",
    "[[5]]",
    "[\"-1\"]",
};
enum { VALUES = sizeof(values) / sizeof(*values) };

/* ---- logs ---- */

static size_t put_record(uint8_t *at, char type, const char *json, uint64_t *digest)
{
    size_t n = strlen(json);
    at[0] = (uint8_t)type;
    audit_put_le(at + 1, n, 4);
    audit_put_le(at + 5, audit_frame_check(*digest, at), 4);
    memcpy(at + AUDIT_FRAME_BYTES, json, n);
    *digest = audit_digest(*digest, at, AUDIT_FRAME_BYTES + n);
    audit_put_le(at + AUDIT_FRAME_BYTES + n, *digest, AUDIT_CHECK_BYTES);
    return AUDIT_FRAME_BYTES + n + AUDIT_CHECK_BYTES;
}

static void put_json(char *out, size_t size, const struct field *f, int count, int odd, const char *value)
{
    size_t used = (size_t)snprintf(out, size, "{");
    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s\"%s\":%s", i ? "," : "", f[i].name, i == odd ? value : f[i].sound);
    snprintf(out + used, size - used, "}");
}

static void write_log(int odd, const char *value)
{
    uint8_t bytes[4096];
    char json[1024];
    uint64_t digest = 0;
    put_json(json, sizeof(json), head, HEAD_FIELDS, odd, value);
    size_t n = put_record(bytes, AUDIT_HEAD, json, &digest);
    put_json(json, sizeof(json), run, RUN_FIELDS, odd - HEAD_FIELDS, value);
    n += put_record(bytes + n, AUDIT_RUN, json, &digest);
    n += put_record(bytes + n, AUDIT_BAD, "{\"epoch\":0,\"sample\":0,\"key\":\"a\\u001b[31m\",\"cause\":\"b\\u0007\"}", &digest);
    n += put_record(bytes + n, AUDIT_END, "{\"why\":\"done\"}", &digest);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

static bool log_is_damaged(void)
{
    struct audit_log l;
    struct fb_error e = {0};
    assert_int_equal(audit_log_open(&l, path, &e), 0);
    bool is_damaged = l.is_damaged;
    audit_log_close(&l);
    return is_damaged;
}

/* ---- promises ---- */

static void a_sound_log_is_read(void **state)
{
    (void)state;
    write_log(-1, "");
    assert_false(log_is_damaged());
}

static bool is_number(const char *value, bool is_decimal)
{
    size_t n = strlen(value) - 2;
    return value[0] == '"' && n > 0 && n <= 16 && strspn(value + 1, is_decimal ? "0123456789" : "0123456789abcdef") == n;
}

static void text_that_is_no_number_is_damage(void **state)
{
    (void)state;
    for (int f = 0; f < HEAD_FIELDS; f++)
        for (int v = 0; head[f].wants_digits && v < VALUES; v++) {
            bool is_sound = is_number(values[v], strcmp(head[f].name, "seed") == 0);
            write_log(f, values[v]);
            if (log_is_damaged() == is_sound)
                fail_msg("\"%s\":%s is %s", head[f].name, values[v], is_sound ? "refused" : "taken");
        }
}

static void no_value_of_any_field_breaks_an_audit(void **state)
{
    (void)state;
    static struct audit_set set;
    for (int f = 0; f < HEAD_FIELDS + RUN_FIELDS; f++)
        for (int v = 0; v < VALUES; v++) {
            struct fb_error e = {0};
            write_log(f, values[v]);
            assert_int_equal(audit_join(&set, folder, &e), 0);
            audit_prove(&set, NULL, NULL, &e); /* too large for this machine: an error in words */
            audit_free(&set);
        }
}

static int make_folder(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/x.audit", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_log_is_read),
        cmocka_unit_test(text_that_is_no_number_is_damage),
        cmocka_unit_test(no_value_of_any_field_breaks_an_audit),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
