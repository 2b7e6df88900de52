/* The store at work: find, append.
 *
 * Every run that learns leaves a segment, so there may be hundreds. A few stay open; of the others the names are known, and they are opened
 * for each record, which costs two system calls more. From MERGE_FROM segments on they are merged when the store is opened, if that takes a
 * moment only.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/file/file_owner.h"
#include "base/round_up.h"
#include "base/text/text.h"
#include "model/learnt/learnt_format.h"

enum { MOST_SEGMENTS = 1024, MOST_OPEN = 32, MERGE_FROM = 64, MERGE_MOST_BYTES = 256 << 20, MOST_TRIES = 8 };

struct segment {
    int fd;     /* -1: it is opened when it is read */
    char *name; /* NULL: ours */
};

struct learnt {
    struct log log;
    int dir_fd;
    pthread_mutex_t lock;
    /* under lock */
    struct learnt_merged merged;
    struct learnt_table table;             /* of the segments */
    struct segment segment[MOST_SEGMENTS]; /* the own one among them; those that are there do not change */
    uint32_t segments, others;             /* others: found at open, whether there was room for them or not */
    int own, own_index;                    /* segment number of ours, -1: none yet; descriptor of its .idx */
    char own_name[64];                     /* of its .rec */
    uint64_t own_end, own_entries;         /* bytes and index entries that are whole */
    bool is_readonly;
    char *line; /* a record being put together */
    size_t line_capacity;
    struct learnt_figures figures;
};

/* ---- reading other processes' segments ---- */

/* Takes in what an index names; entries are claims, verified when a record is read. */
static void read_index(struct learnt *l, int fd, uint32_t segment)
{
    struct learnt_entry entry[512];
    size_t count;
    for (uint64_t at = 0; (count = file_read_all_at(fd, entry, sizeof(entry), at) / sizeof(entry[0])) > 0;) {
        for (size_t i = 0; i < count; i++)
            if (entry[i].key)
                learnt_table_set(&l->table, entry[i].key, segment, entry[i].offset);
        at += count * sizeof(entry[0]);
    }
}

