/* Program files: any bytes are searched for symbols, or refused. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/python/elf_symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct elf_symbol wanted[] = {{"_PyRuntime", 0}, {"Py_Version", 0}};
    bool is_fixed = false;
    int fd = memfd_create("elf", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size && !elf_find_symbols(fd, wanted, 2, &is_fixed) && is_fixed && size < 64)
        abort();
    close(fd);
    return 0;
}
