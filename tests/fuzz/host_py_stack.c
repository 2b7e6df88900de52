/* Memory of a process that claims to run Python: a look at its main thread's stack ends, reads a bounded number of bytes, and says
 * something of which the rest can make an index. The first byte chooses the version, what follows is the memory. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/python/py_stack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint64_t base = 0x200000;

struct image {
    const uint8_t *bytes;
    size_t size;
    int reads;
};

static bool read_image(void *ctx, uint64_t address, void *out, size_t size)
{
    struct image *m = ctx;
    m->reads++;
    if (address < base || address - base >= m->size)
        return false;
    size_t left = m->size - (size_t)(address - base), n = left < size ? left : size;
    memset(out, 0, size);
    memcpy(out, m->bytes + (address - base), n);
    return true;
}

static bool take_layout(const struct image *m, unsigned version, struct py_layout *l)
{
    return version < 0x030D ? py_layout_of(version, l) : m->size >= LAYOUT_TOLD && py_layout_told(m->bytes, version, l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct image m = {.bytes = data + 1, .size = size - 1};
    struct py_stack *s = calloc(1, sizeof(*s));
    if (!s || !take_layout(&m, 0x0309 + data[0] % 6, &s->layout)) {
        free(s);
        return 0;
    }
    s->runtime = base;
    s->code_type = data[0] & 0x80 ? 0 : base + 0x800;
    s->view.read = read_image;
    s->view.ctx = &m;
    for (int i = 0; i < 2 && py_stack_find_thread(s, 4711); i++) {
        struct stack_meaning seen;
        if (py_stack_look(s, &seen) && ((unsigned)seen.activity >= ACTIVITIES || seen.weight > FRAME_SURE))
            abort();
    }
    if (m.reads > 2 * (2 + 2 * STACK_TRIES) * (MEMORY_PAGES_MOST + 1))
        abort();
    free(s);
    return 0;
}
