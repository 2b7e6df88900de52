/* Reading the copy again, from the device where that can be asked for, and comparing with the checksums of what came from the source. A
 * file that differs is removed: the next --resume copies it anew. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file/file.h"
#include "base/file/safe_path.h"
#include "base/thread.h"
#include "jobs/stage/stage_internal.h"

enum { READERS = 4 };

struct verifier {
    struct stage_job *job;
    pthread_mutex_t lock;
    uint64_t next, done, bytes;
    bool is_stopped;
    int failed; /* why it stopped; 0: it did not, or was asked to */
};

static int checksum_file(int fd, uint64_t size, uint64_t *sum)
{
    file_sync_data(fd, NULL); /* pages that are not written cannot be dropped */
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    return stage_checksum(fd, size, sum, NULL);
}

/* 1: the copy is right; 0: it is not, and was removed; FB_E_NOMEM: who knows. */
static int compare(struct stage_job *j, const struct stage_item *item)
{
    const char *name = stage_name(&j->list, item->name), *last;
    struct fb_error unused;
    error_clear(&unused);
    uint64_t wanted, sum = 0;
    int parent = safe_path_open_parent(j->target_fd, name, &last, &unused);
    int fd = parent < 0 ? -1 : openat(parent, last, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool is_known = stage_log_find(&j->log, name, item->size, item->mtime_ns, &wanted);
    int rc = fd >= 0 && is_known ? checksum_file(fd, item->size, &sum) : FB_E_DATA;
    bool is_right = rc == 0 && sum == wanted;
    if (!is_right && fd >= 0 && rc != FB_E_NOMEM)
        unlinkat(parent, last, 0);
    if (fd >= 0)
        close(fd);
    if (parent >= 0)
        close(parent);
    return rc == FB_E_NOMEM ? rc : is_right;
}

static void *verify_main(void *arg)
{
    struct verifier *v = arg;
    struct stage_job *j = v->job;
    pthread_mutex_lock(&v->lock);
    while (!v->is_stopped && v->next < j->list.count) {
        const struct stage_item *item = stage_item(&j->list, v->next++);
        pthread_mutex_unlock(&v->lock);
        uint64_t unused;
        const char *name = stage_name(&j->list, item->name);
        bool is_staged = stage_log_find(&j->log, name, item->size, item->mtime_ns, &unused); /* what failed to be copied is told already */
        int right = is_staged ? compare(j, item) : 1;
        if (right == 0)
            stage_note(j, name, "the copy differs from what was read: removed");
        pthread_mutex_lock(&v->lock);
        j->out->verified += is_staged && right >= 0;
        j->out->damaged += right == 0;
        v->done += right >= 0;
        v->is_stopped |= right < 0;
        v->failed = right < 0 ? right : v->failed;
        v->bytes += item->size;
    }
    pthread_mutex_unlock(&v->lock);
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
    if (v.failed)
        return error_set(e, v.failed, "stage", "no memory to verify the copy");
    if (v.done < j->list.count)
        return error_set(e, FB_E_INTERRUPTED, "stage", "interrupted while the copy was verified");
    return 0;
}
