/* Lists the members of an archive for test_tar_oracle.py: "kind offset size mtime name-in-hex" lines, then "end" or "error CODE OFFSET". */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/tar/tar_reader.h"

static int read_at(void *ctx, uint64_t offset, void *out, size_t n, struct fb_error *e)
{
    ssize_t got = pread(*(int *)ctx, out, n, (off_t)offset);
    return got == (ssize_t)n ? 0 : error_set(e, FB_E_IO, "read", "short read");
}

int main(int argc, char **argv)
{
    static const char *const kinds[] = {"file", "folder", "link", "device", "sparse", "other"};
    struct fb_error e;
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        return 2;
    struct tar_reader r;
    struct tar_member m;
    error_clear(&e);
    tar_open(&r, &(struct tar_bytes){read_at, &fd, (uint64_t)st.st_size});
    int rc;
    while ((rc = tar_next(&r, &m, &e)) == 1) {
        printf("%s %llu %llu %lld ", kinds[m.kind], (unsigned long long)m.offset, (unsigned long long)m.size, (long long)m.mtime_s);
        for (const char *c = m.name; *c; c++)
            printf("%02x", (unsigned char)*c);
        printf("\n");
    }
    if (rc == 0)
        printf("end\n");
    else
        printf("error %d %lld\n", e.code, (long long)e.offset);
    tar_close(&r);
    close(fd);
    return 0;
}
