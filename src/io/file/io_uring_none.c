/* "uring" in a build without liburing: says so. */
#include "io/io_list.h"

static int none_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    (void)out, (void)depth, (void)log;
    FB_TRY(io_no_options("uring", spec, e));
    return error_set(e, FB_E_UNSUPPORTED, "read", "this build has no io_uring");
}

const struct io_ops io_uring_ops = {.name = "uring", .open = none_open};
