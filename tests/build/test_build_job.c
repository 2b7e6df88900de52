/* The job itself, by what it tells its caller on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "jobs/build.h"

enum { FILES = 300, SAMPLES = 16000 };

static char root[] = "/tmp/fullbore-build-XXXXXX";

static const char *path_of(const char *format, int i)
{
    static char path[2][128];
    static int which;
    char name[64];
    snprintf(name, sizeof(name), format, i);
    snprintf(path[which ^= 1], sizeof(path[0]), "%s/%s", root, name);
    return path[which];
}

static void put_wav(const char *path, uint32_t samples)
{
    static int16_t sound[SAMPLES];
    uint32_t bytes = samples * 2, riff = 36 + bytes, sixteen = 16, rate = 16000, rate_bytes = 32000;
    uint16_t one = 1, two = 2, bits = 16;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    for (uint32_t i = 0; i < samples; i++)
        sound[i] = (int16_t)(i * 37 % 4001);
    fwrite("RIFF", 4, 1, f), fwrite(&riff, 4, 1, f), fwrite("WAVEfmt ", 8, 1, f), fwrite(&sixteen, 4, 1, f);
    fwrite(&one, 2, 1, f), fwrite(&one, 2, 1, f), fwrite(&rate, 4, 1, f), fwrite(&rate_bytes, 4, 1, f);
    fwrite(&two, 2, 1, f), fwrite(&bits, 2, 1, f), fwrite("data", 4, 1, f), fwrite(&bytes, 4, 1, f);
    fwrite(sound, 2, samples, f);
    assert_int_equal(fclose(f), 0);
}

static void remember(void *ctx, const struct build_progress *p)
{
    struct build_progress *last = ctx;
    assert_true(p->files >= p->files_before && p->files <= p->files_total);
    *last = *p;
}

static int build(bool resumes, struct build_progress *last)
{
    static char source[128], output[128], catalogs[128];
    snprintf(source, sizeof(source), "%s/s", root);
    snprintf(output, sizeof(output), "%s/a.h5", root);
    snprintf(catalogs, sizeof(catalogs), "%s/catalogs", root);
    struct build_request q = {.output = output, .length = {.samples = SAMPLES}, .dtype = FB_FLOAT32, .resumes = resumes,
                              .progress = remember, .ctx = last};
    struct build_result r;
    struct fb_error e = {0};
    fb_init_options(&q.options);
    q.options.source = source;
    q.options.catalog_dir = catalogs;
    q.options.threads = 1;
    int rc = build_run(&q, &r, &e);
    build_result_free(&r);
    return rc;
}

/* A rate is of files and seconds of one run. */
static void files_of_an_earlier_run_are_told_apart(void **state)
{
    (void)state;
    struct build_progress last = {0};
    for (int i = 0; i < FILES; i++)
        put_wav(path_of("s/%04d.wav", i), i == FILES - 1 ? 0 : SAMPLES);
    assert_int_equal(build(false, &last), FB_E_DATA);
    assert_int_equal(last.files_before, 0);
    put_wav(path_of("s/%04d.wav", FILES - 1), SAMPLES);
    int rc = build(true, &last);
    if (rc != FB_E_UNSUPPORTED && rc != 0) /* the program that makes the file may not be beside a test */
        fail_msg("%d", rc);
    assert_int_equal(last.files, FILES);
    assert_true(last.files_before > FILES / 2 && last.files_before < FILES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(files_of_an_earlier_run_are_told_apart)};
    if (!mkdtemp(root) || mkdir(path_of("s", 0), 0777) < 0)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[200];
    snprintf(command, sizeof(command), "rm -rf %s", root);
    return system(command) == 0 ? failed : 1;
}
