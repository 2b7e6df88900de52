/* Looks at the stack of a made-up interpreter: right ones, torn ones, hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_interpreter.h"

static const unsigned versions[] = {0x0309, 0x030A, 0x030B, 0x030C, 0x030D, 0x030E};
enum { VERSIONS = sizeof(versions) / sizeof(*versions) };
#define DATALOADER "/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py"
#define LOADER "/venv/lib/python3.11/site-packages/fullbore/loader.py"
#define MODULE "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"

/* main() takes a batch; the data set's own code is innermost. */
static uint64_t loading_stack(struct fake_interpreter *f)
{
    uint64_t at = fake_call(f, "<module>", "/home/me/train.py", 0);
    at = fake_call(f, "main", "/home/me/train.py", at);
    at = fake_call(f, "__next__", DATALOADER, at);
    return fake_call(f, "crop", "/home/me/transforms.py", at);
}

struct looked {
    bool is_found, is_known;
    struct stack_meaning is;
    int reads;
};

static struct looked look(struct fake_interpreter *f)
{
    struct looked l = {0};
    struct py_stack *s = fake_stack(f);
    l.is_found = py_stack_find_thread(s, FAKE_NATIVE_ID);
    f->reads = 0;
    l.is_known = l.is_found && py_stack_look(s, &l.is);
    l.reads = f->reads;
    free(s);
    return l;
}

static void every_version_tells_loading_from_the_step(void **state)
{
    (void)state;
    for (int i = 0; i < VERSIONS; i++) {
        struct fake_interpreter *f = fake_open(versions[i]);
        fake_run(f, loading_stack(f));
        struct looked l = look(f);
        assert_true(l.is_known);
        assert_int_equal(l.is.activity, ACTIVITY_LOADING);
        free(f);
        f = fake_open(versions[i]);
        fake_run(f, fake_call(f, "forward", "/home/me/net.py", fake_call(f, "_call_impl", MODULE, 0)));
        l = look(f);
        assert_true(l.is_known);
        assert_int_equal(l.is.activity, ACTIVITY_STEP);
        free(f);
    }
}

/* Before 3.11 a thread's number is not kept: there the oldest thread is the main one. */
static void the_main_thread_is_found_among_others(void **state)
{
    (void)state;
    for (int i = 0; i < VERSIONS; i++) {
        struct fake_interpreter *f = fake_open(versions[i]);
        fake_run(f, loading_stack(f));
        struct py_stack *s = fake_stack(f);
        assert_true(py_stack_find_thread(s, FAKE_NATIVE_ID));
        assert_int_equal(s->thread, f->thread);
        assert_true(py_stack_find_thread(s, 1)); /* nobody has that number: the oldest */
        assert_int_equal(s->thread, f->thread);
        free(s);
        free(f);
    }
}

static void frames_of_the_interpreter_itself_have_no_function(void **state)
{
    (void)state;
    for (int i = 3; i < VERSIONS; i++) {
        struct fake_interpreter *f = fake_open(versions[i]);
        fake_run(f, fake_frame(f, FAKE_BASE + 8, loading_stack(f), 3));
        assert_true(look(f).is_known);
        free(f);
    }
}

static void marks_in_the_lowest_bits_of_a_reference_are_ignored(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030E);
    uint64_t top = loading_stack(f), code = fake_code(f, "x", "/home/me/x.py", 0);
    fake_run(f, fake_frame(f, code | 1, top, 0));
    assert_true(look(f).is_known);
    free(f);
}

static void a_look_costs_few_reads_and_later_ones_fewer(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030B);
    uint64_t at = loading_stack(f);
    for (int i = 0; i < 40; i++)
        at = fake_call(f, "deeper", "/home/me/train.py", at);
    fake_run(f, at);
    struct py_stack *s = fake_stack(f);
    struct stack_meaning m;
    assert_true(py_stack_find_thread(s, FAKE_NATIVE_ID) && py_stack_look(s, &m));
    f->reads = 0;
    assert_true(py_stack_look(s, &m));
    assert_int_equal(m.activity, ACTIVITY_LOADING);
    assert_in_range(f->reads, 1, 24); /* 44 frames in 3 pages a thousand bytes long each, and the thread twice */
    free(s);
    free(f);
}

