#include "codec/array/hdf5/hdf5_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file/file.h"
#include "codec/array/hdf5/hdf5_pool.h"
#include "model/hdf5/hdf5_rechunk.h"

enum { DEFAULT_TIMEOUT_S = 120, ASK_MS = 100, LINE = 700, DEATH_MS = 5000, KEPT = 16 };

uint32_t hdf5_timeout_s(void)
{
    const char *wish = getenv("FULLBORE_HDF5_TIMEOUT");
    long seconds = wish ? strtol(wish, NULL, 10) : 0;
    return seconds >= 1 && seconds <= 86400 ? (uint32_t)seconds : DEFAULT_TIMEOUT_S;
}

/* ---- starting ---- */

/* Where libraries are, and how sanitizers behave: the program would not start, or not be tested, without. Nothing else of the host's. */
static const char *const passed_on[] = {"LD_LIBRARY_PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"};
enum { PASSED_ON = sizeof(passed_on) / sizeof(passed_on[0]) };

struct environment {
    char *entry[KEPT];
    char *own[PASSED_ON]; /* to be freed */
};

static bool make_environment(struct environment *n)
{
    static const char *const fixed[] = {"LC_ALL=C", "HDF5_USE_FILE_LOCKING=FALSE", "HDF5_PLUGIN_PATH=", "HDF5_PLUGIN_PRELOAD=::"};
    size_t count = 0;
    memset(n, 0, sizeof(*n));
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        n->entry[count++] = (char *)(uintptr_t)fixed[i];
    for (size_t i = 0; i < PASSED_ON; i++) {
        const char *value = getenv(passed_on[i]);
        if (!value)
            continue;
        if (asprintf(&n->own[i], "%s=%s", passed_on[i], value) < 0) {
            n->own[i] = NULL;
            return false;
        }
        n->entry[count++] = n->own[i];
    }
    return true;
}

static void free_environment(struct environment *n)
{
    for (size_t i = 0; i < PASSED_ON; i++)
        free(n->own[i]);
}

static bool is_given(int count, const int *to, int fd)
{
    for (int i = 0; i < count; i++)
        if (to[i] == fd)
            return true;
    return false;
}

int hdf5_spawn(const char *path, const char *verb, int count, const int *fd, const int *to, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none, all;
    struct environment environment;
    char host[16];
    snprintf(host, sizeof(host), "%d", (int)getpid());
    char *const argv[] = {(char *)(uintptr_t)"fullbore-hdf5", (char *)(uintptr_t)verb, verb ? host : NULL, NULL};
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&how);
    for (int i = 0; i < count; i++)
        posix_spawn_file_actions_adddup2(&actions, fd[i], to[i]);
    for (int i = 0; i < 3; i++)
        if (!is_given(count, to, i))
            posix_spawn_file_actions_addopen(&actions, i, "/dev/null", i ? O_WRONLY : O_RDONLY, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setpgroup(&how, 0); /* a ctrl-C at the terminal is not for it */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int rc = make_environment(&environment) ? posix_spawn(pid, path, &actions, &how, argv, environment.entry) : ENOMEM;
    free_environment(&environment);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* ---- the end ---- */

int hdf5_reap(pid_t pid, int handle, int limit_ms, int *status)
{
    uint64_t deadline_ns = clock_now_ns() + (uint64_t)limit_ms * 1000000u;
    for (;;) {
        pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid)
            return 1;
        if (got < 0 && errno != EINTR)
            return -1; /* the host has taken it, or takes no notice of its children */
        if (clock_now_ns() >= deadline_ns)
            return 0;
        struct pollfd ended = {.fd = handle, .events = POLLIN}; /* -1: only the time counts */
        poll(&ended, 1, handle >= 0 ? ASK_MS : 5);
    }
}

/* ---- a whole run ---- */

struct running {
    const struct hdf5_run *r;
    pid_t pid;
    int handle, answers;
    char line[LINE];
    size_t line_bytes;
    struct stat target; /* when it was last looked at */
    uint64_t moved_ns;  /* when it last got on */
};

static void take_bytes(struct running *x, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            x->line[x->line_bytes] = 0;
            x->line_bytes = 0;
            if (x->r->line)
                x->r->line(x->r->ctx, x->line);
        } else if (x->line_bytes + 1 < sizeof(x->line)) { /* a longer one than any of its own is cut */
            x->line[x->line_bytes++] = bytes[i];
        }
    }
}

/* Lines, or a file that changes: it gets on. */
static void look_for_progress(struct running *x, size_t said)
{
    struct stat now;
    bool has_moved = said > 0;
    if (fstat(x->r->target_fd, &now) == 0) {
        has_moved |= now.st_size != x->target.st_size || now.st_blocks != x->target.st_blocks ||
                     now.st_mtim.tv_sec != x->target.st_mtim.tv_sec || now.st_mtim.tv_nsec != x->target.st_mtim.tv_nsec;
        x->target = now;
    }
    if (has_moved)
        x->moved_ns = clock_now_ns();
}

/* All that it has said so far; false: it says no more. */
static bool read_some(struct running *x, size_t *said)
{
    char bytes[512];
    size_t n = sizeof(bytes);
    bool has_more = true;
    while (n == sizeof(bytes)) {
        n = file_read_all(x->answers, bytes, sizeof(bytes));
        has_more = errno == EAGAIN;
        take_bytes(x, bytes, n);
        *said += n;
    }
    return has_more;
}

