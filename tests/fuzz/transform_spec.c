/* Transform specifications: any text becomes a list of steps for images, sound or arrays, or is refused in words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transform/array_steps.h"
#include "transform/pipeline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int rc, const struct fb_error *e)
{
    if ((rc < 0) != (e->code != 0) || (rc < 0 && !e->cause[0]))
        abort();
}

static void open_images(const char *spec, enum fb_dtype dtype)
{
    struct pipeline *p = NULL;
    struct fb_error e = {0};
    check(pipeline_open(&p, spec, dtype, FB_NCHW, false, &e), &e);
    pipeline_close(p);
}

static void open_arrays(const char *spec, unsigned takes)
{
    struct array_steps s;
    struct fb_error e = {0};
    struct planes planes = {1, takes == TAKES_ARRAYS ? 8 : 0, 4000, takes == TAKES_SOUND, 8000};
    int rc = array_steps_open(&s, spec, takes, &e);
    if (rc == 0)
        rc = array_steps_shape(&s, &planes, &e);
    check(rc, &e);
    array_steps_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *spec = malloc(size + 1);
    if (!spec)
        return 0;
    memcpy(spec, data, size);
    spec[size] = 0;
    open_images(spec, size & 1 ? FB_FLOAT32 : FB_UINT8);
    open_arrays(spec, TAKES_SOUND);
    open_arrays(spec, TAKES_ARRAYS);
    free(spec);
    return 0;
}
