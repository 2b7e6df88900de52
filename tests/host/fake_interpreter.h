/* A made-up CPython in a block of memory: enough of one for a look at its main thread's stack, in the layout of any version. */
#ifndef FB_TESTS_FAKE_INTERPRETER_H
#define FB_TESTS_FAKE_INTERPRETER_H

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/python/py_stack.h"

enum { FAKE_BASE = 0x200000, FAKE_SIZE = 1 << 17, FAKE_NATIVE_ID = 4711 };
static const uint64_t fake_code_type = FAKE_BASE + 0x800;

struct fake_interpreter {
    uint8_t bytes[FAKE_SIZE];
    uint64_t used, thread;
    struct py_layout layout;
    int reads;
    void (*before_read)(struct fake_interpreter *f); /* the program runs on between two reads */
};

static inline void fake_put(struct fake_interpreter *f, uint64_t at, uint64_t value, size_t size)
{
    assert(at >= FAKE_BASE && at + size <= FAKE_BASE + FAKE_SIZE);
    memcpy(f->bytes + (at - FAKE_BASE), &value, size);
}

static inline uint64_t fake_room(struct fake_interpreter *f, uint64_t size)
{
    uint64_t at = FAKE_BASE + f->used;
    f->used = (f->used + size + 15) / 16 * 16;
    assert(f->used <= FAKE_SIZE);
    return at;
}

static inline uint64_t fake_text(struct fake_interpreter *f, const char *text)
{
    uint64_t length = strlen(text), at = fake_room(f, f->layout.text_ascii + length + 1);
    fake_put(f, at + f->layout.text_length, length, 8);
    fake_put(f, at + f->layout.text_state, 1 << 2 | 1 << 5 | 1 << 6, 4); /* one byte each, compact, ASCII */
    memcpy(f->bytes + (at + f->layout.text_ascii - FAKE_BASE), text, length);
    return at;
}

static inline uint64_t fake_code(struct fake_interpreter *f, const char *function, const char *file, uint32_t flags)
{
    uint64_t name = fake_text(f, function), path = fake_text(f, file), at = fake_room(f, 256);
    fake_put(f, at + f->layout.object_type, fake_code_type, 8);
    fake_put(f, at + f->layout.code_name, name, 8);
    fake_put(f, at + f->layout.code_file, path, 8);
    fake_put(f, at + f->layout.code_flags, flags, 4);
    return at;
}

static inline uint64_t fake_frame(struct fake_interpreter *f, uint64_t code, uint64_t previous, uint8_t owner)
{
    uint64_t at = fake_room(f, 128);
    fake_put(f, at + f->layout.frame_previous, previous, 8);
    fake_put(f, at + f->layout.frame_code, code, 8);
    if (f->layout.frame_owner != LAYOUT_NONE)
        fake_put(f, at + f->layout.frame_owner, owner, 1);
    return at;
}

/* A function of a file, called by what `previous` is the frame of. */
static inline uint64_t fake_call(struct fake_interpreter *f, const char *function, const char *file, uint64_t previous)
{
    return fake_frame(f, fake_code(f, function, file, 0), previous, 0);
}

/* The table that 3.13 and 3.14 begin with: some offsets, each its own. */
static inline void fake_tell(struct fake_interpreter *f, unsigned version)
{
    bool is_newer = version > 0x030D;
    uint64_t thread = is_newer ? 176 : 152, frame = is_newer ? 248 : 224, code = is_newer ? 312 : 272, object = is_newer ? 400 : 352,
             text = is_newer ? 616 : 536;
    const struct {
        uint64_t at, value;
    } told[] = {{8, (uint64_t)version << 16 | 0xf0},
                {40, 2000},
                {48 + 16, 72},
                {48 + 24, 144},
                {thread + 16, 8},
                {thread + 24, 16},
                {thread + 32, 72},
                {thread + 40, 152},
                {thread + 48, 160},
                {frame + 8, 8},
                {frame + 16, 0},
                {frame + 40, 74},
                {code + 8, 112},
                {code + 16, 120},
                {object + 8, 8},
                {text + 8, 32},
                {text + 16, 16},
                {text + 24, 40}};
    memcpy(f->bytes, "xdebugpy", 8);
    for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
        fake_put(f, FAKE_BASE + told[i].at, told[i].value, 8);
}

static inline bool fake_read(void *ctx, uint64_t address, void *out, size_t size)
{
    struct fake_interpreter *f = ctx;
    f->reads++;
    if (f->before_read)
        f->before_read(f);
    if (address < FAKE_BASE || address + size > FAKE_BASE + FAKE_SIZE)
        return false;
    memcpy(out, f->bytes + (address - FAKE_BASE), size);
    return true;
}

static inline bool fake_layout(const uint8_t *runtime, unsigned version, struct py_layout *l)
{
    return version < 0x030D ? py_layout_of(version, l) : py_layout_told(runtime, version, l);
}

static inline struct fake_interpreter *fake_open(unsigned version)
{
    struct fake_interpreter *f = calloc(1, sizeof(*f));
    assert(f);
    f->used = 4096;
    if (version >= 0x030D)
        fake_tell(f, version);
    bool is_known = fake_layout(f->bytes, version, &f->layout);
    assert(is_known);
    (void)is_known;
    return f;
}

static inline uint64_t fake_thread(struct fake_interpreter *f, uint64_t interpreter, uint64_t next, uint64_t native_id, uint64_t top)
{
    uint64_t at = fake_room(f, 512), holder = top;
    if (f->layout.cframe_frame != LAYOUT_NONE) {
        holder = fake_room(f, 64);
        fake_put(f, holder + f->layout.cframe_frame, top, 8);
    }
    fake_put(f, at + f->layout.thread_next, next, 8);
    fake_put(f, at + f->layout.thread_interpreter, interpreter, 8);
    fake_put(f, at + f->layout.thread_id, 0x7f0000000000 + native_id, 8);
    if (f->layout.thread_native_id != LAYOUT_NONE)
        fake_put(f, at + f->layout.thread_native_id, native_id, 8);
    fake_put(f, at + f->layout.thread_frame, holder, 8);
    return at;
}

/* One interpreter with a main thread whose innermost frame is `top`, and a younger thread that has none. */
static inline void fake_run(struct fake_interpreter *f, uint64_t top)
{
    uint64_t interpreter = fake_room(f, 512);
    f->thread = fake_thread(f, interpreter, 0, FAKE_NATIVE_ID, top);
    uint64_t young = fake_thread(f, interpreter, f->thread, FAKE_NATIVE_ID + 1, 0);
    fake_put(f, FAKE_BASE + f->layout.runtime_interpreters, interpreter, 8);
    fake_put(f, interpreter + f->layout.interpreter_threads, young, 8);
}

static inline struct py_stack *fake_stack(struct fake_interpreter *f)
{
    struct py_stack *s = calloc(1, sizeof(*s));
    assert(s);
    s->layout = f->layout;
    s->runtime = FAKE_BASE;
    s->code_type = fake_code_type;
    s->view.read = fake_read;
    s->view.ctx = f;
    return s;
}

#endif
