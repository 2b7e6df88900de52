/* The audit catches a sabotaged engine. Functions of the engine are replaced at link time (--wrap): a sample is left out, decoded twice,
 * exchanged, or overwritten in its place; a batch is passed over; files change under the run. Nothing of this is in the library.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rng.h"
#include "feed/crew.h"
#include "jobs/audit_text.h"
#include "model/audit_format.h"
#include "../photo_folder.h"

enum { PHOTOS = 100, CLASSES = 4, VICTIM = 37 /* a position */ };
static struct photo_folder photos;
static char logs[300];

/* ---- sabotage ---- */

enum sabotage { HONEST, DROP, DOUBLE, EXCHANGE, SWAP_MEMORY, COPY_MEMORY, LOSE_BATCH };
static enum sabotage sabotage;

void __real_load_run(struct worker *w, struct feed *f, struct load *l);
void __wrap_load_run(struct worker *w, struct feed *f, struct load *l);
void __real_load_aim(struct feed *f, struct load *l, uint64_t sample);
void __wrap_load_aim(struct feed *f, struct load *l, uint64_t sample);
void __real_audit_delivered(struct feed *f, const struct slot *s);
void __wrap_audit_delivered(struct feed *f, const struct slot *s);
struct batch_span __real_ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g);
struct batch_span __wrap_ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g);

/* The worker says it is done, without having done anything. */
void __wrap_load_run(struct worker *w, struct feed *f, struct load *l)
{
    if (sabotage == DROP && l->position == VICTIM)
        load_finish(f, l);
    else
        __real_load_run(w, f, l);
}

static uint64_t sample_at(const struct feed *f, const struct load *l, uint64_t position)
{
    struct order o;
    order_init(&o, f->subset.count, f->seed, l->slot->epoch, f->is_shuffled, NULL);
    return order_at(&o, position);
}

void __wrap_load_aim(struct feed *f, struct load *l, uint64_t sample)
{
    bool is_victim = l->position == VICTIM, is_neighbour = l->position == VICTIM + 1;
    if (is_victim && (sabotage == DOUBLE || sabotage == EXCHANGE))
        sample = sample_at(f, l, VICTIM + 1);
    if (is_neighbour && sabotage == EXCHANGE)
        sample = sample_at(f, l, VICTIM);
    __real_load_aim(f, l, sample);
}

/* After all loads are done, and before anybody has seen the batch. */
void __wrap_audit_delivered(struct feed *f, const struct slot *s)
{
    char *a = slot_at(s, 0, 0), *b = slot_at(s, 0, 1);
    for (size_t i = 0; s->batch == 3 && i < s->shape->field[0].sample_bytes; i++) {
        char t = a[i];
        if (sabotage == SWAP_MEMORY)
            a[i] = b[i];
        if (sabotage == SWAP_MEMORY || sabotage == COPY_MEMORY)
            b[i] = t;
    }
    __real_audit_delivered(f, s);
}

static bool is_planning; /* the auditor asks for spans as well, and must not be lied to */

struct batch_span __wrap_ranks_batch_left(const struct rank_layout *l, const struct skips *s, uint64_t start, uint64_t g)
{
    bool is_lost = sabotage == LOSE_BATCH && is_planning && g >= 3 && g + 1 < ranks_batches_left(l, s, start);
    return __real_ranks_batch_left(l, s, start, is_lost ? g + 1 : g);
}

/* ---- helpers ---- */

static void clear_logs(void)
{
    char command[400];
    snprintf(command, sizeof(command), "rm -rf '%s'", logs);
    assert_int_equal(system(command), 0);
}

static void run_epochs(const fb_options *o, int epochs)
{
    struct fb_error e = {0};
    fb_loader *l;
    fb_batch *b;
    setenv("FULLBORE_AUDIT", logs, 1);
    assert_int_equal(fb_open(o, &l, &e), 0);
    unsetenv("FULLBORE_AUDIT");
    is_planning = true;
    for (int i = 0; i < epochs; i++) {
        assert_true(fb_start_epoch(l, FB_NEXT_EPOCH, &e) >= 0);
        int rc;
        while ((rc = fb_next_batch(l, &b, &e)) == 1)
            fb_release_batch(b);
        assert_int_equal(rc, 0);
    }
    fb_close(l);
    is_planning = false;
}

/* Proves what is in `logs`; the text is kept. */
static char *verdict_of_logs(bool *is_proved)
{
    static char out[1 << 16];
    static struct audit_set set;
    struct fb_error e = {0};
    struct text t = {.limit = sizeof(out)};
    assert_int_equal(audit_join(&set, logs, &e), 0);
    assert_int_equal(audit_prove(&set, NULL, NULL, &e), 0);
    audit_print(&set, &t);
    snprintf(out, sizeof(out), "%s", t.data);
    *is_proved = audit_is_proved(&set);
    audit_free(&set);
    text_free(&t);
    return out;
}

