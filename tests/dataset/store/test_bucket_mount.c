/* Mounts of mountpoint-s3 are known by the mount table, their bucket by the arguments of the program that mounted them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "dataset/store/bucket_mount.h"

static char proc[] = "/tmp/fb-s3-mount-XXXXXX";

static void put(const char *name, const char *bytes, size_t n)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", proc, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fwrite(bytes, 1, n, f);
    fclose(f);
}

static int make(void **state)
{
    (void)state;
    static const char table[] =
        "22 1 0:20 / / rw - ext4 /dev/vda rw\n30 22 0:40 / /mnt/my\\040bucket rw,nosuid - fuse mountpoint-s3 rw,user_id=0\n"
        "31 22 0:41 / /mnt/other rw - fuse sshfs rw\n32 22 0:42 / /mnt/lost rw - fuse mountpoint-s3 rw\n";
    static const char arguments[] = "/usr/bin/mount-s3\0--read-only\0--prefix\0train/\0the-bucket\0/mnt/my bucket/";
    char path[256];
    assert_non_null(mkdtemp(proc));
    for (const char *const *n = (const char *const[]){"self", "77", "78", NULL}; *n; n++) {
        snprintf(path, sizeof(path), "%s/%s", proc, *n);
        mkdir(path, 0700);
    }
    put("self/mountinfo", table, sizeof(table) - 1);
    put("77/cmdline", arguments, sizeof(arguments));
    put("78/cmdline", "bash", 5);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    static const char *const names[] = {"self/mountinfo", "77/cmdline", "78/cmdline", "self", "77", "78"};
    char path[256];
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", proc, names[i]);
        remove(path);
    }
    rmdir(proc);
    return 0;
}

static void a_mounted_buckets_url_is_found(void **state)
{
    (void)state;
    char url[512];
    assert_true(s3_mount_find(proc, "/mnt/my bucket/class1", url, sizeof(url)));
    assert_string_equal(url, "s3://the-bucket/train/class1");
    assert_true(s3_mount_find(proc, "/mnt/my bucket", url, sizeof(url)));
    assert_string_equal(url, "s3://the-bucket/train/");
}

static void other_folders_are_none(void **state)
{
    (void)state;
    char url[512];
    assert_false(s3_mount_find(proc, "/mnt/my bucket2/x", url, sizeof(url)));
    assert_false(s3_mount_find(proc, "/mnt/other/x", url, sizeof(url)));
    assert_false(s3_mount_find(proc, "/home/x", url, sizeof(url)));
    assert_false(s3_mount_find("/nowhere", "/mnt/my bucket", url, sizeof(url)));
}

static void a_mount_whose_program_is_not_seen_has_no_url(void **state)
{
    (void)state;
    char url[512];
    assert_true(s3_mount_find(proc, "/mnt/lost/x", url, sizeof(url)));
    assert_string_equal(url, "");
}

static char said[2][512];
static int lines;

static void note(void *ctx, int level, const char *line)
{
    (void)ctx;
    assert_int_equal(level, LOG_WARN);
    assert_true(lines < 2);
    snprintf(said[lines++], sizeof(said[0]), "%s", line);
}

static void the_url_is_offered_once(void **state)
{
    (void)state;
    const struct log log = {note, NULL}, nowhere = {NULL, NULL};
    s3_mount_say(proc, "/mnt/other/x", &log);
    s3_mount_say(proc, "/mnt/my bucket/class1", &nowhere);
    assert_int_equal(lines, 0);
    s3_mount_say(proc, "/mnt/my bucket/class1", &log);
    s3_mount_say(proc, "/mnt/my bucket/class1", &log);
    s3_mount_say(proc, "/mnt/lost/x", &log);
    assert_int_equal(lines, 1);
    assert_string_equal(
        said[0], "/mnt/my bucket/class1 is a bucket mounted by mountpoint-s3; opening s3://the-bucket/train/class1 instead reads many "
                 "objects at once");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_mounted_buckets_url_is_found), cmocka_unit_test(other_folders_are_none),
                                       cmocka_unit_test(a_mount_whose_program_is_not_seen_has_no_url),
                                       cmocka_unit_test(the_url_is_offered_once)};
    return cmocka_run_group_tests(tests, make, clean);
}
