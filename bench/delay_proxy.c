/* delay_proxy: a TCP proxy that makes a server seem far away, for benches.
 *
 *     delay_proxy LISTEN_PORT SERVER_PORT DELAY_MS
 *
 * What a client sends reaches the server DELAY_MS later; answers pass at once, spliced through a pipe, so that the proxy costs little CPU
 * on a machine that it shares with both ends. One thread, epoll. Prints "ready" when it listens on 127.0.0.1. Ends with its standard input.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { REQUEST_BYTES = 16 << 10, PIPE_BYTES = 1 << 20 };

struct late {
    struct late *next;
    struct pair *to;
    uint64_t due_ns;
    size_t n;
    char bytes[REQUEST_BYTES];
};

struct pair {
    int client, server, pipe[2];
    size_t in_pipe;
    int waits_for_client; /* its send buffer is full */
    int is_closed, late_count;
};

struct end {
    struct pair *pair;
    int is_client;
};

static int epoll_fd;
static uint64_t delay_ns;
static struct late *first, **last = &first, *spare;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void watch(int fd, struct end *e, uint32_t events, int how)
{
    struct epoll_event v = {.events = events, .data.ptr = e};
    epoll_ctl(epoll_fd, how, fd, &v);
}

static void free_pair(struct pair *p)
{
    if (p->is_closed && p->late_count == 0)
        free(p);
}

static void close_pair(struct pair *p)
{
    if (p->is_closed)
        return;
    p->is_closed = 1;
    close(p->client);
    close(p->server);
    close(p->pipe[0]);
    close(p->pipe[1]);
}

static void from_client(struct pair *p)
{
    struct late *l = spare;
    if (l)
        spare = l->next;
    else if (!(l = malloc(sizeof *l)))
        die("malloc");
    ssize_t n = recv(p->client, l->bytes, sizeof l->bytes, MSG_DONTWAIT);
    if (n <= 0) {
        l->next = spare;
        spare = l;
        if (n == 0 || errno != EAGAIN)
            close_pair(p);
        return;
    }
    l->n = (size_t)n;
    l->to = p;
    l->due_ns = now_ns() + delay_ns;
    l->next = NULL;
    p->late_count++;
    *last = l;
    last = &l->next;
}

static void send_due(void)
{
    for (uint64_t now = now_ns(); first && first->due_ns <= now;) {
        struct late *l = first;
        first = l->next;
        if (!first)
            last = &first;
        l->to->late_count--;
        if (!l->to->is_closed && send(l->to->server, l->bytes, l->n, MSG_NOSIGNAL) != (ssize_t)l->n)
            close_pair(l->to);
        free_pair(l->to);
        l->next = spare;
        spare = l;
    }
}

static void from_server(struct pair *p, struct end *client_end)
{
    for (;;) {
        if (p->in_pipe == 0) {
            ssize_t n = splice(p->server, NULL, p->pipe[1], NULL, PIPE_BYTES, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
            if (n < 0 && errno == EAGAIN)
                return;
            if (n <= 0) {
                close_pair(p);
                return;
            }
            p->in_pipe = (size_t)n;
        }
        ssize_t n = splice(p->pipe[0], NULL, p->client, NULL, p->in_pipe, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n < 0 && errno == EAGAIN) {
            p->waits_for_client = 1;
            watch(p->client, client_end, EPOLLIN | EPOLLOUT, EPOLL_CTL_MOD);
            return;
        }
        if (n <= 0) {
            close_pair(p);
            return;
        }
        p->in_pipe -= (size_t)n;
    }
}

static int connect_to(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void accept_one(int listener, int port)
{
    int one = 1, client = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client < 0)
        return;
    struct pair *p = calloc(1, sizeof *p);
    struct end *e = calloc(2, sizeof *e); /* never freed: a bench is short */
    if (!p || !e || pipe2(p->pipe, O_NONBLOCK | O_CLOEXEC) < 0)
        die("pipe");
    fcntl(p->pipe[1], F_SETPIPE_SZ, PIPE_BYTES);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    p->client = client;
    p->server = connect_to(port);
    if (p->server < 0) {
        close(client);
        return;
    }
    e[0] = (struct end){p, 0};
    e[1] = (struct end){p, 1};
    watch(p->server, &e[0], EPOLLIN, EPOLL_CTL_ADD);
    watch(p->client, &e[1], EPOLLIN, EPOLL_CTL_ADD);
}

static void act(struct end *e, uint32_t events)
{
    struct pair *p = e->pair;
    if (p->is_closed)
        return;
    if (!e->is_client) {
        from_server(p, e + 1);
        return;
    }
    if (events & EPOLLOUT && p->waits_for_client) {
        p->waits_for_client = 0;
        watch(p->client, e, EPOLLIN, EPOLL_CTL_MOD);
        from_server(p, e);
    }
    if (!p->is_closed && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        from_client(p);
}

int main(int argc, char **argv)
{
    struct end listens = {0}, ends = {0};
    struct epoll_event event[64];
    if (argc != 4)
        die("usage: delay_proxy LISTEN_PORT SERVER_PORT DELAY_MS");
    delay_ns = (uint64_t)(atof(argv[3]) * 1e6);
    struct rlimit files; /* a connection takes four */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&a, sizeof a) < 0 || listen(listener, 1024) < 0)
        die("listen");
    watch(listener, &listens, EPOLLIN, EPOLL_CTL_ADD);
    watch(0, &ends, EPOLLIN, EPOLL_CTL_ADD);
    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t now = now_ns();
        int wait = !first ? -1 : first->due_ns <= now ? 0 : (int)((first->due_ns - now + 999999) / 1000000);
        int n = epoll_wait(epoll_fd, event, 64, wait);
        for (int i = 0; i < n; i++) {
            struct end *e = event[i].data.ptr;
            char unused[64];
            if (e == &listens)
                accept_one(listener, atoi(argv[2]));
            else if (e != &ends)
                act(e, event[i].events);
            else if (read(0, unused, sizeof unused) <= 0)
                return 0;
        }
        send_due();
    }
}
