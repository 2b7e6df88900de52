#include "io/io_list.h"

const struct io_ops *const io_list[] = {
    &io_uring_ops, &io_pread, &io_null, &io_slow, &io_fault, &io_merge, &io_s3, NULL,
};
