/* floor_stage: the two halves of staging, each alone.
 *
 *     floor_stage read FOLDER SPEC       every file below FOLDER through an io back-end, 64 in flight, bytes dropped
 *     floor_stage write FOLDER TARGET    every file's bytes, in memory already, into TARGET by 4 threads, under the same relative paths:
 * mkdir
 *                                        once per folder, then open, write, close; at last syncfs
 *
 * Prints one JSON object: files, bytes, seconds.
 */
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "io/io.h"

enum { DEPTH = 64, WRITERS = 4, FILES_MOST = 1 << 20 };

struct file {
    char *path;
    uint64_t size;
    uint8_t *bytes;
};

static struct file *files;
static uint64_t count, total;
static char **folders; /* relative, outer ones first */
static uint64_t folder_count;
static size_t root_length;
static _Atomic uint64_t next_file;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int note(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    if (kind == FTW_D && where->level > 0 && folder_count < FILES_MOST)
        folders[folder_count++] = strdup(path + root_length + 1);
    if (kind != FTW_F || count == FILES_MOST)
        return 0;
    files[count++] = (struct file){strdup(path), (uint64_t)st->st_size, NULL};
    total += (uint64_t)st->st_size;
    return 0;
}

/* ---- reading ---- */

struct flight {
    struct io_request r;
    struct fb_error error;
    struct io *io;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static int in_flight;

static void go_on(struct io_request *r);

static bool send_next(struct flight *f)
{
    uint64_t i = atomic_fetch_add(&next_file, 1);
    if (i >= count)
        return false;
    uint64_t need = files[i].size + IO_TAIL;
    uint8_t *buffer = f->r.capacity >= need ? f->r.buffer : realloc(f->r.buffer, need);
    if (!buffer)
        die("memory");
    f->r = (struct io_request){.dir_fd = AT_FDCWD,
                               .path = files[i].path,
                               .length = IO_WHOLE,
                               .expected_size = files[i].size,
                               .buffer = buffer,
                               .capacity = f->r.capacity >= need ? f->r.capacity : need,
                               .done = go_on,
                               .owner = f,
                               .error = &f->error};
    f->io->ops->submit(f->io, &f->r, false);
    return true;
}

static void go_on(struct io_request *r)
{
    struct flight *f = r->owner;
    if (r->status != 0)
        die(r->path);
    if (send_next(f))
        return;
    pthread_mutex_lock(&lock);
    in_flight--;
    pthread_cond_signal(&over);
    pthread_mutex_unlock(&lock);
}

static void read_all(const char *spec)
{
    static struct flight flight[DEPTH];
    struct io *io;
    if (io_open(&io, spec, DEPTH, NULL, NULL) < 0)
        die(spec);
    in_flight = DEPTH;
    for (int i = 0; i < DEPTH; i++) {
        flight[i].io = io;
        if (!send_next(&flight[i]))
            in_flight--;
    }
    pthread_mutex_lock(&lock);
    while (in_flight > 0)
        pthread_cond_wait(&over, &lock);
    pthread_mutex_unlock(&lock);
}

/* ---- writing ---- */

static void load(struct file *f)
{
    int fd = open(f->path, O_RDONLY);
    f->bytes = malloc(f->size + 1);
    if (fd < 0 || !f->bytes || read(fd, f->bytes, f->size) != (ssize_t)f->size)
        die(f->path);
    close(fd);
}

static void *write_some(void *target)
{
    for (uint64_t i; (i = atomic_fetch_add(&next_file, 1)) < count;) {
        const char *path = files[i].path + root_length + 1;
        int fd = openat(*(const int *)target, path, O_WRONLY | O_CREAT | O_EXCL, 0666);
        if (fd < 0 || write(fd, files[i].bytes, files[i].size) != (ssize_t)files[i].size)
            die(path);
        close(fd);
    }
    return NULL;
}

static void write_all_files(const char *target)
{
    pthread_t thread[WRITERS];
    int fd = open(target, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        die(target);
    for (uint64_t i = 0; i < folder_count; i++)
        if (mkdirat(fd, folders[i], 0777) < 0)
            die(folders[i]);
    for (int i = 0; i < WRITERS; i++)
        if (thread_start(&thread[i], "write", write_some, &fd, NULL) < 0)
            die("thread");
    for (int i = 0; i < WRITERS; i++)
        pthread_join(thread[i], NULL);
    if (syncfs(fd) < 0)
        die(target);
    close(fd);
}

int main(int argc, char **argv)
{
    bool reads = argc == 4 && strcmp(argv[1], "read") == 0, writes = argc == 4 && strcmp(argv[1], "write") == 0;
    files = calloc(FILES_MOST, sizeof(*files));
    folders = calloc(FILES_MOST, sizeof(*folders));
    if (!files || !folders || (!reads && !writes)) {
        fprintf(stderr, "usage: floor_stage read FOLDER SPEC | write FOLDER TARGET\n");
        return 2;
    }
    for (root_length = strlen(argv[2]); root_length > 1 && argv[2][root_length - 1] == '/'; root_length--)
        argv[2][root_length - 1] = 0;
    nftw(argv[2], note, 32, 0);
    for (uint64_t i = 0; writes && i < count; i++)
        load(&files[i]);
    if (writes && mkdir(argv[3], 0777) < 0)
        die(argv[3]);
    uint64_t since = clock_now_ns();
    if (reads)
        read_all(argv[3]);
    else
        write_all_files(argv[3]);
    printf("{\"files\":%llu,\"bytes\":%llu,\"seconds\":%.6f}\n", (unsigned long long)count, (unsigned long long)total,
           (double)(clock_now_ns() - since) / 1e9);
    return 0;
}
