/* What a target holds and where it came from: .fullbore-stage in it.
 *
 *     "FBSTAGE1", checksum of the source's name | one record per file: checksum of its name, its size, its time, checksum of its bytes
 *
 * Records are appended after their files have their names, a few at once, so files without a record are copied again. On a disk,
 * everything is brought to it before each such group (syncfs): after a power cut, a record must not speak of a file whose bytes never
 * arrived, because only size and time are looked at. One sync for some seconds of files costs next to nothing; one for each file would
 * halve the rate. The later of two records counts. Where a source changed its size or time, the record does not fit any more and the file
 * is copied again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/file/file.h"
#include "base/rng.h"
#include "jobs/stage/stage_internal.h"

static const char log_name[] = STAGE_LOG_NAME;
enum { TOGETHER = 64 }; /* records that are written at once; a run that is killed copies those files again */
static const uint64_t written_every_ns = 100000000;
enum { TOGETHER_SYNCED = 1 << 14 };
static const uint64_t synced_every_ns = 2000000000;

struct log_head {
    char magic[8];
    uint64_t source;
};

struct log_record {
    uint64_t key, size;
    int64_t mtime_ns;
    uint64_t checksum;
    uint64_t seal; /* of the record: a torn or flipped one is not there */
};

static uint64_t seal_of(const struct log_record *r)
{
    return rng_mix(checksum_of(r, offsetof(struct log_record, seal)), 1);
}

static uint64_t key_of(const char *name)
{
    return checksum_of(name, strlen(name));
}

/* Later records of a key come first, because sorting by place is stable that way. */
struct placed {
    struct log_record r;
    uint64_t place;
};

static int by_key(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    if (x->r.key != y->r.key)
        return x->r.key < y->r.key ? -1 : 1;
    return x->place > y->place ? -1 : x->place < y->place;
}

static int failed(struct fb_error *e, const char *doing)
{
    int rc = error_set_errno(e, "stage", errno, "%s", doing);
    error_at(e, log_name, -1);
    return rc;
}

int stage_log_reload(struct stage_log *l, struct fb_error *e)
{
    struct log_record r[512];
    text_free(&l->records);
    l->records = (struct text){.limit = SIZE_MAX / 2};
    l->count = 0;
    uint64_t at = sizeof(struct log_head);
    for (;;) {
        size_t n = file_read_all_at(l->fd, r, sizeof(r), at);
        if (n < sizeof(r) && errno)
            return failed(e, "read what is staged already");
        for (size_t i = 0; i < n / sizeof(*r); i++) {
            struct placed p = {r[i], at + i};
            if (seal_of(&r[i]) == r[i].seal) {
                text_append(&l->records, (const char *)&p, sizeof(p));
                l->count++;
            }
        }
        if (n < sizeof(r))
            break;
        at += sizeof(r);
    }
    if (l->records.failed)
        return error_set(e, FB_E_NOMEM, "stage", "no memory");
    if (l->count)
        qsort(l->records.data, l->count, sizeof(struct placed), by_key);
    return 0;
}

static int refuse(struct fb_error *e, const struct stage_request *q, const char *cause, const char *remedy)
{
    error_set(e, FB_E_USAGE, "stage", "%s", cause);
    error_remedy(e, "%s", remedy);
    error_at(e, q->target, -1);
    return FB_E_USAGE;
}

static uint64_t source_key(const struct stage_request *q)
{
    char *real = realpath(q->source, NULL);
    uint64_t key = key_of(real ? real : q->source);
    free(real);
    return key;
}

