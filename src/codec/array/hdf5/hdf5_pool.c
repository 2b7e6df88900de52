#include "codec/array/hdf5/hdf5_pool.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "base/thread.h"
#include "codec/array/hdf5/hdf5_run.h"

enum {
    MAX_HELPERS = 4,
    MAX_USES = 10000, /* then a fresh one: whatever libhdf5 leaks goes */
    DEATH_MS = 500
};

enum state { FREE, IDLE, BUSY };
struct helper {
    enum state state;
    pid_t pid;
    int fd, uses;
    int handle; /* a pidfd, so that a signal can never meet a stranger; -1 where the kernel has none */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t came_free;
    struct helper helper[MAX_HELPERS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .came_free = PTHREAD_COND_INITIALIZER};

/* ---- fork: the child forgets its parent's helpers ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&pool.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&pool.lock);
}

static void after_fork_in_child(void)
{
    for (int i = 0; i < MAX_HELPERS; i++)
        if (pool.helper[i].state != FREE && pool.helper[i].fd >= 0) {
            close(pool.helper[i].fd);
            if (pool.helper[i].handle >= 0)
                close(pool.helper[i].handle);
        }
    memset(pool.helper, 0, sizeof(pool.helper));
    pthread_mutex_init(&pool.lock, NULL);
    pthread_cond_init(&pool.came_free, NULL);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- one helper ---- */

static int no_helper(struct fb_error *e)
{
    return error_advise(
        e, error_set(e, FB_E_UNSUPPORTED, "decode", "HDF5 files need the program fullbore-hdf5, which was not found"),
        "it is installed with the package (libexec/fullbore, or beside the Python module); FULLBORE_HDF5_HELPER may name it");
}

static int start(struct helper *h, struct fb_error *e)
{
    char path[HDF5_MAX_PATH];
    int ends[2];
    if (!hdf5_find_helper(path, sizeof(path)))
        return no_helper(e);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return error_set_errno(e, "decode", errno, "make a socket for the HDF5 helper");
    int rc = hdf5_spawn(path, NULL, 1, &ends[1], (const int[]){0}, &h->pid);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return error_set_errno(e, "decode", rc, "start the HDF5 helper");
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    h->fd = ends[0];
    h->uses = 0;
    h->handle = (int)syscall(SYS_pidfd_open, h->pid, 0);
    return 0;
}

/* Ends it whatever it does. The host may have reaped it already: then there is nothing to wait for. One that does not die even so hangs
 * in the kernel, on storage that does not answer: it is abandoned, and no other thread hangs with it. */
static void stop(struct helper *h)
{
    if (h->handle >= 0)
        syscall(SYS_pidfd_send_signal, h->handle, SIGKILL, NULL, 0);
    else
        kill(h->pid, SIGKILL);
    int status;
    hdf5_reap(h->pid, h->handle, DEATH_MS, &status);
    if (h->handle >= 0)
        close(h->handle);
    close(h->fd);
    h->fd = -1;
}

/* ---- the pool ---- */

static struct helper *find(enum state state)
{
    for (int i = 0; i < MAX_HELPERS; i++)
        if (pool.helper[i].state == state)
            return &pool.helper[i];
    return NULL;
}

/* An idle one, or a free place for one (fd -1); it is the caller's until given back. */
static struct helper *take(uint64_t deadline_ns)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct helper *h;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&pool.lock);
    while (!(h = find(IDLE)) && !(h = find(FREE))) {
        struct timespec t;
        clock_gettime(CLOCK_REALTIME, &t);
        t.tv_sec += 1;
        pthread_cond_timedwait(&pool.came_free, &pool.lock, &t);
        if (clock_now_ns() >= deadline_ns)
            break;
    }
    if (h && h->state == FREE)
        h->fd = -1;
    if (h)
        h->state = BUSY;
    pthread_mutex_unlock(&pool.lock);
    return h;
}

static void give_back(struct helper *h)
{
    pthread_mutex_lock(&pool.lock);
    h->state = h->fd >= 0 ? IDLE : FREE;
    pthread_cond_signal(&pool.came_free);
    pthread_mutex_unlock(&pool.lock);
}

/* ---- asking ---- */

/* A request is small: a helper that lives has room for it in its socket. False: it does not live. */
static bool send_question(const struct helper *h, const struct hdf5_question *q, uint32_t seconds)
{
    size_t name_bytes = q->name ? strlen(q->name) : 0, path_bytes = strlen(q->path);
    struct hdf5_request r = {.magic = HDF5_MAGIC,
                             .op = q->op,
                             .allows_external = q->allows_external,
                             .timeout_s = seconds,
                             .path_bytes = (uint32_t)path_bytes,
                             .name_bytes = (uint32_t)name_bytes,
                             .first = q->first,
                             .rows = q->rows,
                             .bytes = q->bytes};
    struct iovec parts[] = {{&r, sizeof(r)}, {(void *)(uintptr_t)q->path, path_bytes}, {(void *)(uintptr_t)q->name, name_bytes}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 3};
    return sendmsg(h->fd, &m, MSG_NOSIGNAL) == (ssize_t)(sizeof(r) + path_bytes + name_bytes);
}

static int ask_once(struct helper *h, const struct hdf5_question *q, uint64_t deadline_ns, uint8_t **record, size_t *n, void *rows,
                    bool *is_broken, struct fb_error *e)
{
    *is_broken = true;
    if (!send_question(h, q, hdf5_timeout_s()))
        return error_set(e, FB_E_DATA, "decode", "reading its structure crashed the HDF5 helper, so the file is treated as damaged");
    h->uses++;
    return hdf5_take_answer(h->fd, deadline_ns, q, record, n, rows, is_broken, e);
}

/* A helper that has served before may have died since, or of what it read before: the file gets a second chance with a fresh one. */
static int ask(struct helper *h, const struct hdf5_question *q, uint64_t deadline_ns, uint8_t **record, size_t *n, void *rows,
               struct fb_error *e)
{
    for (;;) {
        bool is_broken, is_fresh = h->fd < 0;
        struct fb_error mine = {0};
        if (is_fresh)
            FB_TRY(start(h, e));
        int rc = ask_once(h, q, deadline_ns, record, n, rows, &is_broken, &mine);
        if (is_broken || h->uses >= MAX_USES)
            stop(h);
        if (is_broken && !is_fresh && clock_now_ns() < deadline_ns)
            continue;
        if (rc < 0 && e && !e->code)
            *e = mine;
        return rc;
    }
}

static int no_turn(struct fb_error *e)
{
    return error_advise(e, error_set(e, FB_E_TIMEOUT, "decode", "all %d HDF5 helpers were busy for %u s", MAX_HELPERS, hdf5_timeout_s()),
                        "if the storage is slow, set FULLBORE_HDF5_TIMEOUT to more seconds");
}

int hdf5_ask(const struct hdf5_question *q, uint8_t **record, size_t *n, void *rows, struct fb_error *e)
{
    uint64_t deadline_ns = clock_now_ns() + hdf5_timeout_s() * UINT64_C(1000000000);
    if (strlen(q->path) > HDF5_MAX_PATH || (q->name && strlen(q->name) > HDF5_MAX_NAME))
        return error_set(e, FB_E_USAGE, "decode", "the path is longer than %d bytes", HDF5_MAX_PATH);
    struct helper *h = take(deadline_ns);
    if (!h)
        return no_turn(e);
    int rc = ask(h, q, deadline_ns, record, n, rows, e);
    give_back(h);
    return rc;
}
