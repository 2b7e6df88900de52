/* Putting bytes in place. A file is written under a temporary name in its own folder and renamed when it is whole. An existing file of that
 * name is an older copy (the log says that the folder is ours) and is replaced. Names become paths only through base/file/safe_path.
 *
 * A large file is written piece by piece into NAME.fullbore-part; which pieces are there is in NAME.fullbore-marks, a byte each after the
 * size and time they belong to, so that a second run reads only the rest. Marks are made for a few pieces at once, after those are on the
 * disk, and the file is on the disk before it gets its name. Small files are brought there together, before the log speaks of them
 * (stage_log.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file/file.h"
#include "base/file/safe_path.h"
#include "base/text/text.h"
#include "jobs/stage/stage_internal.h"

enum { PIECE = 1 << 20 }; /* of a copy that is read again */
static const uint64_t mark_every_ns = 250000000;

/* ---- names ---- */

static bool ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

bool stage_is_own_name(const char *last)
{
    size_t n = strlen(".fullbore-");
    bool is_temporary = strncmp(last, ".fullbore-", n) == 0 && strspn(last + n, "0123456789abcdef") == 16 && !last[n + 16];
    return is_temporary || strcmp(last, STAGE_LOG_NAME) == 0 || ends_with(last, ".fullbore-part") || ends_with(last, ".fullbore-marks");
}

/* A sample of an archive or a bucket may be called anything: one that is called like the log, or like the unfinished part of another
 * sample, would take its place. */
static int check_name(const char *name, struct fb_error *e)
{
    if (!stage_is_own_name(text_last_part(name)))
        return 0;
    return error_set(e, FB_E_DATA, "stage", "staging uses names like this one for its own files, so it is refused");
}

/* ---- small files ---- */

static int put_in_place(int parent_fd, const char *temporary, const char *last, struct fb_error *e)
{
    if (renameat(parent_fd, temporary, parent_fd, last) == 0)
        return 0;
    bool is_folder = errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST;
    return is_folder ? error_set(e, FB_E_DATA, "stage", "a folder has this name, so it is refused")
                     : error_set_errno(e, "stage", errno, "give the file its name");
}

int stage_write_file(struct safe_place *p, const char *name, const void *bytes, uint64_t size, int64_t mtime_ns, struct fb_error *e)
{
    const char *last;
    char temporary[SAFE_PATH_TEMPORARY_BYTES];
    FB_TRY(check_name(name, e));
    FB_TRY(safe_place_enter(p, name, &last, e));
    int fd = safe_path_make_temporary(p->parent_fd, p->stage, temporary, e);
    FB_TRY(fd);
    int rc = file_write_all(fd, bytes, size, e);
    if (rc == 0)
        rc = file_set_time(fd, mtime_ns, "stage", e);
    if (close(fd) < 0 && rc == 0) /* NFS tells here that there was no room */
        rc = error_set_errno(e, "stage", errno, "write a file");
    if (rc == 0)
        rc = put_in_place(p->parent_fd, temporary, last, e);
    if (rc < 0)
        unlinkat(p->parent_fd, temporary, 0);
    return rc;
}

/* ---- large files ---- */

struct marks_head {
    uint64_t size;
    int64_t mtime_ns;
};

static char *with_ending(const struct stage_large *g, const char *ending, char out[300])
{
    snprintf(out, 300, "%s.fullbore-%s", g->last, ending);
    return out;
}

/* 1: there are marks of the same file. */
static int read_marks(struct stage_large *g, const struct marks_head *want)
{
    struct marks_head h;
    return file_read_all_at(g->marks_fd, &h, sizeof(h), 0) == sizeof(h) && h.size == want->size && h.mtime_ns == want->mtime_ns &&
           file_read_all_at(g->marks_fd, g->is_done, g->pieces, sizeof(h)) == g->pieces;
}

static int open_parts(struct stage_large *g, const struct marks_head *h, bool resumes, struct fb_error *e)
{
    char name[300];
    int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
    g->fd = openat(g->parent_fd, with_ending(g, "part", name), flags, 0666);
    g->marks_fd = g->fd < 0 ? -1 : openat(g->parent_fd, with_ending(g, "marks", name), flags, 0666);
    struct stat st;
    if (g->marks_fd < 0 || fstat(g->fd, &st) < 0)
        return error_set_errno(e, "stage", errno, "make a file");
    if (resumes && (uint64_t)st.st_size == h->size && read_marks(g, h))
        return 0;
    memset(g->is_done, 0, g->pieces);
    if (ftruncate(g->fd, 0) < 0 || ftruncate(g->fd, (off_t)h->size) < 0 || ftruncate(g->marks_fd, 0) < 0)
        return error_set_errno(e, "stage", errno, "make a file of its size");
    FB_TRY(file_write_all_at(g->marks_fd, h, sizeof(*h), 0, e));
    return file_write_all_at(g->marks_fd, g->is_done, g->pieces, sizeof(*h), e);
}

