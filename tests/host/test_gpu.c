/* Figures of accelerators: every answer the driver can give, and none. The library is the first argument. */
#include "fake_tree.h"

#include <math.h>

#include "host/gpu.h"

static const char *library;

static struct gpu_figures look(const char *codes, struct gpu *g)
{
    struct gpu_figures f;
    setenv("FAKE_NVML", codes, 1);
    gpu_open(g, library, "/nowhere");
    gpu_read(g, &f);
    return f;
}

static void a_whole_device_tells_everything(void **state)
{
    (void)state;
    struct gpu g;
    struct gpu_figures f = look("", &g);
    assert_int_equal(f.count, 1);
    assert_true(f.busy_ratio == 0.85 && f.memory_bytes == 12.3e9 && f.memory_total_bytes == 24e9 && f.power_w == 312);
    assert_true(f.pcie_in_bytes == 1000000 * 1024.0 && fabs(f.pcie_cap_bytes - 31.5e9) < 1e8);
    assert_string_equal(g.name, "Fake GPU");
    assert_string_equal(g.reason, "");
    gpu_close(&g);
}

/* Every code NVML documents, and some it does not. */
static void every_code_of_utilisation_is_unknown_with_a_reason(void **state)
{
    (void)state;
    const int codes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 999, -1, 12345};
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        char text[64];
        struct gpu g;
        snprintf(text, sizeof(text), "utilization=%d", codes[i]);
        struct gpu_figures f = look(text, &g);
        assert_true(isnan(f.busy_ratio));
        assert_non_null(strstr(g.reason, "no utilisation"));
        assert_true(f.memory_bytes == 12.3e9); /* the rest still counts: MIG tells memory but no utilisation */
        gpu_close(&g);
    }
}

static void every_code_of_init_and_count_and_handle_gives_no_figures(void **state)
{
    (void)state;
    static const char *const functions[] = {"init", "count", "handle"};
    for (int k = 0; k < 3; k++)
        for (int code = 1; code < 30; code++) {
            char text[64];
            struct gpu g;
            snprintf(text, sizeof(text), "%s=%d", functions[k], code);
            struct gpu_figures f = look(text, &g);
            assert_true(g.reason[0] && isnan(f.busy_ratio) && isnan(f.memory_bytes) && f.count == 0);
            gpu_close(&g);
        }
}

/* What one function refuses, with any code, is unknown; the others still tell theirs. */
static void every_code_of_the_other_figures_fails_alone(void **state)
{
    (void)state;
    static const char *const functions[] = {"memory", "power", "pcie", "gen", "width", "name"};
    for (int k = 0; k < 6; k++)
        for (int code = 1; code < 30; code++) {
            char text[64];
            struct gpu g;
            snprintf(text, sizeof(text), "%s=%d", functions[k], code == 29 ? 999 : code);
            struct gpu_figures f = look(text, &g);
            assert_true(f.count == 1 && f.busy_ratio == 0.85 && !g.reason[0]);
            assert_true(isnan(f.memory_bytes) == (k == 0) && isnan(f.memory_total_bytes) == (k == 0));
            assert_true(isnan(f.power_w) == (k == 1) && isnan(f.pcie_in_bytes) == (k == 2));
            assert_true(isnan(f.pcie_cap_bytes) == (k == 3 || k == 4));
            assert_string_equal(g.name, k == 5 ? "" : "Fake GPU");
            gpu_close(&g);
        }
}

static void no_driver_is_said(void **state)
{
    (void)state;
    struct gpu g;
    struct gpu_figures f;
    gpu_open(&g, "/nowhere/libnvidia-ml.so.1", "/nowhere");
    gpu_read(&g, &f);
    assert_true(isnan(f.busy_ratio) && f.count == 0 && g.reason[0]);
    gpu_close(&g);
}

static void a_driver_without_devices_is_said(void **state)
{
    (void)state;
    struct gpu g;
    setenv("FAKE_NVML_COUNT", "0", 1);
    struct gpu_figures f = look("", &g);
    unsetenv("FAKE_NVML_COUNT");
    assert_true(isnan(f.busy_ratio) && f.count == 0);
    assert_non_null(strstr(g.reason, "no device"));
    gpu_close(&g);
}

static void devices_that_nobody_uses_do_not_count(void **state)
{
    (void)state;
    struct gpu g;
    setenv("FAKE_NVML_COUNT", "8", 1);
    setenv("FAKE_NVML_IDLE", "1", 1);
    struct gpu_figures f = look("", &g);
    assert_true(f.count == 1 && f.busy_ratio == 0.85 && f.memory_total_bytes == 24e9);
    gpu_close(&g);
    unsetenv("FAKE_NVML_IDLE");
    f = look("", &g);
    assert_true(f.count == 8 && fabs(f.busy_ratio - 0.85) < 1e-9 && f.memory_total_bytes == 8 * 24e9);
    gpu_close(&g);
    unsetenv("FAKE_NVML_COUNT");
}

static void amd_is_read_from_sysfs(void **state)
{
    (void)state;
    struct tree t = tree_open();
    struct gpu g;
    struct gpu_figures f;
    tree_write(&t, "class/drm/card1/device/gpu_busy_percent", "42\n");
    tree_write(&t, "class/drm/card1/device/mem_info_vram_used", "1000\n");
    tree_write(&t, "class/drm/card1/device/mem_info_vram_total", "4000\n");
    gpu_open(&g, library, t.root);
    gpu_read(&g, &f);
    assert_true(f.count == 1 && f.busy_ratio == 0.42 && f.memory_bytes == 1000 && f.memory_total_bytes == 4000);
    gpu_close(&g);
    tree_close(&t);
}

int main(int argc, char **argv)
{
    library = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_device_tells_everything),
        cmocka_unit_test(every_code_of_utilisation_is_unknown_with_a_reason),
        cmocka_unit_test(every_code_of_init_and_count_and_handle_gives_no_figures),
        cmocka_unit_test(every_code_of_the_other_figures_fails_alone),
        cmocka_unit_test(no_driver_is_said),
        cmocka_unit_test(a_driver_without_devices_is_said),
        cmocka_unit_test(devices_that_nobody_uses_do_not_count),
        cmocka_unit_test(amd_is_read_from_sysfs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
