/* Reports on recordings that no watcher wrote: figures that are NaN, infinite, negative or huge, texts of any bytes, marks of any kind. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../fuzz/report_check.h"
#include "base/rng.h"
#include "meter/recording.h"

static struct rng rng;

static uint64_t below(uint64_t n)
{
    return (uint64_t)(rng_double(&rng) * (double)n);
}

static double odd_figure(void)
{
    double any;
    uint64_t bits = below(UINT64_MAX);
    memcpy(&any, &bits, sizeof(any));
    const double odd[] = {NAN, INFINITY, -INFINITY, 1e300, -1e18, any, -0.0, 5e-324};
    return below(2) ? (double)below(1000) / (double)(1 + below(1000)) : odd[below(8)];
}

enum kind { CALM, ODD, ODD_OUTSIDE_ROLES, KINDS };

static void fill_row(struct snapshot *s, enum kind kind, int i)
{
    double *x = (double *)s;
    for (size_t k = 0; k < sizeof(*s) / sizeof(double); k++) {
        bool is_role = &x[k] >= (double *)s->role && &x[k] < (double *)(s->role + ROLE_COUNT);
        bool is_calm = kind == CALM || (kind == ODD_OUTSIDE_ROLES && is_role);
        x[k] = is_calm ? (double)below(1000) * (is_role ? 1e6 : 1) : odd_figure();
    }
    s->wall_s = kind == ODD ? fabs(odd_figure()) : 0.5;
    s->at_s = i * 0.5;
}

static void fill_bytes(void *to, size_t n)
{
    for (size_t k = 0; k < n; k++)
        ((uint8_t *)to)[k] = (uint8_t)below(256);
}

static void write_recording(const char *path, enum kind kind)
{
    struct recording_writer *w;
    struct fb_error e = {0};
    struct mark mark[20];
    struct run_facts facts = {.program = "python",
                              .script = "train.py",
                              .machine_cores = odd_figure(),
                              .started_unix = odd_figure(),
                              .exit_code = odd_figure(),
                              .uses_fullbore = (double)below(2),
                              .is_engine = (double)below(2)};
    assert_int_equal(recording_create(&w, path, &e), 0);
    int rows = 1 + (int)below(60);
    for (int i = 0; i < rows; i++) {
        struct snapshot s;
        fill_row(&s, kind, i);
        recording_add(w, &s);
    }
    fill_bytes(mark, sizeof(mark));
    for (int i = 0; i < 20; i++)
        mark[i].kind = (uint16_t)(below(5)), mark[i].loop &= 1, mark[i].pid &= 1;
    recording_mark(w, mark, 20);
    if (below(2)) {
        char *const texts[] = {facts.program, facts.script, facts.gpu_reason, facts.data_mount, facts.lost};
        for (int i = 0; i < 5; i++)
            fill_bytes(texts[i], 64);
        strcpy(facts.gpu_name, "\033[31m");
    }
    assert_int_equal(recording_close(w, &facts, &e), 0);
}

static void any_recording_gives_a_report_that_can_be_shown(void **state)
{
    (void)state;
    char path[] = "/tmp/fb-report-XXXXXX", page[40];
    int fd = mkstemp(path), rounds = getenv("FB_SOAK") ? 5000 : 150;
    assert_true(fd >= 0);
    close(fd);
    snprintf(page, sizeof(page), "%s.html", path);
    for (int i = 0; i < rounds; i++) {
        rng = rng_stream(RNG_REDRAW, 17, (uint64_t)i, 0, 0);
        write_recording(path, (enum kind)(i % KINDS));
        check_report(path, page, true);
    }
    for (int i = 0; i < rounds; i++) { /* names of our own: now no word may be nan or inf */
        rng = rng_stream(RNG_REDRAW, 18, (uint64_t)i, 0, 0);
        write_recording(path, (enum kind)(i % KINDS));
        struct recording r;
        struct fb_error e = {0};
        bool is_ours = recording_read(&r, path, &e) == 0 && strcmp(r.facts.script, "train.py") == 0;
        if (e.code == 0)
            recording_free(&r);
        check_report(path, page, !is_ours);
    }
    unlink(path);
    unlink(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_recording_gives_a_report_that_can_be_shown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
