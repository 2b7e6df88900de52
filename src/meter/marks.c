#include "meter/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"

_Static_assert(sizeof(struct mark) == 32, "records are written as they lie in memory");

static const uint64_t send_every_ns = 100000000;

/* ---- the loop's side ---- */

void marks_open(struct marks *m)
{
    static _Atomic uint32_t loops;
    const char *path = getenv("FULLBORE_MARKS");
    struct stat s;
    m->fd = path && path[0] ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (m->fd >= 0 && (fstat(m->fd, &s) < 0 || !S_ISREG(s.st_mode))) {
        close(m->fd);
        m->fd = -1;
    }
    m->loop = (uint16_t)atomic_fetch_add_explicit(&loops, 1, memory_order_relaxed);
    m->count = 0;
}

static void send(struct marks *m, uint64_t now_ns)
{
    size_t bytes = m->count * sizeof(*m->kept);
    ssize_t done = bytes ? write(m->fd, m->kept, bytes) : 0;
    if (done < 0 && errno != EINTR) { /* a full disk: training goes on, unmarked */
        close(m->fd);
        m->fd = -1;
    }
    m->count = 0;
    m->sent_ns = now_ns;
}

void marks_add(struct marks *m, enum mark_kind kind, uint64_t at_ns, uint64_t wait_ns, uint64_t wait_cpu_ns)
{
    if (m->fd < 0)
        return;
    m->kept[m->count++] = (struct mark){at_ns, wait_ns, wait_cpu_ns, (uint32_t)getpid(), m->loop, (uint16_t)kind};
    if (m->count == MARKS_KEPT || kind != MARK_BATCH || at_ns - m->sent_ns > send_every_ns)
        send(m, at_ns);
}

void marks_close(struct marks *m)
{
    if (m->fd < 0)
        return;
    send(m, 0);
    if (m->fd >= 0)
        close(m->fd);
    m->fd = -1;
}

/* ---- the watcher's side ---- */

bool marks_reader_open(struct marks_reader *r)
{
    const char *folder = getenv("TMPDIR");
    *r = (struct marks_reader){.fd = -1};
    if (snprintf(r->path, sizeof(r->path), "%s/fullbore-marks-XXXXXX", folder && folder[0] ? folder : "/tmp") >= (int)sizeof(r->path))
        return false;
    r->fd = mkostemp(r->path, O_CLOEXEC);
    return r->fd >= 0;
}

static bool is_sound(const struct mark *m)
{
    return m->kind >= MARK_EPOCH && m->kind <= MARK_END && m->wait_cpu_ns <= UINT64_C(1) << 60 && m->wait_ns <= UINT64_C(1) << 60;
}

int marks_take(struct marks_reader *r, struct mark *out, int most)
{
    if (r->fd < 0)
        return 0;
    int whole = (int)(file_read_all_at(r->fd, out, (size_t)most * sizeof(*out), r->at) / sizeof(*out)), kept = 0;
    for (int i = 0; i < whole; i++)
        if (is_sound(&out[i]))
            out[kept++] = out[i];
    r->at += (uint64_t)whole * sizeof(*out);
    if (whole && r->at >= 1 << 20) /* not supported everywhere; then the file grows, 32 bytes per batch */
        (void)!fallocate(r->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)(r->at & ~UINT64_C(4095)));
    return kept;
}

void marks_reader_close(struct marks_reader *r)
{
    if (r->fd < 0)
        return;
    unlink(r->path);
    close(r->fd);
    r->fd = -1;
}