static int begin(struct stage_log *l, int target_fd, const struct stage_request *q, struct fb_error *e)
{
    if (!file_folder_is_empty(target_fd))
        return refuse(e, q, "the target is not empty, and was not made by staging", "stage into a new folder");
    if (q->is_dry)
        return 0;
    struct log_head h = {.source = source_key(q)};
    memcpy(h.magic, "FBSTAGE1", 8);
    l->fd = openat(target_fd, log_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (l->fd < 0)
        return failed(e, "write into the target");
    return file_write_all_at(l->fd, &h, sizeof(h), 0, e);
}

static int go_on(struct stage_log *l, const struct stage_request *q, struct fb_error *e)
{
    struct log_head h = {0};
    if (file_read_all_at(l->fd, &h, sizeof(h), 0) != sizeof(h) || memcmp(h.magic, "FBSTAGE1", 8) != 0)
        return refuse(e, q, "the target's .fullbore-stage file is corrupt", "remove the target, or stage into a new folder");
    if (h.source != source_key(q))
        return refuse(e, q, "the target holds a copy of another source", "stage into a new folder");
    if (!q->resumes)
        return refuse(e, q, "the target was staged before", "use --resume to continue it or bring it up to date");
    return stage_log_reload(l, e);
}

int stage_log_open(struct stage_log *l, int target_fd, const struct stage_request *q, struct fb_error *e)
{
    *l = (struct stage_log){.fd = openat(target_fd, log_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW)};
    pthread_mutex_init(&l->lock, NULL);
    if (l->fd < 0 && errno != ENOENT)
        return failed(e, "read what is staged already");
    int rc = l->fd < 0 ? begin(l, target_fd, q, e) : go_on(l, q, e);
    if (rc == 0 && l->fd >= 0 && flock(l->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        rc = error_set(e, FB_E_STATE, "stage", "another process is staging into this folder");
    return rc;
}

bool stage_log_find(const struct stage_log *l, const char *name, uint64_t size, int64_t mtime_ns, uint64_t *checksum)
{
    uint64_t key = key_of(name), low = 0, high = l->count;
    const struct placed *p = (const struct placed *)(const void *)l->records.data;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (p[middle].r.key < key)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == l->count || p[low].r.key != key || p[low].r.size != size || p[low].r.mtime_ns != mtime_ns)
        return false;
    *checksum = p[low].r.checksum;
    return true;
}

static int append(struct stage_log *l, const struct text *records, struct fb_error *e)
{
    if (l->must_sync && syncfs(l->fd) < 0)
        return failed(e, "write everything to the disk");
    off_t end = lseek(l->fd, 0, SEEK_END);
    uint64_t torn = end < 0 ? 0 : ((uint64_t)end - sizeof(struct log_head)) % sizeof(struct log_record);
    return end < 0 ? failed(e, "write into the target") : file_write_all_at(l->fd, records->data, records->length, (uint64_t)end - torn, e);
}

/* Under the lock, which is given up meanwhile: a sync takes its time, and the others go on. */
static int flush(struct stage_log *l, struct fb_error *e)
{
    if (!l->waiting.length || l->is_writing)
        return 0;
    struct text records = l->waiting;
    l->waiting = (struct text){0};
    l->is_writing = true;
    pthread_mutex_unlock(&l->lock);
    int rc = append(l, &records, e);
    text_free(&records);
    pthread_mutex_lock(&l->lock);
    l->is_writing = false;
    l->written_ns = clock_now_ns();
    return rc;
}

static bool is_due(const struct stage_log *l)
{
    uint64_t together = l->must_sync ? TOGETHER_SYNCED : TOGETHER, every = l->must_sync ? synced_every_ns : written_every_ns;
    return l->waiting.length >= together * sizeof(struct log_record) || clock_now_ns() - l->written_ns > every;
}

int stage_log_add(struct stage_log *l, const char *name, uint64_t size, int64_t mtime_ns, uint64_t checksum, struct fb_error *e)
{
    struct log_record r = {key_of(name), size, mtime_ns, checksum, 0};
    r.seal = seal_of(&r);
    pthread_mutex_lock(&l->lock);
    l->waiting.limit = SIZE_MAX / 2;
    text_append(&l->waiting, (const char *)&r, sizeof(r));
    int rc = l->waiting.failed ? error_set(e, FB_E_NOMEM, "stage", "no memory") : is_due(l) ? flush(l, e) : 0;
    pthread_mutex_unlock(&l->lock);
    return rc;
}

int stage_log_flush(struct stage_log *l, struct fb_error *e)
{
    pthread_mutex_lock(&l->lock);
    int rc = flush(l, e);
    pthread_mutex_unlock(&l->lock);
    return rc;
}

void stage_log_close(struct stage_log *l)
{
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    text_free(&l->records);
    text_free(&l->waiting);
    pthread_mutex_destroy(&l->lock);
}
