#include "jobs/info/sample_heads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file/file.h"

enum { FILE_HEAD_BYTES = 1 << 20, OBJECT_HEAD_BYTES = 128 << 10 };
static const uint64_t close_ns = 500000000;

int heads_open(struct heads *h, const struct dataset *d, const struct log *log, struct fb_error *e)
{
    *h = (struct heads){.dataset = d, .at_once = d->io ? HEADS_AT_ONCE : 1, .most = d->io ? OBJECT_HEAD_BYTES : FILE_HEAD_BYTES};
    if (d->io) {
        FB_TRY(io_open(&h->io, d->io, HEADS_AT_ONCE, log, e));
        h->wait = io_wait_new(h->io, HEADS_AT_ONCE, h->most);
    } else {
        h->memory = malloc(h->most + IO_TAIL);
    }
    if (h->wait || h->memory)
        return 0;
    heads_close(h);
    return error_set(e, FB_E_NOMEM, "read", "no memory to read headers");
}

void heads_close(struct heads *h)
{
    if (h->io)
        h->io->ops->close(h->io, close_ns);
    io_wait_end(h->wait);
    free(h->memory);
}

static void read_file(struct heads *h, const struct catalog_sample *s)
{
    struct fb_error *e = &h->error[0];
    int fd = openat(h->dataset->root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        h->status[0] = error_set_errno(e, "read", errno, "open it");
        return;
    }
    size_t n = s->length < h->most ? (size_t)s->length : h->most, got = file_read_all_at(fd, h->memory, n, s->offset);
    h->status[0] = got < n && errno ? error_set_errno(e, "read", errno, "read it") : 0;
    h->got[0] = h->status[0] < 0 ? 0 : got;
    close(fd);
}

/* ---- objects ---- */

static void read_objects(struct heads *h, const struct catalog_sample *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t n = s[i].length < h->most ? s[i].length : h->most;
        io_wait_submit(h->wait, i,
                       &(struct io_request){.dir_fd = -1,
                                            .path = s[i].object,
                                            .offset = s[i].offset,
                                            .length = n,
                                            .expected_size = n,
                                            .expected_mtime_ns = s[i].mtime_ns},
                       i + 1 < count);
    }
    io_wait_all(h->wait, NULL);
    for (uint32_t i = 0; i < count; i++) {
        int status = io_wait_status(h->wait, i, &h->error[i]);
        h->status[i] = status > 0 ? FB_E_IO : status;
        h->got[i] = status == 0 ? io_wait_result(h->wait, i)->got : 0;
    }
}

void heads_read(struct heads *h, const struct catalog_sample *s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        error_clear(&h->error[i]);
        h->got[i] = 0;
    }
    if (h->io)
        read_objects(h, s, count);
    else
        read_file(h, s);
}
