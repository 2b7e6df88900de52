/* What the io tests share: a folder of files with known bytes, requests that can be waited for, and one list of back-ends. */
#ifndef TESTS_IO_FIXTURE_H
#define TESTS_IO_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "io/io.h"

/* A folder on a real disk (or, with a prefix, elsewhere), removed by folder_remove. */
struct folder {
    char path[64];
    int fd;
};

void folder_make(struct folder *f, const char *prefix);
void folder_remove(struct folder *f);

/* Byte i of the file called `name`. */
uint8_t file_byte(const char *name, uint64_t i);
void file_write(const struct folder *f, const char *name, uint64_t size);
/* Takes its pages out of the cache. False: the file system keeps them. */
bool file_evict(const struct folder *f, const char *name);

/* A request that owns its buffer. */
struct call {
    struct io_request r;
    struct fb_error error;
    _Atomic int done_count;
};

void call_init(struct call *c, const struct folder *f, const char *name, uint64_t expected_size);
void call_free(struct call *c);
/* Fails the test after half a minute. */
void call_wait(struct call *c);
/* Submit, wait, and the status. */
int call_run(struct io *io, struct call *c);
/* got bytes from `offset` of that file, nothing else. */
void call_assert_bytes(const struct call *c, const char *name, uint64_t offset, uint64_t bytes);

/* Opens or fails the test; NULL when this machine has no io_uring and the spec needs it (said on stdout). */
struct io *open_or_skip(const char *spec, uint32_t depth);

/* Descriptors this process has open. */
int count_open_files(void);

/* Runs `body` in a child process and returns its answer (0-255), or -1 if it crashed or took half a minute. No asserts in there. */
int in_child(int (*body)(void *), void *arg);

/* Sleeps in small steps until `condition` or half a minute is over. */
#define WAIT_FOR(condition)                                                           \
    do {                                                                              \
        for (int wait_steps_ = 0; !(condition) && wait_steps_ < 30000; wait_steps_++) \
            pause_1ms();                                                              \
        assert_true(condition);                                                       \
    } while (0)
void pause_1ms(void);

/* One entry per back-end that reads files; the state is the spec. */
#define FOR_EACH_READER(test)                                                                                     \
    {#test " [uring]", test, NULL, NULL, (void *)"uring"}, {#test " [pread]", test, NULL, NULL, (void *)"pread"}, \
        {#test " [slow]", test, NULL, NULL, (void *)"slow:latency_us=50,jitter_us=100,over=pread"},               \
        {#test " [fault]", test, NULL, NULL, (void *)"fault:error=EIO,path=no-such-path;over=auto"},              \
        {#test " [merge]", test, NULL, NULL, (void *)"merge:lanes=2,over=pread"}

#endif