static void expect_words(const char *words)
{
    bool is_proved;
    const char *text = verdict_of_logs(&is_proved);
    if (is_proved != !strstr(words, "NOT PROVED"))
        fail_msg("%s", text);
    char list[600];
    snprintf(list, sizeof(list), "%s", words);
    for (char *save = NULL, *word = strtok_r(list, "|", &save); word; word = strtok_r(NULL, "|", &save))
        if (!strstr(text, word))
            fail_msg("'%s' is not in\n%s", word, text);
}

static void expect(enum sabotage what, const char *words)
{
    fb_options o = photo_options(&photos);
    clear_logs();
    sabotage = what;
    run_epochs(&o, 2);
    sabotage = HONEST;
    expect_words(words);
}

/* ---- tests ---- */

static void an_honest_engine_is_proved(void **state)
{
    (void)state;
    expect(HONEST, "100 samples|epoch 0    proved      100 samples, each once|epoch 1    proved      100 samples, each once");
}

static void a_sample_left_out_is_caught(void **state)
{
    (void)state;
    expect(DROP, "NOT PROVED|position 37: nothing was decoded into this place");
}

static void a_sample_decoded_twice_is_caught(void **state)
{
    (void)state;
    expect(DOUBLE, "NOT PROVED|position 37: sample|where the order has sample|came a second time");
}

static void exchanged_samples_are_caught_although_each_came_once(void **state)
{
    (void)state;
    expect(EXCHANGE, "NOT PROVED|position 37: sample|position 38: sample");
    bool is_proved;
    assert_null(strstr(verdict_of_logs(&is_proved), "second time"));
}

static void memory_overwritten_after_decoding_is_caught(void **state)
{
    (void)state;
    expect(SWAP_MEMORY, "NOT PROVED|position 24: what was handed out is not what had been decoded|position 25: what was handed out");
    expect(COPY_MEMORY, "NOT PROVED|position 25: what was handed out is not what had been decoded");
}

static void a_lost_batch_is_caught(void **state)
{
    (void)state;
    expect(LOSE_BATCH, "NOT PROVED|batch 3 of rank 0 does not hold the positions that are this rank's|"
                       "8 positions from here on were never handed out");
}

static void files_exchanged_between_epochs_are_caught(void **state)
{
    (void)state;
    struct photo_folder own;
    char a[600], b[600], c[600];
    photo_folder_make(&own, 40, 1);
    fb_options o = photo_options(&own);
    clear_logs();
    run_epochs(&o, 1);
    snprintf(a, sizeof(a), "%s/class0/00003.jpg", own.root);
    snprintf(b, sizeof(b), "%s/class0/00020.jpg", own.root);
    snprintf(c, sizeof(c), "%s/class0.tmp", own.root);
    assert_true(rename(a, c) == 0 && rename(b, a) == 0 && rename(c, b) == 0);
    struct fb_error e = {0};
    fb_loader *l;
    setenv("FULLBORE_AUDIT", logs, 1);
    assert_int_equal(fb_open(&o, &l, &e), 0);
    unsetenv("FULLBORE_AUDIT");
    assert_int_equal(fb_start_epoch(l, 1, &e), 1);
    fb_batch *batch;
    while (fb_next_batch(l, &batch, &e) == 1)
        fb_release_batch(batch);
    fb_close(l);
    expect_words("NOT PROVED|sample 3 was read from other bytes than before|sample 20 was read from other bytes than before");
    photo_folder_remove(&own);
}

static void a_bad_sample_is_named_with_its_stand_in(void **state)
{
    (void)state;
    struct photo_folder own;
    photo_folder_make(&own, 40, 1);
    photo_folder_spoil(&own, 5, 1, "\xff\xd8 not a picture", 15);
    fb_options o = photo_options(&own);
    o.on_error = FB_SKIP;
    clear_logs();
    run_epochs(&o, 2);
    expect_words("1 bad sample replaced|replaced: epoch 0, position|class0/00005.jpg (sample 5) by sample|"
                 "replaced: epoch 1, position|proved");
    photo_folder_remove(&own);
}

static void an_audit_that_cannot_be_written_is_an_error(void **state)
{
    (void)state;
    fb_options o = photo_options(&photos);
    struct fb_error e = {0};
    fb_loader *l;
    setenv("FULLBORE_AUDIT", "/proc/nowhere/logs", 1);
    assert_true(fb_open(&o, &l, &e) < 0);
    unsetenv("FULLBORE_AUDIT");
    assert_non_null(strstr(e.cause, "FULLBORE_AUDIT"));
    assert_string_equal(e.path, "/proc/nowhere/logs");
}

