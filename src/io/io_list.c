#include "io/io_list.h"

const struct io_ops *const io_list[] = {
#ifdef FB_HAVE_URING
    &io_uring_ops,
#endif
    &io_pread,
    &io_null,
    &io_slow,
    &io_fault,
    NULL,
};
