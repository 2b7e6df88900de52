#include "host/python/py_stack.h"

#include <string.h>

enum { NAME_MOST = 128, FILE_MOST = 1024, INTERPRETERS_MOST = 64, GENERATOR = 0x20 };

/* ---- which thread ---- */

static bool read_check(struct py_stack *s, uint64_t thread, uint64_t check[2])
{
    return memory_pointer(&s->view, thread + s->layout.thread_interpreter, &check[0]) &&
           memory_pointer(&s->view, thread + s->layout.thread_id, &check[1]) && check[0];
}

/* New interpreters and new threads come in front of older ones. */
static bool oldest_interpreter(struct py_stack *s, uint64_t *out)
{
    uint64_t at = 0, next;
    if (!memory_pointer(&s->view, s->runtime + s->layout.runtime_interpreters, &next))
        return false;
    for (int i = 0; next && i < INTERPRETERS_MOST; i++) {
        at = next;
        if (!memory_pointer(&s->view, at + s->layout.interpreter_next, &next))
            return false;
    }
    *out = at;
    return at && !next;
}

bool py_stack_find_thread(struct py_stack *s, uint64_t native_id)
{
    uint64_t interpreter, next, number, found = 0;
    memory_refresh(&s->view);
    s->thread = 0;
    if (!oldest_interpreter(s, &interpreter) || !memory_pointer(&s->view, interpreter + s->layout.interpreter_threads, &next))
        return false;
    for (int i = 0; next && i < STACK_THREADS_MOST; i++) {
        found = next;
        if (s->layout.thread_native_id != LAYOUT_NONE && memory_pointer(&s->view, found + s->layout.thread_native_id, &number) &&
            number == native_id)
            break;
        if (!memory_pointer(&s->view, found + s->layout.thread_next, &next))
            return false;
    }
    if (!found || !read_check(s, found, s->thread_check))
        return false;
    s->thread = found;
    return true;
}

/* ---- code objects ---- */

/* The characters of a str object, one byte each; what is not ASCII becomes '?'. */
static bool read_text(struct py_stack *s, uint64_t at, char *out, size_t out_size)
{
    const struct py_layout *l = &s->layout;
    uint64_t length;
    uint32_t state;
    if (!memory_pointer(&s->view, at + l->text_length, &length) || !memory_copy(&s->view, at + l->text_state, &state, sizeof(state)))
        return false;
    unsigned kind = state >> 2 & 7, is_compact = state >> 5 & 1, is_ascii = state >> 6 & 1;
    if (!is_compact || length == 0 || length >= out_size || (kind != 1 && kind != 2 && kind != 4))
        return false;
    uint8_t text[4 * FILE_MOST];
    if (!memory_copy(&s->view, at + (is_ascii ? l->text_ascii : l->text_compact), text, length * kind))
        return false;
    for (uint64_t i = 0; i < length; i++) {
        uint32_t c = 0;
        memcpy(&c, text + i * kind, kind);
        out[i] = c >= ' ' && c < 127 ? (char)c : '?';
    }
    out[length] = 0;
    return true;
}

static bool is_code(struct py_stack *s, uint64_t code)
{
    uint64_t type;
    return memory_pointer(&s->view, code + s->layout.object_type, &type) && (!s->code_type || type == s->code_type);
}

static bool read_code(struct py_stack *s, uint64_t code, struct frame_meaning *m)
{
    char function[NAME_MOST], file[FILE_MOST];
    uint64_t name, path;
    uint32_t flags;
    if (!is_code(s, code) || !memory_pointer(&s->view, code + s->layout.code_name, &name) ||
        !memory_pointer(&s->view, code + s->layout.code_file, &path) ||
        !memory_copy(&s->view, code + s->layout.code_flags, &flags, sizeof(flags)) || !read_text(s, name, function, sizeof(function)) ||
        !read_text(s, path, file, sizeof(file)))
        return false;
    *m = frame_meaning_of(function, file, flags & GENERATOR);
    return true;
}

