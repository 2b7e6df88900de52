/* An audit log whose checks fit, with any content: reading it, and proving what it says, never leaves its bounds. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/audit.h"
#include "model/audit_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The frames' lengths stay as they are; the checks are made right, or no mutation would ever be read. */
static void mend(uint8_t *bytes, size_t size)
{
    uint64_t digest = 0;
    for (size_t at = 0; size - at >= AUDIT_FRAME_BYTES + AUDIT_CHECK_BYTES;) {
        uint64_t whole = AUDIT_FRAME_BYTES + audit_get_le(bytes + at + 1, 4);
        audit_put_le(bytes + at + AUDIT_FRAME_BYTES - AUDIT_CHECK_BYTES, audit_frame_check(digest, bytes + at), AUDIT_CHECK_BYTES);
        if (whole + AUDIT_CHECK_BYTES > size - at)
            break;
        digest = audit_digest(digest, bytes + at, whole);
        audit_put_le(bytes + at + whole, digest, AUDIT_CHECK_BYTES);
        at += whole + AUDIT_CHECK_BYTES;
    }
}

static void write_log(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    close(fd);
}

/* Epochs that would take gigabytes to lay out are refused by real machines, and would only slow this one down. */
static bool is_small(const struct audit_set *s)
{
    for (uint64_t i = 0; i < s->streams; i++)
        if (s->stream[i].samples > 100000)
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct audit_set set;
    char dir[64], path[96];
    uint8_t *bytes = malloc(size + 1);
    if (!bytes)
        return 0;
    memcpy(bytes, data, size);
    mend(bytes, size);
    snprintf(dir, sizeof(dir), "/tmp/fb-fuzz-audit-%d", (int)getpid());
    snprintf(path, sizeof(path), "%s/x.audit", dir);
    mkdir(dir, 0700);
    write_log(path, bytes, size);
    free(bytes);
    struct fb_error e = {0};
    if (audit_join(&set, dir, &e) == 0) {
        if (is_small(&set))
            audit_prove(&set, NULL, NULL, &e);
        audit_free(&set);
    }
    unlink(path);
    rmdir(dir);
    return 0;
}
