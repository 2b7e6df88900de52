/* Recordings of watched runs whose checksums fit, with any content: reports on them keep every promise of report_check.h. */
#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "base/checksum.h"
#include "report_check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD = 8, BLOCK = 16 };

/* Lengths stay as they are; checksums are made right, or no mutation would ever be read. */
static void mend(uint8_t *bytes, size_t size)
{
    for (size_t at = HEAD; size > at && size - at > BLOCK;) {
        uint32_t n;
        memcpy(&n, bytes + at + 4, sizeof(n));
        if (n > size - at - BLOCK)
            return;
        uint64_t sum = checksum_of(bytes + at + BLOCK, n);
        memcpy(bytes + at + 8, &sum, sizeof(sum));
        at += BLOCK + n;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64], page[80];
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    mend(bytes, size);
    snprintf(path, sizeof(path), "/tmp/fb-fuzz-recording-%d", (int)getpid());
    snprintf(page, sizeof(page), "%s.html", path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    close(fd);
    free(bytes);
    check_report(path, page, true);
    unlink(path);
    unlink(page);
    return 0;
}
