#include "io_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../sanitizers.h"
#include "base/rng.h"

void pause_1ms(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

void folder_make(struct folder *f, const char *prefix)
{
    snprintf(f->path, sizeof(f->path), "%s/fullbore-io-XXXXXX", prefix ? prefix : access("/var/tmp", W_OK) == 0 ? "/var/tmp" : "/tmp");
    assert_non_null(mkdtemp(f->path));
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(f->fd >= 0);
}

void folder_remove(struct folder *f)
{
    DIR *d = fdopendir(f->fd);
    assert_non_null(d);
    rewinddir(d);
    for (struct dirent *e; (e = readdir(d));)
        if (unlinkat(dirfd(d), e->d_name, 0) != 0)
            unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    closedir(d);
    rmdir(f->path);
}

static uint64_t seed_of(const char *name)
{
    uint64_t seed = 0;
    for (; *name; name++)
        seed = seed * 31 + (unsigned char)*name;
    return seed;
}

uint8_t file_byte(const char *name, uint64_t i)
{
    return (uint8_t)(rng_mix(seed_of(name), i / 8) >> (8 * (i % 8)));
}

static void fill(const char *name, uint8_t *to, uint64_t from, uint64_t bytes)
{
    uint64_t seed = seed_of(name);
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(rng_mix(seed, (from + i) / 8) >> (8 * ((from + i) % 8)));
}

void file_write(const struct folder *f, const char *name, uint64_t size)
{
    int fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    fill(name, bytes, 0, size);
    assert_int_equal(write(fd, bytes, size), size);
    free(bytes);
    close(fd);
}

bool file_evict(const struct folder *f, const char *name)
{
    int fd = openat(f->fd, name, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    struct stat s;
    assert_int_equal(fstat(fd, &s), 0);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    void *map = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(map != MAP_FAILED);
    unsigned char *is_there = calloc(1, (size_t)s.st_size / 4096 + 1);
    assert_int_equal(mincore(map, (size_t)s.st_size, is_there), 0);
    bool is_gone = true;
    for (off_t i = 0; i < (s.st_size + 4095) / 4096; i++)
        is_gone = is_gone && !(is_there[i] & 1);
    free(is_there);
    munmap(map, (size_t)s.st_size);
    close(fd);
    return is_gone;
}

static void call_done(struct io_request *r)
{
    struct call *c = r->owner;
    c->done_count++;
}

void call_init(struct call *c, const struct folder *f, const char *name, uint64_t expected_size)
{
    memset(c, 0, sizeof(*c));
    error_clear(&c->error);
    c->r = (struct io_request){
        .dir_fd = f->fd,
        .path = name,
        .length = IO_WHOLE,
        .expected_size = expected_size,
        .capacity = (size_t)expected_size + IO_TAIL,
        .buffer = malloc((size_t)expected_size + IO_TAIL),
        .done = call_done,
        .owner = c,
        .error = &c->error,
        .status = 99,
    };
    assert_non_null(c->r.buffer);
    memset(c->r.buffer, 0xEE, c->r.capacity);
}

void call_free(struct call *c)
{
    free(c->r.buffer);
}

void call_wait(struct call *c)
{
    WAIT_FOR(c->done_count > 0);
}

int call_run(struct io *io, struct call *c)
{
    c->done_count = 0;
    error_clear(&c->error);
    io->ops->submit(io, &c->r, false);
    call_wait(c);
    assert_int_equal(c->done_count, 1);
    return c->r.status;
}

void call_assert_bytes(const struct call *c, const char *name, uint64_t offset, uint64_t bytes)
{
    assert_int_equal(c->r.status, 0);
    assert_int_equal(c->r.got, bytes);
    uint8_t *expected = malloc(bytes + 1);
    assert_non_null(expected);
    fill(name, expected, offset, bytes);
    for (uint64_t i = 0; i < bytes; i++)
        if (c->r.buffer[i] != expected[i])
            fail_msg("%s: byte %llu differs", name, (unsigned long long)i);
    free(expected);
}

struct io *open_or_skip(const char *spec, uint32_t depth)
{
    struct io *io;
    struct fb_error e;
    error_clear(&e);
    int rc = io_open(&io, spec, depth, NULL, &e);
    if (rc == FB_E_UNSUPPORTED) {
        print_message("skipped, %s: %s\n", spec, e.cause);
        return NULL;
    }
    if (rc < 0)
        fail_msg("%s: %s", spec, e.cause);
    return io;
}

int count_open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

int in_child(int (*body)(void *), void *arg)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        _exit(body(arg));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#if HAS_THREAD_SANITIZER
/* liburing maps rings by system calls that ThreadSanitizer does not see: a new ring at the address of an old one, whose thread was left
 * behind and never joined, looks shared to it. Only ring memory is written there; everything else stays checked. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "race:liburing.h\n";
}
#endif
