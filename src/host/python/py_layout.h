/* Where CPython 3.9 to 3.14 keeps the frames of a thread. */
#ifndef FB_HOST_PYTHON_PY_LAYOUT_H
#define FB_HOST_PYTHON_PY_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Offsets in bytes; NONE: this version does not have it. */
enum { LAYOUT_NONE = 0xffff };
struct py_layout {
    uint16_t runtime_interpreters; /* _PyRuntime: newest interpreter */
    uint16_t interpreter_next, interpreter_threads;
    uint16_t thread_next, thread_interpreter, thread_id, thread_native_id;
    uint16_t thread_frame; /* the innermost frame, or what leads to it */
    uint16_t cframe_frame; /* 3.11, 3.12: in the C frame that the thread names */
    uint16_t frame_previous, frame_code, frame_owner;
    uint16_t owner_skipped; /* frames of this owner and above are the interpreter's own */
    uint16_t code_flags, code_file, code_name;
    uint16_t object_type;
    uint16_t text_length, text_state, text_ascii, text_compact; /* the last two: size of the head before the characters */
};

/* `version`: 0x030B as in PY_VERSION_HEX >> 16. 3.9 to 3.12. False: not known. */
bool py_layout_of(unsigned version, struct py_layout *l);
/* 3.13 and 3.14 tell their offsets at the start of _PyRuntime: its first LAYOUT_TOLD bytes. False: not believed. */
enum { LAYOUT_TOLD = 760 };
bool py_layout_told(const uint8_t told[LAYOUT_TOLD], unsigned version, struct py_layout *l);

#endif
