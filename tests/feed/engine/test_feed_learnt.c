/* What is learnt of files makes less work and changes nothing else. */
#include "../tally.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../codec/image/jpeg_maker.h"

static void evict_tails(const struct photo_folder *p, int classes)
{
    sync();
    for (int i = 0; i < p->count; i++) {
        char path[600];
        snprintf(path, sizeof(path), "%s/class%d/%05d.jpg", p->root, i % classes, i);
        int fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        posix_fadvise(fd, 65536, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
}

/* Once checkpoints are known, crops of large files read and decode only their part, with the same pixels. */
static void learnt_records_change_the_work_and_not_the_pixels(void **state)
{
    (void)state;
    struct photo_folder p;
    photo_folder_make(&p, 4, 2);
    for (int i = 0; i < 4; i++) {
        struct jpeg_recipe recipe = {"", 3, {i % 2 ? 0x22 : 0x11, 0x11, 0x11}};
        struct bytes b = jpeg_make(&recipe, 1000 + (uint32_t)i, 900);
        assert_true(b.n > 256 << 10);
        photo_folder_spoil(&p, i, 2, b.data, b.n);
        free(b.data);
    }
    static const char *const io[] = {"pread", "slow:latency_us=300,over=pread", "auto", "auto", "pread"};
    fb_options o = photo_options(&p);
    char stats[65536];
    uint64_t digest[4] = {0}, parts = 0;
    for (int round = 0; round < 5; round++) {
        o.io = io[round];
        fb_loader *l = open_or_fail(&o);
        if (round > 2) /* the head is in the page cache, the rest is not: a worker begins and io must go on */
            evict_tails(&p, 2);
        for (int epoch = 0; epoch < 3; epoch++) {
            struct tally t = run_epoch(l, epoch);
            if (round == 0)
                digest[epoch] = t.digest;
            assert_true(t.digest == digest[epoch]);
        }
        fb_get_stats(l, stats, sizeof(stats));
        parts += number_after(stats, "\"part_reads\":");
        if (round > 0)
            assert_true(number_after(stats, "\"by_checkpoints\":") > 0);
        assert_int_equal(number_after(stats, "\"by_fallback\":"), 0);
        fb_close(l);
    }
    assert_true(parts > 0);
    photo_folder_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(learnt_records_change_the_work_and_not_the_pixels),
    };
    return run_photo_tests(tests);
}
