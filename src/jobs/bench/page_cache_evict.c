#include "jobs/bench/page_cache_evict.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "io/io.h"

struct tally {
    uint64_t pages, resident;
};

static void count_resident(int fd, struct tally *t)
{
    struct stat st;
    if (fstat(fd, &st) < 0 || st.st_size == 0)
        return;
    size_t bytes = (size_t)st.st_size, pages = (bytes + 4095) / 4096;
    unsigned char *seen = malloc(pages);
    void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0); /* never touched: only asked about */
    if (seen && map != MAP_FAILED && mincore(map, bytes, seen) == 0) {
        t->pages += pages;
        for (size_t i = 0; i < pages; i++)
            t->resident += seen[i] & 1;
    }
    if (map != MAP_FAILED)
        munmap(map, bytes);
    free(seen);
}

static void evict_file(int root_fd, const char *path, bool must_count, struct tally *t)
{
    int fd = openat(root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return;
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (must_count)
        count_resident(fd, t);
    close(fd);
}

int evict_source(const fb_options *o, double *gone_share, struct fb_error *e)
{
    struct dataset d;
    struct dataset_request r = dataset_request_of(o, io_stores);
    r.log = (struct log){0};
    FB_TRY(dataset_open(&d, &r, e));
    struct tally t = {0};
    if (d.io) { /* a store's pages are not ours */
        dataset_close(&d);
        *gone_share = 1;
        return 0;
    }
    sync(); /* dirty pages cannot be dropped */
    uint64_t count = catalog_count(d.catalog), stride = count / 500 + 1;
    int rc = 0;
    for (uint64_t i = 0; i < count && rc == 0; i++) {
        struct catalog_sample s;
        rc = catalog_sample(d.catalog, i, &s, e);
        if (rc == 0)
            evict_file(d.root_fd, s.object, i % stride == 0, &t);
    }
    dataset_close(&d);
    *gone_share = t.pages ? 1 - (double)t.resident / (double)t.pages : 1;
    return rc;
}
