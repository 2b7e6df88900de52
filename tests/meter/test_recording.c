/* Recordings: whole, cut at every byte, damaged, of another kind, of the future. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "meter/recording.h"

static char path[64];

static void write_recording(int rows)
{
    struct recording_writer *w;
    struct fb_error e = {0};
    struct snapshot s = {0};
    struct run_facts facts = {.program = "python", .script = "train.py", .exit_code = 3};
    snprintf(path, sizeof(path), "/tmp/fullbore-fbr-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(recording_create(&w, path, &e), 0);
    for (int i = 0; i < rows; i++) {
        s.at_s = i;
        s.wall_s = 1;
        recording_add(w, &s);
    }
    assert_int_equal(recording_close(w, &facts, &e), 0);
}

static void change_byte(long at, int value)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    fputc(value, f);
    fclose(f);
}

static void what_was_written_is_read(void **state)
{
    (void)state;
    struct recording r;
    struct fb_error e = {0};
    write_recording(20);
    assert_int_equal(recording_read(&r, path, &e), 0);
    assert_int_equal(r.series.count, 20);
    assert_true(r.series.row[19].at_s == 19 && r.lost_bytes == 0 && r.facts.exit_code == 3);
    assert_string_equal(r.facts.script, "train.py");
    recording_free(&r);
    unlink(path);
}

static void write_old_row(uint32_t version, uint32_t bytes)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint32_t head[2] = {0, version}, kind[2] = {2, bytes};
    memcpy(head, "FBR1", 4);
    struct snapshot s = {.at_s = 4, .wall_s = 1, .cpu_ratio = 0.5, .loop_batches = 7};
    uint64_t sum = checksum_of(&s, bytes);
    fwrite(head, sizeof(head), 1, f), fwrite(kind, sizeof(kind), 1, f), fwrite(&sum, sizeof(sum), 1, f);
    fwrite(&s, bytes, 1, f);
    fclose(f);
}

static void rows_of_older_versions_are_read_and_what_they_lack_is_unknown(void **state)
{
    (void)state;
    static const uint32_t bytes[] = {0, SNAPSHOT_BYTES_V1, SNAPSHOT_BYTES_V2};
    for (uint32_t version = 1; version <= 2; version++) {
        struct recording r;
        struct fb_error e = {0};
        write_old_row(version, bytes[version]);
        assert_int_equal(recording_read(&r, path, &e), 0);
        assert_true(r.series.count == 1 && r.series.row[0].cpu_ratio == 0.5 && isnan(r.series.row[0].loop_steps) &&
                    isnan(r.series.row[0].stack_known));
        assert_true(version == 1 ? isnan(r.series.row[0].loop_batches) : r.series.row[0].loop_batches == 7);
        recording_free(&r);
    }
    unlink(path);
}

static void marks_are_kept(void **state)
{
    (void)state;
    struct recording_writer *w;
    struct recording r;
    struct fb_error e = {0};
    struct mark m[3] = {{.at_ns = 1, .kind = MARK_EPOCH}, {.at_ns = 2, .kind = MARK_BATCH}, {.at_ns = 3, .kind = MARK_END}};
    struct snapshot s = {.at_s = 1, .wall_s = 1};
    write_recording(1);
    assert_int_equal(recording_create(&w, path, &e), 0);
    recording_mark(w, m, 3);
    recording_add(w, &s);
    recording_mark(w, m, 2);
    assert_int_equal(recording_close(w, &(struct run_facts){0}, &e), 0);
    assert_int_equal(recording_read(&r, path, &e), 0);
    assert_true(r.marks == 5 && r.mark[2].at_ns == 3 && r.mark[4].at_ns == 2);
    recording_free(&r);
    unlink(path);
}

static void a_recording_cut_anywhere_keeps_its_whole_rows(void **state)
{
    (void)state;
    write_recording(3);
    const long row = 16 + (long)sizeof(struct snapshot);
    for (long size = 8 + 3 * row; size > 0; size -= 97) {
        struct recording r;
        struct fb_error e = {0};
        assert_int_equal(truncate(path, size), 0);
        int rc = recording_read(&r, path, &e), whole = size < 8 ? 0 : (int)((size - 8) / row);
        assert_int_equal(rc, whole ? 0 : FB_E_DATA);
        if (rc == 0) {
            assert_int_equal(r.series.count, whole);
            assert_true(r.lost_bytes == (uint64_t)(size - 8 - whole * row));
            recording_free(&r);
        }
    }
    unlink(path);
}

static void a_flipped_bit_ends_the_recording_before_it(void **state)
{
    (void)state;
    struct recording r;
    struct fb_error e = {0};
    write_recording(5);
    change_byte(8 + 2 * (16 + (long)sizeof(struct snapshot)) + 100, 0x5a);
    assert_int_equal(recording_read(&r, path, &e), 0);
    assert_int_equal(r.series.count, 2);
    assert_true(r.lost_bytes > 0);
    recording_free(&r);
    unlink(path);
}

static void a_newer_version_is_refused_in_words(void **state)
{
    (void)state;
    struct recording r;
    struct fb_error e = {0};
    write_recording(2);
    change_byte(4, SNAPSHOT_VERSION + 1);
    assert_int_equal(recording_read(&r, path, &e), FB_E_UNSUPPORTED);
    assert_non_null(strstr(e.cause, "version 4"));
    assert_non_null(strstr(e.remedy, "newer"));
    unlink(path);
}

static void other_files_and_absent_ones_are_refused(void **state)
{
    (void)state;
    struct recording r;
    struct fb_error e = {0};
    write_recording(2);
    change_byte(0, 'X');
    assert_int_equal(recording_read(&r, path, &e), FB_E_DATA);
    unlink(path);
    memset(&e, 0, sizeof(e));
    assert_int_equal(recording_read(&r, path, &e), FB_E_NOT_FOUND);
    memset(&e, 0, sizeof(e));
    assert_true(recording_read(&r, "/tmp", &e) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(rows_of_older_versions_are_read_and_what_they_lack_is_unknown),
        cmocka_unit_test(marks_are_kept),
        cmocka_unit_test(a_recording_cut_anywhere_keeps_its_whole_rows),
        cmocka_unit_test(a_flipped_bit_ends_the_recording_before_it),
        cmocka_unit_test(a_newer_version_is_refused_in_words),
        cmocka_unit_test(other_files_and_absent_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