static void a_ring_of_frames_ends(void **state)
{
    (void)state;
    for (int i = 0; i < VERSIONS; i++) {
        struct fake_interpreter *f = fake_open(versions[i]);
        uint64_t code = fake_code(f, "a", "/home/me/a.py", 0), first = fake_frame(f, code, 0, 0), second = fake_frame(f, code, first, 0);
        fake_put(f, first + f->layout.frame_previous, second, 8);
        fake_run(f, second);
        assert_in_range(look(f).reads, 1, MEMORY_PAGES_MOST);
        fake_put(f, first + f->layout.frame_previous, first, 8); /* its own caller */
        assert_false(look(f).is_known);
        free(f);
    }
}

static void a_ring_of_threads_ends(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030B);
    fake_run(f, loading_stack(f));
    fake_put(f, f->thread + f->layout.thread_native_id, 1, 8);
    fake_put(f, f->thread + f->layout.thread_next, f->thread, 8);
    struct py_stack *s = fake_stack(f);
    (void)py_stack_find_thread(s, FAKE_NATIVE_ID);
    assert_in_range(f->reads, 1, MEMORY_PAGES_MOST);
    free(s);
    free(f);
}

/* What a hostile or torn memory may hold instead of what belongs there. */
static const uint64_t wild[] = {
    0, 1, 7, 4096, FAKE_BASE - 8, FAKE_BASE + FAKE_SIZE - 4, 1ull << 47, 1ull << 63, UINT64_MAX, UINT64_MAX - 4095};

/* Writes each wild value at `at`; the look may fail, and must not be believed to be loading. */
static void nothing_wild_is_believed(struct fake_interpreter *f, uint64_t at, size_t size)
{
    uint64_t before = 0;
    memcpy(&before, f->bytes + (at - FAKE_BASE), size);
    for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
        fake_put(f, at, wild[i], size);
        struct looked l = look(f);
        assert_false(l.is_known && l.is.activity == ACTIVITY_LOADING);
        assert_in_range(l.reads, 0, MEMORY_PAGES_MOST);
    }
    fake_put(f, at, before, size);
}

static void wild_pointers_and_lengths_are_not_believed(void **state)
{
    (void)state;
    for (int i = 0; i < VERSIONS; i++) {
        struct fake_interpreter *f = fake_open(versions[i]);
        const struct py_layout *l = &f->layout;
        uint64_t name = fake_text(f, "__next__"), code = fake_code(f, "__next__", LOADER, 0), top = fake_frame(f, code, 0, 0);
        fake_put(f, code + l->code_name, name, 8);
        fake_run(f, top);
        assert_true(look(f).is_known);
        nothing_wild_is_believed(f, name + l->text_length, 8);
        nothing_wild_is_believed(f, code + l->code_name, 8);
        nothing_wild_is_believed(f, code + l->code_file, 8);
        nothing_wild_is_believed(f, code + l->object_type, 8);
        nothing_wild_is_believed(f, top + l->frame_code, 8);
        nothing_wild_is_believed(f, f->thread + l->thread_frame, 8);
        assert_true(look(f).is_known); /* all is as before */
        free(f);
    }
}

static void a_table_that_lies_is_not_believed(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030D);
    struct py_layout l;
    for (size_t at = 8; at + 8 <= LAYOUT_TOLD; at += 8) {
        uint8_t told[LAYOUT_TOLD];
        memcpy(told, f->bytes, sizeof(told));
        memset(told + at, 0xff, 8);
        if (py_layout_told(told, 0x030D, &l))
            assert_true(l.frame_previous < 512 && l.frame_code < 512 && l.code_file < 1024 && l.text_ascii < 256);
    }
    f->bytes[16] = 1; /* without the interpreter lock */
    assert_false(py_layout_told(f->bytes, 0x030D, &l));
    f->bytes[16] = 0;
    assert_true(py_layout_told(f->bytes, 0x030D, &l));
    assert_false(py_layout_told(f->bytes, 0x030E, &l));
    assert_false(py_layout_told(f->bytes, 0x030F, &l));
    f->bytes[0] = 'X';
    assert_false(py_layout_told(f->bytes, 0x030D, &l));
    assert_false(py_layout_of(0x0308, &l) || py_layout_of(0, &l));
    free(f);
}

/* ---- a program that runs on ---- */

static uint64_t top_a, top_b, holder;

static void another_function_each_time(struct fake_interpreter *f)
{
    fake_put(f, holder, f->reads % 2 ? top_a : top_b, 8);
}

