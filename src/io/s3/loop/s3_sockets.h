/* libcurl's sockets and timer on epoll.
 *
 * libcurl says "watch" and "forget" for every transfer, although the connection is the same; so forgetting is put off until an event comes
 * that nobody wants, and a socket that is watched again needs no system call. Closing tells us through CURLOPT_CLOSESOCKETFUNCTION, which
 * every handle must set to s3_sockets_close: a number that is used again would otherwise be taken for watched.
 */
#ifndef FB_IO_S3_LOOP_S3_SOCKETS_H
#define FB_IO_S3_LOOP_S3_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "io/s3/loop/curl_dynlib.h"

struct s3_socket {
    uint32_t wanted, armed; /* epoll's bits */
};

struct s3_sockets {
    CURLM *multi;
    int epoll_fd, wake_fd;
    uint64_t due_ns; /* libcurl's timer; UINT64_MAX: none */
    struct s3_socket *socket;
    int count;
};

int s3_sockets_open(struct s3_sockets *s, struct fb_error *e);
void s3_sockets_free(struct s3_sockets *s); /* after all handles were removed */

/* Any thread. */
void s3_sockets_wake(struct s3_sockets *s);
int s3_sockets_close(struct s3_sockets *s, curl_socket_t fd);
/* Waits for events until `until_ns`, lets libcurl act on them. */
void s3_sockets_run(struct s3_sockets *s, uint64_t until_ns);

#endif
