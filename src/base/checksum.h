/* Checksums: xxh3, whole or in pieces. */
#ifndef FB_BASE_CHECKSUM_H
#define FB_BASE_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

uint64_t checksum_of(const void *bytes, size_t n);

/* In pieces: open, add, end. The state is allocated; NULL when there is no memory. */
struct checksum;
struct checksum *checksum_open(void);
void checksum_add(struct checksum *c, const void *bytes, size_t n);
uint64_t checksum_value(const struct checksum *c);
void checksum_close(struct checksum *c);

#endif
