/* Merging segments into one, crash-safe: everything goes to a new file, which takes the old one's place by rename; only then the merged
 * segments are removed. Segments of living processes (flocked) are left alone. Each pass takes so many segments that their descriptors fit
 * into the smallest limits in use.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/round_up.h"
#include "model/learnt/learnt_format.h"

enum { SOURCES_AT_ONCE = 128 };

struct source {
    int fd;
    char name[64]; /* "" for the merged one */
};

struct pick {
    uint64_t key, offset;
    uint32_t source;
};

struct merge {
    int dir_fd, lock_fd;
    bool (*is_current)(void *ctx, uint64_t key, const struct learnt_identity *id);
    void *ctx;
    struct learnt_merged merged;
    struct source *source;
    uint32_t sources;
    bool has_more; /* segments than a pass takes */
    uint32_t removed;
    struct pick *pick;
    uint64_t picks, pick_capacity;
    struct scratch payload;
    FILE *out;
    uint64_t written, offset;
    struct learnt_entry *entry;
};

static int no_memory(struct fb_error *e)
{
    return error_set_errno(e, "dataset", ENOMEM, "merge what was learnt");
}

/* ---- collecting ---- */

static int add_pick(struct merge *m, uint64_t key, uint64_t offset, struct fb_error *e)
{
    if (m->picks == m->pick_capacity) {
        uint64_t capacity = m->pick_capacity ? 2 * m->pick_capacity : 4096;
        struct pick *more = realloc(m->pick, capacity * sizeof(*more));
        if (!more)
            return no_memory(e);
        m->pick = more;
        m->pick_capacity = capacity;
    }
    m->pick[m->picks] = (struct pick){key, offset, m->sources - 1};
    m->picks++;
    return 0;
}

static int add_source(struct merge *m, int fd, const char *name, struct fb_error *e)
{
    struct source *more = realloc(m->source, (m->sources + 1) * sizeof(*more));
    if (!more)
        return no_memory(e);
    m->source = more;
    m->source[m->sources].fd = fd;
    snprintf(m->source[m->sources++].name, sizeof(more->name), "%s", name);
    return 0;
}

static int collect_index(struct merge *m, int index, struct fb_error *e)
{
    struct learnt_entry entry[512];
    size_t count;
    for (uint64_t at = 0; (count = file_read_all_at(index, entry, sizeof(entry), at) / sizeof(entry[0])) > 0;) {
        for (size_t i = 0; i < count; i++)
            if (entry[i].key)
                FB_TRY(add_pick(m, entry[i].key, entry[i].offset, e));
        at += count * sizeof(entry[0]);
    }
    return 0;
}

static int add_segment(struct merge *m, int fd, int index, const char *name, struct fb_error *e)
{
    int rc = add_source(m, fd, name, e);
    if (rc < 0)
        close(fd);
    return rc < 0 || index < 0 ? rc : collect_index(m, index, e);
}

/* Opened for writing, because NFS makes a lock of the whole file of a flock, and gives an exclusive one only to who may write. A segment
 * whose index is there and cannot be opened, for want of descriptors, is left for the next time: merged without it, its records would be
 * lost. */