static void open_segment(struct learnt *l, const char *name)
{
    char index_name[300];
    size_t stem = strlen(name) - 4;
    struct stat st;
    l->others++;
    snprintf(index_name, sizeof(index_name), "%.*s.idx", (int)stem, name);
    int index = l->segments < MOST_SEGMENTS - 1 ? openat(l->dir_fd, index_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (index < 0)
        return;
    struct segment s = {-1, strdup(name)};
    if (l->segments < MOST_OPEN)
        s.fd = openat(l->dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (s.name) {
        l->segment[l->segments] = s;
        read_index(l, index, l->segments++);
        l->figures.bytes += fstatat(l->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_size : 0;
    }
    close(index);
}

static void open_segments(struct learnt *l)
{
    int fd = openat(l->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
    if (!d)
        return;
    for (struct dirent *e; (e = readdir(d));) {
        size_t n = strlen(e->d_name);
        if (n > 8 && n < 256 && strncmp(e->d_name, "seg-", 4) == 0 && strcmp(e->d_name + n - 4, ".rec") == 0)
            open_segment(l, e->d_name);
    }
    closedir(d);
}

static int make_dirs(const char *dir)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%s", dir);
    if (n < 0 || (size_t)n >= sizeof(path))
        return -1;
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0700);
            *p = '/';
        }
    return mkdir(path, 0700);
}

static void close_segments(struct learnt *l)
{
    for (uint32_t i = 0; i < l->segments; i++) {
        if (l->segment[i].fd >= 0)
            close(l->segment[i].fd);
        free(l->segment[i].name);
    }
    l->segments = l->others = 0;
    learnt_merged_close(&l->merged);
    learnt_table_free(&l->table);
}

static void take_in(struct learnt *l)
{
    learnt_merged_open(&l->merged, l->dir_fd, l->table.budget);
    l->figures.bytes = l->merged.bytes;
    open_segments(l);
}

/* Segments that living processes append to stay, so there may still be many; the next start tries again. */
static void tidy(struct learnt *l, const char *dir)
{
    if (l->others < MERGE_FROM || l->figures.bytes > MERGE_MOST_BYTES)
        return;
    close_segments(l);
    learnt_merge_if_free(dir, NULL);
    take_in(l);
}

/* -1: there is none that may be used, which is said. */
static int open_folder(const char *dir, const struct log *log)
{
    char path[512];
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *why = fd >= 0 && fstat(fd, &st) == 0 ? owner_distrust(&st) : NULL;
    if (fd < 0)
        log_line(log, LOG_INFO, "nothing learnt is kept: %s cannot be used", text_escape(dir, path, sizeof(path)));
    if (!why)
        return fd;
    log_line(log, LOG_WARN, "nothing learnt is kept in %s: %s", text_escape(dir, path, sizeof(path)), why);
    close(fd);
    return -1;
}

void learnt_open(struct learnt **out, const char *dir, struct budget *budget, const struct log *log)
{
    *out = NULL;
    struct learnt *l = calloc(1, sizeof(*l));
    if (!l)
        return;
    make_dirs(dir);
    l->log = *log;
    l->dir_fd = open_folder(dir, log);
    if (l->dir_fd < 0) {
        free(l);
        return;
    }
    pthread_mutex_init(&l->lock, NULL);
    l->table.budget = budget;
    l->own = l->own_index = -1;
    take_in(l);
    tidy(l, dir);
    *out = l;
}

void learnt_close(struct learnt *l)
{
    if (!l)
        return;
    close_segments(l);
    if (l->own_index >= 0)
        close(l->own_index);
    close(l->dir_fd);
    pthread_mutex_destroy(&l->lock);
    free(l->line);
    free(l);
}

/* ---- get ---- */

/* Where to look: a segment's record is newer than the merged one. */
static bool find(struct learnt *l, uint64_t key, bool from_merged, struct segment *where, uint64_t *offset)
{
    const struct learnt_spot *s = from_merged ? NULL : learnt_table_find(&l->table, key);
    if (from_merged) {
        *where = (struct segment){l->merged.fd, NULL};
        *offset = l->merged.fd >= 0 ? learnt_merged_find(&l->merged, key) : 0;
        return *offset != 0;
    }
    if (!s)
        return false;
    *where = l->segment[s->segment];
    *offset = s->offset;
    return true;
}

/* Descriptors and names live as long as the store. */
static size_t read_from(const struct learnt *l, const struct segment *where, uint64_t offset, uint64_t key,
                        const struct learnt_identity *id, struct scratch *out, bool *is_stale)
{
    struct learnt_record head;
    if (where->fd >= 0)
        return learnt_read(where->fd, offset, key, id, &head, out, is_stale);
    int fd = where->name ? openat(l->dir_fd, where->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    size_t n = fd < 0 ? 0 : learnt_read(fd, offset, key, id, &head, out, is_stale);
    if (fd >= 0)
        close(fd);
    return n;
}

size_t learnt_get(struct learnt *l, uint64_t key, const struct learnt_identity *id, struct scratch *out)
{
    bool is_stale = false;
    size_t n = 0;
    for (int from_merged = 0; from_merged <= 1 && n == 0; from_merged++) {
        struct segment where;
        uint64_t offset;
        pthread_mutex_lock(&l->lock);
        bool is_there = find(l, key, from_merged, &where, &offset);
        pthread_mutex_unlock(&l->lock);
        if (is_there)
            n = read_from(l, &where, offset, key, id, out, &is_stale);
    }
    pthread_mutex_lock(&l->lock);
    l->figures.found += n > 0;
    l->figures.stale += n == 0 && is_stale;
    l->figures.missed += n == 0 && !is_stale;
    pthread_mutex_unlock(&l->lock);
    return n;
}

/* ---- put; the lock is held ---- */

static void stop_writing(struct learnt *l, const char *what)
{
    char reason[128];
    l->is_readonly = true;
    log_line(&l->log, LOG_WARN, "nothing more is learnt in this run: cannot %s: %s", what, text_errno(errno, reason, sizeof(reason)));
}

/* Of the segment called `name`, the .rec and the .idx. */
static void remove_segment(const struct learnt *l, const char *name)
{
    char index_name[64];
    snprintf(index_name, sizeof(index_name), "%.*s.idx", (int)strlen(name) - 4, name);
    unlinkat(l->dir_fd, name, 0);
    unlinkat(l->dir_fd, index_name, 0);
}

/* What did not get in as a whole is taken out again. */
static void cut_back(struct learnt *l)
{
    int why = errno;
    if (l->own_entries == 0)
        remove_segment(l, l->own_name);
    bool is_cut = ftruncate(l->segment[l->own].fd, (off_t)l->own_end) == 0;
    is_cut &= ftruncate(l->own_index, (off_t)(l->own_entries * sizeof(struct learnt_entry))) == 0;
    (void)is_cut; /* if not: a torn tail is ignored by all who read it */
    errno = why;
}

/* A new .rec, locked, because a merge leaves living segments alone. Between making it and locking it a merge may have taken it for a dead
 * one and removed it: then there is another. Where there are no locks there are no merges. */
static int make_segment(const struct learnt *l, char name[64])
{
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        uint64_t random;
        struct stat st;
        if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
            random = (uint64_t)getpid() + (uint64_t)tries;
        snprintf(name, 64, "seg-%d-%016llx.rec", (int)getpid(), (unsigned long long)random);
        int fd = openat(l->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return -1;
        bool is_taken = flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (!is_taken && fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        close(fd);
    }
    errno = EAGAIN;
    return -1;
}

static bool start_segment(struct learnt *l)
{
    char name[64], index_name[64];
    int fd = make_segment(l, name);
    if (fd < 0)
        return false;
    snprintf(index_name, sizeof(index_name), "%.*s.idx", (int)strlen(name) - 4, name);
    l->own_index = openat(l->dir_fd, index_name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct learnt_head head = {.magic = LEARNT_HEAD_MAGIC};
    if (l->own_index < 0 || file_write_all(fd, &head, sizeof(head), NULL) < 0) {
        int why = errno;
        remove_segment(l, name);
        close(fd);
        errno = why;
        return false;
    }
    memcpy(l->own_name, name, sizeof(name));
    l->own = (int)l->segments;
    l->segment[l->segments++] = (struct segment){fd, NULL};
    l->own_end = sizeof(head);
    return true;
}

static char *compose(struct learnt *l, const struct learnt_record *head, const void *record, size_t total)
{
    if (total > l->line_capacity) {
        char *more = realloc(l->line, total);
        if (!more)
            return NULL;
        l->line = more;
        l->line_capacity = total;
    }
    memset(l->line + total - 8, 0, 8);
    memcpy(l->line, head, sizeof(*head));
    memcpy(l->line + sizeof(*head), record, head->length);
    return l->line;
}

static void append(struct learnt *l, const struct learnt_record *head, const void *record)
{
    size_t total = sizeof(*head) + round_up(head->length, 8);
    struct learnt_entry entry = {head->key, l->own_end};
    const char *line = compose(l, head, record, total);
    if (!line || file_write_all_at(l->segment[l->own].fd, line, total, l->own_end, NULL) < 0 ||
        file_write_all(l->own_index, &entry, sizeof(entry), NULL) < 0) {
        cut_back(l);
        stop_writing(l, "write what was learnt");
        return;
    }
    learnt_table_set(&l->table, head->key, (uint32_t)l->own, l->own_end);
    l->own_end += total;
    l->own_entries++;
    l->figures.written++;
    l->figures.bytes += total;
}

void learnt_put(struct learnt *l, uint64_t key, const struct learnt_identity *id, const void *record, size_t n)
{
    if (n == 0 || n > LEARNT_MAX_RECORD)
        return;
    struct learnt_record head = {LEARNT_RECORD_MAGIC, (uint32_t)n, key, id->size, id->mtime_ns, 0};
    head.checksum = learnt_checksum(&head, record);
    pthread_mutex_lock(&l->lock);
    if (!l->is_readonly && l->own < 0 && !start_segment(l))
        stop_writing(l, "start a segment");
    if (!l->is_readonly)
        append(l, &head, record);
    pthread_mutex_unlock(&l->lock);
}

void learnt_read_figures(struct learnt *l, struct learnt_figures *f)
{
    pthread_mutex_lock(&l->lock);
    *f = l->figures;
    f->records = l->table.count + l->merged.count;
    pthread_mutex_unlock(&l->lock);
}
