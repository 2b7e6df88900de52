/* Transform specifications: any text becomes a pipeline or is refused in words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transform/pipeline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pipeline *p = NULL;
    struct fb_error e = {0};
    char *spec = malloc(size + 1);
    if (!spec)
        return 0;
    memcpy(spec, data, size);
    spec[size] = 0;
    int rc = pipeline_open(&p, spec, size & 1 ? FB_FLOAT32 : FB_UINT8, FB_NCHW, false, &e);
    if ((rc < 0) != (e.code != 0) || (rc < 0 && !e.cause[0]))
        abort();
    if (rc == 0)
        pipeline_close(p);
    free(spec);
    return 0;
}