int stage_large_open(struct stage_large *g, int target_fd, const char *name, uint64_t size, int64_t mtime_ns, bool resumes,
                     struct fb_error *e)
{
    const char *last;
    struct marks_head h = {size, mtime_ns};
    *g = (struct stage_large){.fd = -1, .marks_fd = -1, .parent_fd = -1, .pieces = (size + STAGE_PIECE - 1) / STAGE_PIECE};
    pthread_mutex_init(&g->lock, NULL);
    g->marked_ns = clock_now_ns();
    g->is_done = calloc(g->pieces + 1, 1);
    if (!g->is_done)
        return error_set(e, FB_E_NOMEM, "stage", "no memory");
    FB_TRY(check_name(name, e));
    g->parent_fd = safe_path_open_parent(target_fd, name, &last, e);
    FB_TRY(g->parent_fd);
    if (strlen(last) >= sizeof(g->last) - 20)
        return error_set(e, FB_E_DATA, "stage", "its name is too long for a copy in pieces");
    snprintf(g->last, sizeof(g->last), "%s", last);
    FB_TRY(open_parts(g, &h, resumes, e));
    for (uint64_t i = 0; i < g->pieces; i++)
        g->left += !g->is_done[i];
    return 0;
}

/* Under no lock. The pieces are written by whoever is here now or was before, so one sync is for all of them. */
static int mark(const struct stage_large *g, const uint64_t *piece, uint32_t count, struct fb_error *e)
{
    const uint8_t one = 1;
    FB_TRY(file_sync_data(g->fd, e));
    for (uint32_t i = 0; i < count; i++)
        FB_TRY(file_write_all_at(g->marks_fd, &one, 1, sizeof(struct marks_head) + piece[i], e));
    return 0;
}

int stage_large_write(struct stage_large *g, uint64_t piece, const void *bytes, uint64_t n, struct fb_error *e)
{
    uint64_t ready[STAGE_MARKS_TOGETHER];
    uint32_t count = 0;
    FB_TRY(file_write_all_at(g->fd, bytes, n, piece * STAGE_PIECE, e));
    pthread_mutex_lock(&g->lock);
    g->written[g->writtens++] = piece;
    if (g->writtens == STAGE_MARKS_TOGETHER || clock_now_ns() - g->marked_ns > mark_every_ns) {
        memcpy(ready, g->written, sizeof(ready));
        count = g->writtens;
        g->writtens = 0;
        g->marked_ns = clock_now_ns();
    }
    pthread_mutex_unlock(&g->lock);
    return count ? mark(g, ready, count, e) : 0;
}

int stage_checksum(int fd, uint64_t size, uint64_t *sum, struct fb_error *e)
{
    char *piece = malloc(PIECE);
    struct checksum *c = checksum_open();
    int rc = piece && c ? 0 : error_set(e, FB_E_NOMEM, "stage", "no memory");
    uint64_t at = 0;
    for (size_t n = PIECE; rc == 0 && n == PIECE; at += n) {
        n = file_read_all_at(fd, piece, PIECE, at);
        if (n < PIECE && errno)
            rc = error_set_errno(e, "stage", errno, "read the copy");
        checksum_add(c, piece, n);
    }
    if (rc == 0 && at != size)
        rc = error_set(e, FB_E_IO, "stage", "the copy has another size than the file");
    *sum = c ? checksum_value(c) : 0;
    checksum_close(c);
    free(piece);
    return rc;
}

int stage_large_finish(struct stage_large *g, uint64_t size, int64_t mtime_ns, uint64_t *checksum, struct fb_error *e)
{
    char part[300], marks[300];
    FB_TRY(stage_checksum(g->fd, size, checksum, e));
    FB_TRY(file_set_time(g->fd, mtime_ns, "stage", e));
    FB_TRY(file_sync_data(g->fd, e));
    FB_TRY(put_in_place(g->parent_fd, with_ending(g, "part", part), g->last, e));
    unlinkat(g->parent_fd, with_ending(g, "marks", marks), 0);
    return 0;
}

void stage_large_close(struct stage_large *g)
{
    int fds[] = {g->fd, g->marks_fd, g->parent_fd};
    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&g->lock);
    free(g->is_done);
    g->is_done = NULL;
}
