/* `fullbore-hdf5 rechunk` does the work; this job names files, looks after the program, and puts its file in place when it is whole. */
#include "jobs/pack_rechunk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file/file.h"
#include "base/text/text.h"
#include "codec/array/hdf5/hdf5_run.h"
#include "host/host.h"
#include "jobs/output/pack_files.h"

struct rechunking {
    const struct rechunk_request *q;
    struct rechunk_result *out;
    struct pack_files files;
    struct stat source;
    int fd; /* of the new file */
    uint64_t started_ns;
    struct fb_error said; /* by the program */
};

/* ---- the program ---- */

static int make_question(const struct rechunking *x, struct hdf5_rechunk *q, struct fb_error *e)
{
    *q = (struct hdf5_rechunk){
        .magic = HDF5_RECHUNK_MAGIC, .filters = x->q->filters, .rows = x->q->rows, .allows_external = x->q->allows_external};
    int threads = x->q->options.threads > 0 ? x->q->options.threads : host_cores();
    q->threads = threads < HDF5_RECHUNK_THREADS ? (uint32_t)threads : HDF5_RECHUNK_THREADS;
    if (strlen(x->q->options.source) > HDF5_MAX_PATH)
        return error_set(e, FB_E_USAGE, "pack", "the name of the file is too long");
    snprintf(q->path, sizeof(q->path), "%s", x->q->options.source);
    return 0;
}

/* ---- what it says ---- */

static void tell(struct rechunking *x, uint64_t done, uint64_t total)
{
    struct pack_progress p = {done, total, done, total, (double)(clock_now_ns() - x->started_ns) / 1e9};
    if (x->q->progress)
        x->q->progress(x->q->ctx, &p);
}

static void take_line(void *ctx, const char *line)
{
    struct rechunking *x = ctx;
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

static int is_interrupted(void *ctx)
{
    const fb_options *o = &((struct rechunking *)ctx)->q->options;
    return o->interrupted && o->interrupted(o->ctx);
}

static int run_program(struct rechunking *x, struct fb_error *e)
{
    char how[40];
    struct hdf5_rechunk q;
    FB_TRY(make_question(x, &q, e));
    const struct hdf5_run r = {.verb = "rechunk",
                               .stage = "pack",
                               .question = &q,
                               .question_bytes = sizeof(q),
                               .target_fd = x->fd,
                               .file = x->q->options.source,
                               .line = take_line,
                               .interrupted = is_interrupted,
                               .ctx = x};
    int rc = hdf5_run(&r, how, sizeof(how), e);
    if (how[0] && x->said.code) {
        rc = x->said.code;
        if (e && e->code == 0)
            *e = x->said;
    } else if (how[0]) {
        error_set(
            e, FB_E_DATA, "pack",
            "fullbore-hdf5 ended in the middle of it (%s): the file is damaged in a way that libhdf5 does not survive, or memory ran out",
            how);
    }
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
    const char *source = x->q->options.source;
    if (stat(source, &x->source) < 0) {
        int rc = error_set_errno(e, "pack", errno, "open the file");
        error_at(e, source, -1);
        return rc;
    }
    if (!S_ISREG(x->source.st_mode)) {
        error_set(e, FB_E_USAGE, "pack", "--rechunk takes one HDF5 file, and this is %s",
                  S_ISDIR(x->source.st_mode) ? "a folder" : "no regular file");
        error_remedy(e, "name the file; of several, one after another");
        error_at(e, source, -1);
        return FB_E_USAGE;
    }
    x->out->source_bytes = (uint64_t)x->source.st_size;
    struct pack_question question = {.fingerprint = x->source.st_ino, .samples = x->q->rows};
    FB_TRY(pack_files_open(&x->files, x->q->output, extension_of(x->q->output), false, x->q->overwrites, e));
    FB_TRY(pack_files_check(&x->files, source, NULL, e));
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
    FB_TRY(file_sync(x->fd, e));
    x->out->bytes = fstat(x->fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    FB_TRY(pack_files_place(&x->files, 1, e));
    pack_files_clean(&x->files, 1, &log);
    return 0;
}

int pack_rechunk_run(const struct rechunk_request *q, struct rechunk_result *out, struct fb_error *e)
{
    *out = (struct rechunk_result){0};
    struct rechunking x = {.q = q, .out = out, .fd = -1, .started_ns = clock_now_ns()};
    x.files.dir_fd = x.files.journal_fd = -1;
    int rc = prepare(&x, e);
    if (rc == 0)
        rc = run_program(&x, e);
    if (rc == 0)
        rc = finish(&x, e);
    if (rc < 0)
        pack_files_drop(&x.files);
    if (x.fd >= 0)
        close(x.fd);
    pack_files_close(&x.files);
    out->seconds = (double)(clock_now_ns() - x.started_ns) / 1e9;
    return rc;
}