static struct code_known *known_code(struct py_stack *s, uint64_t code)
{
    struct code_known *k = &s->code[(code >> 4) * 0x9e3779b97f4a7c15u >> 54]; /* the upper ten bits: CODE_CACHE places */
    if (k->address == code && s->looks < k->until)
        return k;
    struct frame_meaning m;
    if (!read_code(s, code, &m))
        return NULL;
    bool holds_step = k->address == code && k->holds_step;
    *k = (struct code_known){.address = code, .until = s->looks + CODE_LOOKS, .meaning = m, .holds_step = holds_step};
    return k;
}

/* ---- frames ---- */

static bool innermost(struct py_stack *s, uint64_t *frame)
{
    const struct py_layout *l = &s->layout;
    uint64_t at;
    if (!memory_pointer(&s->view, s->thread + l->thread_frame, &at))
        return false;
    if (l->cframe_frame != LAYOUT_NONE && (!at || !memory_pointer(&s->view, at + l->cframe_frame, &at)))
        return false;
    *frame = at;
    return true;
}

struct frame {
    uint64_t previous, code;
    bool is_skipped; /* the interpreter's own: has no function */
};

static bool read_frame(struct py_stack *s, uint64_t at, struct frame *f)
{
    const struct py_layout *l = &s->layout;
    uint8_t owner = 0;
    if (at % 8 || !memory_pointer(&s->view, at + l->frame_previous, &f->previous) ||
        !memory_pointer(&s->view, at + l->frame_code, &f->code))
        return false;
    if (l->frame_owner != LAYOUT_NONE && !memory_copy(&s->view, at + l->frame_owner, &owner, 1))
        return false;
    f->is_skipped = owner >= l->owner_skipped;
    f->code &= ~(uint64_t)7; /* 3.14 keeps marks in the lowest bits */
    return owner < 8 && f->previous != at;
}

/* A frame of the program that holds a step is no loader, whatever it is called; that is remembered. */
static void add_frame(struct stack_meaning *m, struct code_known *k)
{
    struct frame_meaning f = k->meaning;
    bool is_guess = f.is_own && f.weight == FRAME_HINT && f.activity == ACTIVITY_LOADING;
    k->holds_step |= is_guess && m->weight == FRAME_STEP;
    if (is_guess && k->holds_step)
        f.weight = FRAME_NOTHING;
    stack_add_frame(m, f);
}

static bool walk(struct py_stack *s, uint64_t at, struct stack_meaning *out)
{
    struct frame f;
    int functions = 0;
    *out = (struct stack_meaning){0};
    for (int i = 0; at && i < STACK_DEPTH; i++, at = f.previous) {
        if (!read_frame(s, at, &f))
            return false;
        if (f.is_skipped)
            continue;
        struct code_known *k = known_code(s, f.code);
        if (!k)
            return false;
        add_frame(out, k);
        functions++;
    }
    out->is_empty = functions == 0;
    return true;
}

static bool is_same(const struct stack_meaning *a, const struct stack_meaning *b)
{
    return a->weight == b->weight && a->activity == b->activity && a->is_validation == b->is_validation && a->is_empty == b->is_empty;
}

bool py_stack_look(struct py_stack *s, struct stack_meaning *out)
{
    struct stack_meaning before = {0};
    bool has_before = false;
    s->looks++;
    for (int i = 0; i < STACK_TRIES; i++) {
        uint64_t check[2], top, again;
        memory_refresh(&s->view);
        if (!read_check(s, s->thread, check) || memcmp(check, s->thread_check, sizeof(check)) != 0) {
            s->thread = 0;
            return false;
        }
        if (!innermost(s, &top) || !walk(s, top, out))
            continue;
        if (has_before && is_same(&before, out))
            return true;
        before = *out;
        has_before = true;
        memory_refresh(&s->view);
        if (innermost(s, &again) && again == top)
            return true;
    }
    return false;
}