static int collect_segment(struct merge *m, const char *name, struct fb_error *e)
{
    char index_name[64];
    int fd = openat(m->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) { /* its process lives */
        close(fd);
        return 0;
    }
    snprintf(index_name, sizeof(index_name), "%.*s.idx", (int)strlen(name) - 4, name);
    int index = openat(m->dir_fd, index_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (index < 0 && errno != ENOENT) {
        close(fd);
        return 0;
    }
    int rc = add_segment(m, fd, index, name, e);
    if (index >= 0)
        close(index);
    return rc;
}

static int collect_merged(struct merge *m, struct fb_error *e)
{
    learnt_merged_open(&m->merged, m->dir_fd, NULL);
    if (m->merged.fd < 0)
        return 0;
    FB_TRY(add_source(m, m->merged.fd, "", e));
    for (uint64_t i = 0; i < m->merged.count; i++)
        FB_TRY(add_pick(m, m->merged.entry[i].key, m->merged.entry[i].offset, e));
    return 0;
}

static int collect(struct merge *m, struct fb_error *e)
{
    FB_TRY(collect_merged(m, e));
    int fd = openat(m->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d)
        return error_set_errno(e, "dataset", errno, "list what was learnt");
    int rc = 0;
    for (struct dirent *f; rc == 0 && (f = readdir(d));) {
        size_t n = strlen(f->d_name);
        m->has_more = m->sources > SOURCES_AT_ONCE;
        if (m->has_more)
            break;
        if (n > 8 && n < 60 && strncmp(f->d_name, "seg-", 4) == 0 && strcmp(f->d_name + n - 4, ".rec") == 0)
            rc = collect_segment(m, f->d_name, e);
    }
    closedir(d);
    return rc;
}

/* ---- writing ---- */

static int by_key(const void *a, const void *b)
{
    const struct pick *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->source != y->source ? (x->source < y->source ? -1 : 1) : x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int put(struct merge *m, const void *bytes, size_t n, struct fb_error *e)
{
    if (fwrite(bytes, 1, n, m->out) != n)
        return error_set_errno(e, "dataset", errno, "write the merged records");
    m->offset += n;
    return 0;
}

/* Length of a record that is whole and current, else 0. */
static size_t read_current(struct merge *m, const struct pick *p, struct learnt_record *head)
{
    bool is_stale;
    size_t n = learnt_read(m->source[p->source].fd, p->offset, p->key, NULL, head, &m->payload, &is_stale);
    struct learnt_identity id = {head->size, head->mtime_ns};
    return n > 0 && (!m->is_current || m->is_current(m->ctx, p->key, &id)) ? n : 0;
}

/* Of several records of one sample that of the newest file counts, and of those the longest, which knows most. */
static const struct pick *choose(struct merge *m, const struct pick *first, const struct pick *end_of_key)
{
    const struct pick *best = first;
    size_t most = 0;
    int64_t newest = 0;
    for (const struct pick *p = first; p < end_of_key; p++) {
        struct learnt_record head;
        size_t n = read_current(m, p, &head);
        if (n && (!most || head.mtime_ns > newest || (head.mtime_ns == newest && n > most))) {
            most = n;
            newest = head.mtime_ns;
            best = p;
        }
    }
    return best;
}

static int copy_record(struct merge *m, const struct pick *p, struct fb_error *e)
{
    static const char zeros[8];
    struct learnt_record head;
    size_t n = read_current(m, p, &head);
    if (n == 0)
        return 0;
    m->entry[m->written++] = (struct learnt_entry){p->key, m->offset};
    FB_TRY(put(m, &head, sizeof(head), e));
    FB_TRY(put(m, m->payload.data, n, e));
    return put(m, zeros, round_up(n, 8) - n, e);
}

static int copy_records(struct merge *m, struct fb_error *e)
{
    struct learnt_head head = {.magic = LEARNT_HEAD_MAGIC};
    FB_TRY(put(m, &head, sizeof(head), e));
    if (m->picks)
        qsort(m->pick, m->picks, sizeof(*m->pick), by_key);
    for (uint64_t i = 0; i < m->picks;) {
        uint64_t first = i, key = m->pick[i].key;
        while (i < m->picks && m->pick[i].key == key)
            i++;
        const struct pick *p = &m->pick[first];
        FB_TRY(copy_record(m, i - first > 1 ? choose(m, p, &m->pick[i]) : p, e));
    }
    struct learnt_foot foot = {m->offset, m->written, checksum_of(m->entry, m->written * sizeof(*m->entry)), LEARNT_FOOT_MAGIC};
    FB_TRY(put(m, m->entry, m->written * sizeof(*m->entry), e));
    return put(m, &foot, sizeof(foot), e);
}

static int publish(struct merge *m, const char *name, struct fb_error *e)
{
    if (fflush(m->out) != 0 || file_sync(fileno(m->out), NULL) < 0 || renameat(m->dir_fd, name, m->dir_fd, "merged") != 0 ||
        file_sync(m->dir_fd, NULL) < 0)
        return error_set_errno(e, "dataset", errno, "put the merged records in place");
    for (uint32_t i = 0; i < m->sources; i++)
        if (m->source[i].name[0]) {
            char index_name[64];
            snprintf(index_name, sizeof(index_name), "%.*s.idx", (int)strlen(m->source[i].name) - 4, m->source[i].name);
            m->removed += unlinkat(m->dir_fd, m->source[i].name, 0) == 0;
            unlinkat(m->dir_fd, index_name, 0);
        }
    return 0;
}

static const char part_name[] = "merged.part"; /* one merge at a time: the lock is held */

/* Before the sources, so that there is a descriptor for it. */
static int open_output(struct merge *m, struct fb_error *e)
{
    int fd = openat(m->dir_fd, part_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    m->out = fd >= 0 ? fdopen(fd, "wb") : NULL;
    if (m->out)
        return 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    return error_set_errno(e, "dataset", why, "write the merged records");
}

static int write_merged(struct merge *m, struct fb_error *e)
{
    m->entry = malloc((m->picks + 1) * sizeof(*m->entry));
    if (!m->entry)
        return no_memory(e);
    FB_TRY(copy_records(m, e));
    return publish(m, part_name, e);
}

static void end(struct merge *m)
{
    for (uint32_t i = 0; i < m->sources; i++)
        if (m->source[i].name[0])
            close(m->source[i].fd);
    learnt_merged_close(&m->merged);
    scratch_free(&m->payload);
    if (m->out)
        fclose(m->out);
    if (m->lock_fd >= 0)
        close(m->lock_fd);
    if (m->dir_fd >= 0)
        close(m->dir_fd);
    free(m->source);
    free(m->pick);
    free(m->entry);
}

/* 1: another process is at it. */
static int take_lock(struct merge *m, bool waits, struct fb_error *e)
{
    m->lock_fd = openat(m->dir_fd, "merge.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (m->lock_fd >= 0 && flock(m->lock_fd, waits ? LOCK_EX : LOCK_EX | LOCK_NB) == 0)
        return 0;
    return m->lock_fd >= 0 && !waits && errno == EWOULDBLOCK ? 1 : error_set_errno(e, "dataset", errno, "lock the learnt records");
}

static int run(struct merge *m, const char *dir, bool waits, struct fb_error *e)
{
    m->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (m->dir_fd < 0)
        return errno == ENOENT ? 0 : error_set_errno(e, "dataset", errno, "open the folder of learnt records"); /* nothing learnt yet */
    int rc = take_lock(m, waits, e);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    FB_TRY(open_output(m, e));
    rc = collect(m, e);
    if (rc == 0)
        rc = write_merged(m, e);
    if (rc < 0)
        unlinkat(m->dir_fd, part_name, 0);
    return rc;
}

static int merge_all(const char *dir, bool (*is_current)(void *ctx, uint64_t key, const struct learnt_identity *id), void *ctx, bool waits,
                     struct learnt_figures *f, struct fb_error *e)
{
    for (;;) {
        struct merge m = {.dir_fd = -1, .lock_fd = -1, .merged.fd = -1, .is_current = is_current, .ctx = ctx};
        int rc = run(&m, dir, waits, e);
        bool has_more = m.has_more && m.removed; /* or it would go on for ever */
        *f = (struct learnt_figures){.records = m.written, .bytes = m.offset};
        end(&m);
        if (rc < 0 || !has_more)
            return rc;
    }
}

int learnt_merge(const char *dir, bool (*is_current)(void *ctx, uint64_t key, const struct learnt_identity *id), void *ctx,
                 struct learnt_figures *f, struct fb_error *e)
{
    return merge_all(dir, is_current, ctx, true, f, e);
}

int learnt_merge_if_free(const char *dir, struct fb_error *e)
{
    struct learnt_figures f;
    return merge_all(dir, NULL, NULL, false, &f, e);
}
