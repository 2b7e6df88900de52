/* `fullbore-hdf5 rechunk` does the work; this job names files, looks after the program, and puts its file in place when it is whole. */
#include "jobs/pack_rechunk.h"

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
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "codec/hdf5_pool.h"
#include "host/host.h"
#include "jobs/pack_files.h"
#include "jobs/write_all.h"

extern char **environ;

enum { ASK_MS = 100, LINE = 700 };

struct rechunking {
    const struct rechunk_request *q;
    struct rechunk_result *out;
    struct pack_files files;
    struct stat source;
    int fd;               /* of the new file */
    pid_t pid;
    int answers;
    uint64_t started_ns;
    struct fb_error said; /* by the program */
};

/* ---- the program ---- */

static int write_question(const struct rechunking *x, int fd, struct fb_error *e)
{
    struct hdf5_rechunk q = {.magic = HDF5_RECHUNK_MAGIC, .filters = x->q->filters, .rows = x->q->rows, .allows_external = x->q->allows_external};
    int threads = x->q->options.threads > 0 ? x->q->options.threads : host_cores();
    q.threads = threads < HDF5_RECHUNK_THREADS ? (uint32_t)threads : HDF5_RECHUNK_THREADS;
    if (strlen(x->q->options.source) > HDF5_MAX_PATH)
        return error_set(e, FB_E_USAGE, "pack", "the name of the file is too long");
    snprintf(q.path, sizeof(q.path), "%s", x->q->options.source);
    FB_TRY(write_all(fd, &q, sizeof(q), e));
    return lseek(fd, 0, SEEK_SET) < 0 ? error_set_errno(e, "pack", errno, "talk to fullbore-hdf5") : 0;
}

static int spawn(const char *path, const int fd[3], pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none;
    char *const argv[] = {(char *)(uintptr_t)"fullbore-hdf5", (char *)(uintptr_t)"rechunk", NULL};
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&how);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, fd[i], i < 2 ? i : HDF5_RECHUNK_FD);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setpgroup(&how, 0); /* a ctrl-C at the terminal is for us, who end it */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int rc = posix_spawn(pid, path, &actions, &how, argv, environ);
    posix_spawnattr_destroy(&how);
    posix_spawn_file_actions_destroy(&actions);
    return rc;
}

