/* Saved states: any text is read or refused in words; what is read can be written, and reads the same again. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "order/state/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct state s;
    struct fb_error e = {0};
    uint64_t version = 0;
    uint32_t faults = 0;
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    int rc = state_read(&s, text, &version, &faults, &e);
    if ((rc < 0) != (e.code != 0) || (rc < 0 && !e.cause[0]))
        abort();
    free(text);
    return 0;
}
