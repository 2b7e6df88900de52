#include "jobs/info/sample_heads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { FILE_HEAD_BYTES = 1 << 20, OBJECT_HEAD_BYTES = 128 << 10 };
static const uint64_t close_ns = 500000000;

int heads_open(struct heads *h, const struct dataset *d, const struct log *log, struct fb_error *e)
{
    *h = (struct heads){.dataset = d, .at_once = d->io ? HEADS_AT_ONCE : 1, .most = d->io ? OBJECT_HEAD_BYTES : FILE_HEAD_BYTES};
    h->memory = malloc(h->at_once * (h->most + IO_TAIL));
    if (!h->memory)
        return error_set(e, FB_E_NOMEM, "read", "no memory to read headers");
    int rc = d->io ? io_open(&h->io, d->io, HEADS_AT_ONCE, log, e) : 0;
    if (rc < 0)
        heads_close(h);
    return rc;
}

void heads_close(struct heads *h)
{
    if (h->io && h->io->ops->close(h->io, close_ns) > 0)
        return; /* a read still owns its memory */
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
    ssize_t got = pread(fd, h->memory, s->length < h->most ? s->length : h->most, (off_t)s->offset);
    h->status[0] = got < 0 ? error_set_errno(e, "read", errno, "read it") : 0;
    h->got[0] = got < 0 ? 0 : (uint64_t)got;
    close(fd);
}

/* ---- objects ---- */

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t came;
    uint32_t left;
    struct io_request request[HEADS_AT_ONCE];
};

static void on_done(struct io_request *r)
{
    struct waiting *w = r->owner;
    pthread_mutex_lock(&w->lock);
    w->left--;
    pthread_cond_signal(&w->came);
    pthread_mutex_unlock(&w->lock);
}

static void read_objects(struct heads *h, const struct catalog_sample *s, uint32_t count)
{
    struct waiting w = {.left = count};
    pthread_mutex_init(&w.lock, NULL);
    pthread_cond_init(&w.came, NULL);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t n = s[i].length < h->most ? s[i].length : h->most;
        w.request[i] = (struct io_request){.dir_fd = -1,
                                           .path = s[i].object,
                                           .offset = s[i].offset,
                                           .length = n,
                                           .expected_size = n,
                                           .buffer = h->memory + i * (h->most + IO_TAIL),
                                           .capacity = h->most + IO_TAIL,
                                           .done = on_done,
                                           .owner = &w,
                                           .expected_mtime_ns = s[i].mtime_ns,
                                           .error = &h->error[i]};
        h->io->ops->submit(h->io, &w.request[i], i + 1 < count);
    }
    pthread_mutex_lock(&w.lock);
    while (w.left > 0)
        pthread_cond_wait(&w.came, &w.lock);
    pthread_mutex_unlock(&w.lock);
    for (uint32_t i = 0; i < count; i++) {
        h->status[i] = w.request[i].status > 0 ? FB_E_IO : w.request[i].status;
        h->got[i] = w.request[i].status == 0 ? w.request[i].got : 0;
    }
    pthread_cond_destroy(&w.came);
    pthread_mutex_destroy(&w.lock);
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
