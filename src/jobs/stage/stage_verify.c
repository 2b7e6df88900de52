/* Reading the copy again, from the device where that can be asked for, and comparing with the checksums of what came from the source. A
 * file that differs is removed: the next --resume copies it anew. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/safe_path.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/thread.h"
#include "jobs/stage/stage_internal.h"

enum { READERS = 4, BUFFER = 1 << 20 };

struct verifier {
    struct stage_job *job;
    pthread_mutex_t lock;
    uint64_t next, done, bytes;
    bool is_stopped;
};

static int checksum_file(int fd, uint64_t size, char *buffer, uint64_t *sum)
{
    fdatasync(fd); /* pages that are not written cannot be dropped */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    struct checksum *c = checksum_open();
    uint64_t at = 0;
    ssize_t n = 1;
    while (c && n > 0 && (n = read(fd, buffer, BUFFER)) > 0) {
        checksum_add(c, buffer, (size_t)n);
        at += (uint64_t)n;
    }
    *sum = c ? checksum_value(c) : 0;
    checksum_close(c);
    return c && n == 0 && at == size ? 0 : -1;
}

static bool is_right(struct stage_job *j, const struct stage_item *item, char *buffer)
{
    const char *name = stage_name(&j->list, item->name), *last;
    struct fb_error unused;
    error_clear(&unused);
    uint64_t wanted, sum = 0;
    int parent = safe_path_open_parent(j->target_fd, name, &last, &unused);
    int fd = parent < 0 ? -1 : openat(parent, last, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool is_known = stage_log_find(&j->log, name, item->size, item->mtime_ns, &wanted);
    bool right = fd >= 0 && is_known && checksum_file(fd, item->size, buffer, &sum) == 0 && sum == wanted;
    if (!right && fd >= 0)
        unlinkat(parent, last, 0);
    if (fd >= 0)
        close(fd);
    if (parent >= 0)
        close(parent);
    return right;
}

static void *verify_main(void *arg)
{
    struct verifier *v = arg;
    struct stage_job *j = v->job;
    char *buffer = malloc(BUFFER);
    pthread_mutex_lock(&v->lock);
    while (buffer && !v->is_stopped && v->next < j->list.count) {
        const struct stage_item *item = stage_item(&j->list, v->next++);
        pthread_mutex_unlock(&v->lock);
        uint64_t unused;
        const char *name = stage_name(&j->list, item->name);
        bool is_staged = stage_log_find(&j->log, name, item->size, item->mtime_ns, &unused); /* what failed to be copied is told already */
        bool right = is_staged && is_right(j, item, buffer);
        if (is_staged && !right)
            stage_note(j, name, "the copy differs from what was read: removed");
        pthread_mutex_lock(&v->lock);
        j->out->verified += is_staged;
        j->out->damaged += is_staged && !right;
        v->done++;
        v->bytes += item->size;
    }
    v->is_stopped |= !buffer;
    pthread_mutex_unlock(&v->lock);
    free(buffer);
    return NULL;
}

static void watch(struct verifier *v, uint64_t since_ns)
{
    struct stage_job *j = v->job;
    for (bool is_over = false; !is_over;) {
        clock_sleep_until_ns(clock_now_ns() + 20000000);
        bool is_interrupted = j->q->interrupted && j->q->interrupted(j->q->ctx);
        pthread_mutex_lock(&v->lock);
        v->is_stopped |= is_interrupted;
        struct stage_progress p = {v->done, j->list.count, v->bytes, j->list.bytes, (double)(clock_now_ns() - since_ns) / 1e9, true};
        is_over = v->is_stopped || v->done == j->list.count;
        pthread_mutex_unlock(&v->lock);
        if (j->q->progress)
            j->q->progress(j->q->ctx, &p);
    }
}

int stage_verify(struct stage_job *j, struct fb_error *e)
{
    struct verifier v = {.job = j};
    pthread_t thread[READERS];
    int started = 0;
    FB_TRY(stage_log_reload(&j->log, e));
    pthread_mutex_init(&v.lock, NULL);
    while (started < READERS && thread_start(&thread[started], "fb-verify", verify_main, &v, started ? NULL : e) == 0)
        started++;
    if (started)
        watch(&v, clock_now_ns());
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    pthread_mutex_destroy(&v.lock);
    if (!started)
        return FB_E_NOMEM;
    if (v.done < j->list.count)
        return error_set(e, FB_E_INTERRUPTED, "stage", "interrupted while the copy was verified");
    return 0;
}
