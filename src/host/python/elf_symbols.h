/* Where symbols of an ELF file lie: 64-bit, of this machine's byte order. The file is read, not mapped, and not trusted. */
#ifndef FB_HOST_PYTHON_ELF_SYMBOLS_H
#define FB_HOST_PYTHON_ELF_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

struct elf_symbol {
    const char *name;
    uint64_t value; /* filled; 0: not there */
};

/* Looks for `count` symbols in an open file. *is_fixed: the file is not relocated, values are addresses as they are; else they are
 * offsets from where its first byte is mapped. False: it is no such file, or damaged. */
bool elf_find_symbols(int fd, struct elf_symbol *wanted, int count, bool *is_fixed);

#endif