static struct fake_interpreter *restless(const char *function, const char *file)
{
    struct fake_interpreter *f = fake_open(0x030D);
    uint64_t outer = loading_stack(f);
    top_a = fake_call(f, "inner", "/home/me/x.py", outer);
    top_b = fake_call(f, function, file, function ? outer : 0);
    fake_run(f, top_a);
    holder = f->thread + f->layout.thread_frame;
    f->before_read = another_function_each_time;
    return f;
}

static void a_stack_that_changes_counts_when_two_looks_agree(void **state)
{
    (void)state;
    struct fake_interpreter *f = restless("other", "/home/me/x.py");
    struct looked l = look(f);
    assert_true(l.is_known);
    assert_int_equal(l.is.activity, ACTIVITY_LOADING);
    free(f);
}

static void a_thread_that_is_gone_is_looked_for_again(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030B);
    fake_run(f, loading_stack(f));
    struct py_stack *s = fake_stack(f);
    struct stack_meaning m;
    assert_true(py_stack_find_thread(s, FAKE_NATIVE_ID));
    fake_put(f, f->thread + f->layout.thread_id, 99, 8); /* another thread's memory now */
    assert_false(py_stack_look(s, &m));
    assert_int_equal(s->thread, 0);
    free(s);
    free(f);
}

/* A generator is taken for a loader until a step is seen inside it. */
static void a_generator_that_holds_a_step_is_no_loader(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030C);
    uint64_t generator =
        fake_frame(f, fake_code(f, "epochs", "/home/me/train.py", 0x20), fake_call(f, "<module>", "/home/me/train.py", 0), 1);
    uint64_t step = fake_call(f, "_call_impl", MODULE, generator);
    fake_run(f, generator);
    struct py_stack *s = fake_stack(f);
    struct stack_meaning m;
    uint64_t frame_at;
    assert_true(py_stack_find_thread(s, FAKE_NATIVE_ID) && py_stack_look(s, &m));
    assert_int_equal(m.activity, ACTIVITY_LOADING);
    memcpy(&frame_at, f->bytes + (f->thread + f->layout.thread_frame - FAKE_BASE), 8);
    fake_put(f, frame_at + f->layout.cframe_frame, step, 8);
    assert_true(py_stack_look(s, &m));
    assert_int_equal(m.activity, ACTIVITY_STEP);
    fake_put(f, frame_at + f->layout.cframe_frame, generator, 8);
    assert_true(py_stack_look(s, &m));
    assert_int_equal(m.activity, ACTIVITY_OTHER);
    free(s);
    free(f);
}

static void names_that_are_not_ascii_are_read(void **state)
{
    (void)state;
    struct fake_interpreter *f = fake_open(0x030B);
    const struct py_layout *l = &f->layout;
    uint64_t code = fake_code(f, "collate_fn", "x", 0), path = fake_room(f, 256);
    static const char wide[] = "/home/m?ller/d.py"; /* two bytes each */
    fake_put(f, path + l->text_length, sizeof(wide) - 1, 8);
    fake_put(f, path + l->text_state, 2 << 2 | 1 << 5, 4);
    for (size_t i = 0; i < sizeof(wide) - 1; i++)
        fake_put(f, path + l->text_compact + 2 * i, wide[i] == '?' ? 0x144 : (uint64_t)wide[i], 2);
    fake_put(f, code + l->code_file, path, 8);
    fake_run(f, fake_frame(f, code, 0, 0));
    struct looked seen = look(f);
    assert_true(seen.is_known);
    assert_int_equal(seen.is.activity, ACTIVITY_LOADING);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_version_tells_loading_from_the_step),
        cmocka_unit_test(the_main_thread_is_found_among_others),
        cmocka_unit_test(frames_of_the_interpreter_itself_have_no_function),
        cmocka_unit_test(marks_in_the_lowest_bits_of_a_reference_are_ignored),
        cmocka_unit_test(a_look_costs_few_reads_and_later_ones_fewer),
        cmocka_unit_test(a_ring_of_frames_ends),
        cmocka_unit_test(a_ring_of_threads_ends),
        cmocka_unit_test(wild_pointers_and_lengths_are_not_believed),
        cmocka_unit_test(a_table_that_lies_is_not_believed),
        cmocka_unit_test(a_stack_that_changes_counts_when_two_looks_agree),
        cmocka_unit_test(a_thread_that_is_gone_is_looked_for_again),
        cmocka_unit_test(a_generator_that_holds_a_step_is_no_loader),
        cmocka_unit_test(names_that_are_not_ascii_are_read),
    };
    return cmocka_run_group_tests_name("py_stack", tests, NULL, NULL);
}