/* Descriptors well above those that the program gets, so that none hides another. */
static int start(struct rechunking *x, const char *path, struct fb_error *e)
{
    int ends[2], question = memfd_create("fullbore-rechunk", MFD_CLOEXEC);
    if (question < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        if (question >= 0)
            close(question);
        return error_set_errno(e, "pack", errno, "talk to fullbore-hdf5");
    }
    x->answers = ends[0];
    int fd[3] = {fcntl(question, F_DUPFD_CLOEXEC, 10), fcntl(ends[1], F_DUPFD_CLOEXEC, 10), fcntl(x->fd, F_DUPFD_CLOEXEC, 10)};
    int rc = write_question(x, question, e), failed = 0;
    if (rc == 0 && (failed = spawn(path, fd, &x->pid)) != 0)
        rc = error_set_errno(e, "pack", failed, "start fullbore-hdf5");
    for (int i = 0; i < 3; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    close(ends[1]);
    close(question);
    return rc;
}

/* ---- what it says ---- */

static void tell(struct rechunking *x, uint64_t done, uint64_t total)
{
    struct pack_progress p = {done, total, done, total, (double)(clock_now_ns() - x->started_ns) / 1e9};
    if (x->q->progress)
        x->q->progress(x->q->ctx, &p);
}

static void take_line(struct rechunking *x, const char *line)
{
    unsigned long long a, b;
    int code, used = 0;
    if (sscanf(line, "p %llu %llu", &a, &b) == 2)
        tell(x, a, b);
    else if (sscanf(line, "r %llu %llu", &a, &b) == 2)
        x->out->datasets = a, x->out->rechunked = b;
    else if (sscanf(line, "e %d %n", &code, &used) == 1 && used)
        error_set(&x->said, code < 0 ? code : FB_E_DATA, "pack", "%s", line + used);
    else if (strncmp(line, "h ", 2) == 0 && line[2])
        error_remedy(&x->said, "%s", line + 2);
}

/* Lines until the end of the program's output; a longer one than any of its own is cut. */
static int listen_to(struct rechunking *x, struct fb_error *e)
{
    const fb_options *o = &x->q->options;
    char line[LINE];
    size_t n = 0;
    for (;;) {
        struct pollfd p = {x->answers, POLLIN, 0};
        char c[256];
        ssize_t got = poll(&p, 1, ASK_MS) > 0 ? read(x->answers, c, sizeof(c)) : -1;
        if (got == 0)
            return 0;
        for (ssize_t i = 0; i < got; i++) {
            if (c[i] == '\n') {
                line[n] = 0;
                take_line(x, line);
                n = 0;
            } else if (n + 1 < sizeof(line)) {
                line[n++] = c[i];
            }
        }
        if (o->interrupted && o->interrupted(o->ctx))
            return error_set(e, FB_E_INTERRUPTED, "pack", "interrupted");
    }
}

/* However it ends, nobody writes to the file afterwards. */
static int wait_for(struct rechunking *x, int rc, struct fb_error *e)
{
    int status = 0;
    if (rc < 0)
        kill(x->pid, SIGKILL);
    while (waitpid(x->pid, &status, 0) < 0 && errno == EINTR)
        ;
    x->pid = 0;
    if (rc < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
        return rc;
    if (x->said.code && e && e->code == 0)
        *e = x->said;
    if (x->said.code)
        return x->said.code;
    error_set(e, FB_E_DATA, "pack", "fullbore-hdf5 ended in the middle of it (%s %d): the file is damaged in a way that libhdf5 does not survive, "
              "or memory ran out", WIFSIGNALED(status) ? "signal" : "status", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return FB_E_DATA;
}

static int run_program(struct rechunking *x, struct fb_error *e)
{
    char path[HDF5_MAX_PATH];
    if (!hdf5_find_helper(path, sizeof(path))) {
        error_set(e, FB_E_UNSUPPORTED, "pack", "HDF5 files need the program fullbore-hdf5, which is not there");
        error_remedy(e, "it is installed with the package; FULLBORE_HDF5_HELPER may name it");
        return FB_E_UNSUPPORTED;
    }
    FB_TRY(start(x, path, e));
    int rc = wait_for(x, listen_to(x, e), e);
    if (rc < 0)
        error_at(e, x->q->options.source, -1);
    return rc;
}

/* ---- the files ---- */

static const char *extension_of(const char *path)
{
    static const char *const known[] = {".h5", ".hdf5", ".hdf", ".he5", ".H5", ".HDF5"};
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(dot, known[i]) == 0)
            return known[i];
    return ".h5"; /* which it has not, and pack_files_open says so */
}

static int prepare(struct rechunking *x, struct fb_error *e)
{
    struct stat there;
    const char *source = x->q->options.source;
    if (stat(source, &x->source) < 0) {
        int rc = error_set_errno(e, "pack", errno, "open the file");
        error_at(e, source, -1);
        return rc;
    }
    if (!S_ISREG(x->source.st_mode)) {
        error_set(e, FB_E_USAGE, "pack", "--rechunk takes one HDF5 file, and this is %s", S_ISDIR(x->source.st_mode) ? "a folder" : "no regular file");
        error_remedy(e, "name the file; of several, one after another");
        error_at(e, source, -1);
        return FB_E_USAGE;
    }
    if (stat(x->q->output, &there) == 0 && there.st_dev == x->source.st_dev && there.st_ino == x->source.st_ino)
        return error_set(e, FB_E_USAGE, "pack", "a source is never written to: give the new file another name");
    x->out->source_bytes = (uint64_t)x->source.st_size;
    struct pack_question question = {.fingerprint = x->source.st_ino, .samples = x->q->rows};
    FB_TRY(pack_files_open(&x->files, x->q->output, extension_of(x->q->output), false, e));
    FB_TRY(pack_files_start(&x->files, &question, e));
    x->fd = pack_files_shard(&x->files, 0, e);
    return x->fd < 0 ? x->fd : 0;
}

static int check_source(const struct rechunking *x, struct fb_error *e)
{
    struct stat now;
    const struct stat *then = &x->source;
    if (stat(x->q->options.source, &now) == 0 && now.st_ino == then->st_ino && now.st_size == then->st_size &&
        now.st_mtim.tv_sec == then->st_mtim.tv_sec && now.st_mtim.tv_nsec == then->st_mtim.tv_nsec)
        return 0;
    error_set(e, FB_E_STATE, "pack", "the source changed while it was read");
    error_remedy(e, "leave it alone meanwhile, then do it again");
    error_at(e, x->q->options.source, -1);
    return FB_E_STATE;
}

static int finish(struct rechunking *x, struct fb_error *e)
{
    struct log log = {x->q->options.log, x->q->options.ctx};
    struct stat st;
    FB_TRY(check_source(x, e));
    FB_TRY(write_sync(x->fd, e));
    x->out->bytes = fstat(x->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    FB_TRY(pack_files_place(&x->files, 1, e));
    pack_files_clean(&x->files, 1, &log);
    return 0;
}

int pack_rechunk_run(const struct rechunk_request *q, struct rechunk_result *out, struct fb_error *e)
{
    *out = (struct rechunk_result){0};
    struct rechunking x = {.q = q, .out = out, .fd = -1, .answers = -1, .started_ns = clock_now_ns()};
    x.files.dir_fd = x.files.journal_fd = -1;
    int rc = prepare(&x, e);
    if (rc == 0)
        rc = run_program(&x, e);
    if (rc == 0)
        rc = finish(&x, e);
    if (rc < 0)
        pack_files_drop(&x.files);
    if (x.answers >= 0)
        close(x.answers);
    if (x.fd >= 0)
        close(x.fd);
    pack_files_close(&x.files);
    out->seconds = (double)(clock_now_ns() - x.started_ns) / 1e9;
    return rc;
}
