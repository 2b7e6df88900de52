#include "io/s3/loop/s3_sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

enum { EVENTS = 64, MOST_WAIT_MS = 1000 };

/* ---- from libcurl ---- */

static struct s3_socket *socket_at(struct s3_sockets *s, int fd)
{
    if (fd >= s->count) {
        int count = fd + 64;
        struct s3_socket *more = realloc(s->socket, (size_t)count * sizeof(*more));
        if (!more)
            return NULL;
        memset(more + s->count, 0, (size_t)(count - s->count) * sizeof(*more));
        s->socket = more;
        s->count = count;
    }
    return &s->socket[fd];
}

static void arm(struct s3_sockets *s, int fd, struct s3_socket *k)
{
    struct epoll_event event = {.events = k->wanted, .data.fd = fd};
    if (k->wanted == k->armed)
        return;
    int rc = epoll_ctl(s->epoll_fd, k->armed ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    if (rc < 0 && errno == EEXIST)
        rc = epoll_ctl(s->epoll_fd, EPOLL_CTL_MOD, fd, &event);
    if (rc < 0 && errno == ENOENT)
        rc = epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, fd, &event);
    k->armed = rc < 0 ? 0 : k->wanted; /* what cannot be watched is looked after by libcurl's timers */
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *unused)
{
    (void)easy, (void)unused;
    struct s3_sockets *s = ctx;
    struct s3_socket *k = socket_at(s, fd);
    if (!k)
        return -1;
    what = what == CURL_POLL_REMOVE ? 0 : what;
    k->wanted = (what & CURL_POLL_IN ? EPOLLIN : 0u) | (what & CURL_POLL_OUT ? EPOLLOUT : 0u);
    if (k->wanted)
        arm(s, fd, k);
    return 0;
}

static int on_timer(CURLM *multi, long timeout_ms, void *ctx)
{
    (void)multi;
    struct s3_sockets *s = ctx;
    s->due_ns = timeout_ms < 0 ? UINT64_MAX : clock_now_ns() + (uint64_t)timeout_ms * 1000000u;
    return 0;
}

int s3_sockets_close(struct s3_sockets *s, curl_socket_t fd)
{
    if (fd >= 0 && fd < s->count)
        s->socket[fd] = (struct s3_socket){0};
    return close(fd);
}

/* ---- life ---- */

int s3_sockets_open(struct s3_sockets *s, struct fb_error *e)
{
    *s = (struct s3_sockets){.due_ns = UINT64_MAX, .epoll_fd = -1, .wake_fd = -1};
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = s->wake_fd};
    if (s->epoll_fd < 0 || s->wake_fd < 0 || epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, s->wake_fd, &event) < 0) {
        int rc = error_set_errno(e, "read", errno, "watch sockets");
        s3_sockets_free(s);
        return rc;
    }
    s->multi = curl_multi_init();
    if (!s->multi) {
        s3_sockets_free(s);
        return error_set(e, FB_E_NOMEM, "read", "no memory for an HTTP client");
    }
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s);
    return 0;
}

void s3_sockets_free(struct s3_sockets *s)
{
    if (s->multi)
        curl_multi_cleanup(s->multi);
    if (s->epoll_fd >= 0)
        close(s->epoll_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    free(s->socket);
}

void s3_sockets_wake(struct s3_sockets *s)
{
    uint64_t one = 1;
    while (write(s->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* ---- running ---- */

static void act(struct s3_sockets *s, const struct epoll_event *event)
{
    int fd = event->data.fd, running;
    if (fd == s->wake_fd) {
        uint64_t unused;
        while (read(fd, &unused, sizeof(unused)) < 0 && errno == EINTR)
            ;
        return;
    }
    if (fd >= s->count || !s->socket[fd].wanted) { /* an idle connection: let it be */
        epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
        if (fd < s->count)
            s->socket[fd].armed = 0;
        return;
    }
    int what = (event->events & EPOLLIN ? CURL_CSELECT_IN : 0) | (event->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
               (event->events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
    curl_multi_socket_action(s->multi, fd, what, &running);
}

static int wait_ms(uint64_t until_ns)
{
    uint64_t now = clock_now_ns();
    if (until_ns <= now)
        return 0;
    uint64_t ms = (until_ns - now + 999999) / 1000000;
    return ms < MOST_WAIT_MS ? (int)ms : MOST_WAIT_MS;
}

void s3_sockets_run(struct s3_sockets *s, uint64_t until_ns)
{
    struct epoll_event event[EVENTS];
    int running;
    int n = epoll_wait(s->epoll_fd, event, EVENTS, wait_ms(until_ns < s->due_ns ? until_ns : s->due_ns));
    for (int i = 0; i < n; i++)
        act(s, &event[i]);
    if (s->due_ns <= clock_now_ns()) {
        s->due_ns = UINT64_MAX;
        curl_multi_socket_action(s->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
}