static int refuse_stuck(const struct hdf5_run *r, struct fb_error *e)
{
    error_set(e, FB_E_TIMEOUT, r->stage, "fullbore-hdf5 %s made no progress for %u s and was stopped", r->verb, hdf5_timeout_s());
    error_remedy(e, "if the storage is slow rather than the file damaged, set FULLBORE_HDF5_TIMEOUT to more seconds");
    error_at(e, r->file, -1);
    return FB_E_TIMEOUT;
}

/* Until it has ended: *status is its. */
static int follow(struct running *x, int *status, struct fb_error *e)
{
    const struct hdf5_run *r = x->r;
    bool is_open = true;
    for (;;) {
        struct pollfd p[2] = {{is_open ? x->answers : -1, POLLIN, 0}, {x->handle, POLLIN, 0}};
        size_t said = 0;
        poll(p, 2, x->handle >= 0 ? ASK_MS : 10);
        int ended = hdf5_reap(x->pid, x->handle, 0, status);
        if (is_open)
            is_open = read_some(x, &said);
        if (ended == 1)
            return 0;
        if (ended < 0)
            return error_set(e, FB_E_STATE, r->stage, "another part of the program collected the exit status of fullbore-hdf5");
        look_for_progress(x, said);
        if (r->interrupted && r->interrupted(r->ctx))
            return error_set(e, FB_E_INTERRUPTED, r->stage, "interrupted");
        if (clock_now_ns() - x->moved_ns > hdf5_timeout_s() * UINT64_C(1000000000))
            return refuse_stuck(r, e);
    }
}

/* However it ends, it does not write to the file afterwards; if even SIGKILL does not end it, the caller learns that. */
static void end_it(struct running *x, struct fb_error *e)
{
    int status;
    kill(x->pid, SIGKILL);
    if (hdf5_reap(x->pid, x->handle, DEATH_MS, &status) == 0)
        error_remedy(e, "process %d hangs in the kernel, in a request to the storage, and holds the file open until that answers",
                     (int)x->pid);
}

static int start(struct running *x, const char *path, int question, int answers, struct fb_error *e)
{
    int fd[3] = {fcntl(question, F_DUPFD_CLOEXEC, 10), fcntl(answers, F_DUPFD_CLOEXEC, 10), fcntl(x->r->target_fd, F_DUPFD_CLOEXEC, 10)};
    const int to[3] = {0, 1, HDF5_RECHUNK_FD};
    int rc = fd[0] < 0 || fd[1] < 0 || fd[2] < 0 ? error_set_errno(e, x->r->stage, errno, "talk to fullbore-hdf5") : 0;
    int failed =
        rc == 0 ? hdf5_spawn(path, x->r->verb, 3, fd, to, &x->pid) : 0; /* descriptors well above its own, so that none hides another */
    if (failed)
        rc = error_set_errno(e, x->r->stage, failed, "start fullbore-hdf5");
    for (int i = 0; i < 3; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    return rc;
}

static void say_how(int status, char *how, size_t how_size)
{
    bool is_signal = WIFSIGNALED(status);
    snprintf(how, how_size, "%s %d", is_signal ? "signal" : "status", is_signal ? WTERMSIG(status) : WEXITSTATUS(status));
}

static int run(struct running *x, const char *path, int question, char *how, size_t how_size, struct fb_error *e)
{
    int ends[2], status = 0;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_set_errno(e, x->r->stage, errno, "talk to fullbore-hdf5");
    x->answers = ends[0];
    int rc = start(x, path, question, ends[1], e);
    close(ends[1]);
    if (rc == 0) {
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        x->handle = (int)syscall(SYS_pidfd_open, x->pid, 0);
        x->moved_ns = clock_now_ns();
        rc = follow(x, &status, e);
        if (rc < 0)
            end_it(x, e);
        if (x->handle >= 0)
            close(x->handle);
    }
    close(ends[0]);
    if (rc == 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        say_how(status, how, how_size);
        return FB_E_DATA;
    }
    return rc;
}

/* The question as a file: it is there as a whole, whoever reads how fast. */
static int question_of(const struct hdf5_run *r, struct fb_error *e)
{
    int fd = r->question ? memfd_create("fullbore-hdf5", MFD_CLOEXEC) : fcntl(r->question_fd, F_DUPFD_CLOEXEC, 3);
    bool is_good = fd >= 0 && (!r->question || file_write_all(fd, r->question, r->question_bytes, NULL) == 0);
    if (is_good && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    int rc = error_set_errno(e, r->stage, errno, "write a question to fullbore-hdf5");
    if (fd >= 0)
        close(fd);
    return rc;
}

int hdf5_run(const struct hdf5_run *r, char *how, size_t how_size, struct fb_error *e)
{
    char path[HDF5_MAX_PATH];
    struct running x = {.r = r, .handle = -1, .answers = -1};
    how[0] = 0;
    if (!hdf5_find_helper(path, sizeof(path)))
        return error_advise(e, error_set(e, FB_E_UNSUPPORTED, r->stage, "HDF5 files need the program fullbore-hdf5, which was not found"),
                            "it is installed with the package; FULLBORE_HDF5_HELPER may name it");
    int question = question_of(r, e);
    if (question < 0)
        return question;
    int rc = run(&x, path, question, how, how_size, e);
    close(question);
    return rc;
}
