/* Offsets as gcc lays out the headers of each version on 64-bit machines; they have not changed between the releases of a version. A debug
 * build of 3.9 to 3.12 has others: there no code object has the right type, and nothing is known. A build without the interpreter lock says
 * so in its table and is left alone.
 */
#include "host/python/py_layout.h"

#include <string.h>

#define FRAMES_3_9                                                                                                                    \
    .runtime_interpreters = 32, .interpreter_next = 0, .interpreter_threads = 8, .thread_next = 8, .thread_interpreter = 16,          \
    .thread_id = 176, .thread_native_id = LAYOUT_NONE, .thread_frame = 24, .cframe_frame = LAYOUT_NONE, .frame_previous = 24,         \
    .frame_code = 32, .frame_owner = LAYOUT_NONE, .owner_skipped = LAYOUT_NONE, .code_flags = 36, .code_file = 104, .code_name = 112, \
    .object_type = 8, .text_length = 16, .text_state = 32, .text_ascii = 48, .text_compact = 72

static const struct {
    unsigned version;
    struct py_layout layout;
} layouts[] = {
    {0x0309, {FRAMES_3_9}},
    {0x030A, {FRAMES_3_9}},
    {0x030B,
     {.runtime_interpreters = 40,
      .interpreter_next = 0,
      .interpreter_threads = 16,
      .thread_next = 8,
      .thread_interpreter = 16,
      .thread_id = 152,
      .thread_native_id = 160,
      .thread_frame = 56,
      .cframe_frame = 8,
      .frame_previous = 48,
      .frame_code = 32,
      .frame_owner = 69,
      .owner_skipped = LAYOUT_NONE,
      .code_flags = 48,
      .code_file = 112,
      .code_name = 120,
      .object_type = 8,
      .text_length = 16,
      .text_state = 32,
      .text_ascii = 48,
      .text_compact = 72}},
    {0x030C,
     {.runtime_interpreters = 40,
      .interpreter_next = 0,
      .interpreter_threads = 72,
      .thread_next = 8,
      .thread_interpreter = 16,
      .thread_id = 136,
      .thread_native_id = 144,
      .thread_frame = 56,
      .cframe_frame = 0,
      .frame_previous = 8,
      .frame_code = 0,
      .frame_owner = 70,
      .owner_skipped = 3,
      .code_flags = 48,
      .code_file = 112,
      .code_name = 120,
      .object_type = 8,
      .text_length = 16,
      .text_state = 32,
      .text_ascii = 40,
      .text_compact = 56}},
};

bool py_layout_of(unsigned version, struct py_layout *l)
{
    for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++)
        if (layouts[i].version == version) {
            *l = layouts[i].layout;
            return true;
        }
    return false;
}

/* Where the table of a version keeps each offset. 3.14 has more members in between. */
struct told_at {
    unsigned version;
    uint16_t interpreter, thread, frame, code, object, text;
};
static const struct told_at places[] = {{0x030D, 48, 152, 224, 272, 352, 536}, {0x030E, 48, 176, 248, 312, 400, 616}};

/* The largest is an interpreter's list of threads, 7 KB in. */
static bool take(const uint8_t *told, size_t at, uint16_t *offset)
{
    uint64_t value;
    memcpy(&value, told + at, sizeof(value));
    *offset = (uint16_t)value;
    return value < LAYOUT_NONE;
}

static const struct told_at *place_of(unsigned version)
{
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
        if (places[i].version == version)
            return &places[i];
    return NULL;
}

bool py_layout_told(const uint8_t told[LAYOUT_TOLD], unsigned version, struct py_layout *l)
{
    const struct told_at *p = place_of(version);
    uint64_t hex, is_free_threaded;
    memcpy(&hex, told + 8, sizeof(hex));
    memcpy(&is_free_threaded, told + 16, sizeof(is_free_threaded));
    if (!p || memcmp(told, "xdebugpy", 8) != 0 || hex >> 16 != version || is_free_threaded)
        return false;
    *l = (struct py_layout){.cframe_frame = LAYOUT_NONE, .owner_skipped = 3, .code_flags = 48};
    bool good = take(told, 40, &l->runtime_interpreters) && take(told, p->interpreter + 16, &l->interpreter_next) &&
                take(told, p->interpreter + 24, &l->interpreter_threads) && take(told, p->thread + 16, &l->thread_next) &&
                take(told, p->thread + 24, &l->thread_interpreter) && take(told, p->thread + 32, &l->thread_frame) &&
                take(told, p->thread + 40, &l->thread_id) && take(told, p->thread + 48, &l->thread_native_id) &&
                take(told, p->frame + 8, &l->frame_previous) && take(told, p->frame + 16, &l->frame_code) &&
                take(told, p->frame + 40, &l->frame_owner) && take(told, p->code + 8, &l->code_file) &&
                take(told, p->code + 16, &l->code_name) && take(told, p->object + 8, &l->object_type) &&
                take(told, p->text + 8, &l->text_state) && take(told, p->text + 16, &l->text_length) &&
                take(told, p->text + 24, &l->text_ascii);
    l->text_compact = (uint16_t)(l->text_ascii + 16);
    /* What is copied in one piece must fit into a page. */
    return good && l->frame_previous < 512 && l->frame_code < 512 && l->frame_owner < 512 && l->code_file < 1024 && l->code_name < 1024 &&
           l->object_type < 64 && l->text_ascii < 256 && l->text_length < 128 && l->text_state < 128;
}
