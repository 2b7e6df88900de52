/* What the null back-end hands out, for those who check it. */
#ifndef FB_IO_WRAP_IO_NULL_H
#define FB_IO_WRAP_IO_NULL_H

#include <stdint.h>

uint8_t io_null_byte(uint64_t i);

#endif