/* ---- damaged logs ---- */

static char *the_log(char *path, size_t path_size, size_t *n)
{
    char command[800];
    snprintf(command, sizeof(command), "ls '%s'/*.audit", logs);
    FILE *p = popen(command, "r");
    assert_non_null(fgets(path, (int)path_size, p));
    pclose(p);
    path[strcspn(path, "\n")] = 0;
    FILE *f = fopen(path, "rb");
    char *bytes = malloc(1 << 20);
    *n = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static void put_log(const char *path, const char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_true(fwrite(bytes, 1, n, f) == n);
    fclose(f);
}

static void a_log_cut_anywhere_is_read_up_to_there(void **state)
{
    (void)state;
    char path[800];
    size_t n;
    expect(HONEST, "proved");
    char *bytes = the_log(path, sizeof(path), &n);
    uint64_t batches = 0;
    for (size_t cut = 0; cut <= n; cut += cut + 40 < n ? 7 : 1) {
        struct audit_log l;
        struct fb_error e = {0};
        put_log(path, bytes, cut);
        assert_int_equal(audit_log_open(&l, path, &e), 0);
        assert_false(l.is_damaged);
        assert_true(l.batches >= batches);
        batches = l.batches;
        audit_log_close(&l);
        bool is_proved;
        verdict_of_logs(&is_proved);
        assert_true(is_proved); /* as far as it goes: a killed process is no lie */
    }
    assert_int_equal(batches, 26);
    free(bytes);
}

static void a_byte_changed_anywhere_is_noticed(void **state)
{
    (void)state;
    char path[800];
    size_t n;
    expect(HONEST, "proved");
    char *bytes = the_log(path, sizeof(path), &n);
    for (size_t at = 0; at < n; at += 3) {
        struct audit_log l;
        struct fb_error e = {0};
        bytes[at] ^= 0x41;
        put_log(path, bytes, n);
        bytes[at] ^= 0x41;
        assert_int_equal(audit_log_open(&l, path, &e), 0);
        if (!l.is_damaged && !l.torn_bytes)
            fail_msg("byte %zu of %zu was changed, and nobody noticed", at, n);
        audit_log_close(&l);
    }
    free(bytes);
}

/* With a check that fits: the reader must not believe numbers because they are well wrapped. */
static void nonsense_with_a_good_check_does_no_harm(void **state)
{
    (void)state;
    char path[800];
    size_t n;
    expect(HONEST, "proved");
    char *bytes = the_log(path, sizeof(path), &n);
    struct rng r = rng_stream(RNG_SUBSET, 9, 0, 0, 0);
    for (int round = 0; round < 300; round++) {
        size_t at = 0, out = 0;
        uint64_t digest = 0;
        char *copy = malloc(n + 64);
        while (at < n) {
            size_t payload = (size_t)audit_get_le((uint8_t *)bytes + at + 1, 4), whole = AUDIT_FRAME_BYTES + payload;
            memcpy(copy + out, bytes + at, whole);
            if (at > 0 && rng_below(&r, 6) == 0)
                copy[out + AUDIT_FRAME_BYTES + rng_below(&r, payload)] ^= (char)(1u << rng_below(&r, 8));
            digest = audit_digest(digest, (uint8_t *)copy + out, whole);
            audit_put_le((uint8_t *)copy + out + whole, digest, AUDIT_CHECK_BYTES);
            at += whole + AUDIT_CHECK_BYTES;
            out += whole + AUDIT_CHECK_BYTES;
        }
        put_log(path, copy, out);
        free(copy);
        bool is_proved;
        verdict_of_logs(&is_proved);
    }
    free(bytes);
}

static int make_folder(void **state)
{
    (void)state;
    photo_folder_make(&photos, PHOTOS, CLASSES);
    snprintf(logs, sizeof(logs), "%s/logs", photos.home);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    photo_folder_remove(&photos);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_honest_engine_is_proved),
        cmocka_unit_test(a_sample_left_out_is_caught),
        cmocka_unit_test(a_sample_decoded_twice_is_caught),
        cmocka_unit_test(exchanged_samples_are_caught_although_each_came_once),
        cmocka_unit_test(memory_overwritten_after_decoding_is_caught),
        cmocka_unit_test(a_lost_batch_is_caught),
        cmocka_unit_test(files_exchanged_between_epochs_are_caught),
        cmocka_unit_test(a_bad_sample_is_named_with_its_stand_in),
        cmocka_unit_test(an_audit_that_cannot_be_written_is_an_error),
        cmocka_unit_test(a_log_cut_anywhere_is_read_up_to_there),
        cmocka_unit_test(a_byte_changed_anywhere_is_noticed),
        cmocka_unit_test(nonsense_with_a_good_check_does_no_harm),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
