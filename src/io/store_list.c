#include "io/io_list.h"

const struct store_ops *const io_stores[] = {
    &store_s3,
    NULL,
};
