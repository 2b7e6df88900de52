#include "jobs/output/pack_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/text/text.h"
#include "dataset/pack/shards.h"

#define JOURNAL_MAGIC UINT64_C(0x32304C4E524A4266) /* "fBJRNL02" */
enum { NAME_BYTES = 512, RUN_LETTERS = 6, LONGEST_STEM = 200 };

struct journal_head {
    uint64_t magic;
    struct pack_question question;
    uint64_t checksum;
};

/* ---- names ---- */

static void final_name(const struct pack_files *f, uint32_t shard, char *out)
{
    if (f->is_sharded)
        snprintf(out, NAME_BYTES, "%s-%06u%s", f->stem, shard, f->extension);
    else
        snprintf(out, NAME_BYTES, "%s%s", f->stem, f->extension);
}

static void partial_name(const struct pack_files *f, uint32_t shard, char *out)
{
    char name[NAME_BYTES];
    final_name(f, shard, name);
    snprintf(out, NAME_BYTES, ".%.240s.%s.partial", name, f->run);
}

static void journal_name(const struct pack_files *f, const char *run, char *out)
{
    snprintf(out, NAME_BYTES, ".%s%s.%s.journal", f->stem, f->extension, run);
}

/* Is `name` PREFIX RUN SUFFIX? Copies RUN. */
static bool is_of_run(const char *name, const char *prefix, const char *suffix, char *run)
{
    size_t n = strlen(name), before = strlen(prefix), after = strlen(suffix);
    if (n != before + RUN_LETTERS + after || strncmp(name, prefix, before) != 0 || strcmp(name + n - after, suffix) != 0)
        return false;
    memcpy(run, name + before, RUN_LETTERS);
    run[RUN_LETTERS] = 0;
    return strspn(run, "abcdefghijklmnopqrstuvwxyz234567") == RUN_LETTERS;
}

void pack_files_name(const struct pack_files *f, uint32_t shards, char *out, size_t out_size)
{
    const char *slash = strrchr(f->path, '/');
    int folder = slash ? (int)(slash - f->path) + 1 : 0;
    if (!f->is_sharded)
        snprintf(out, out_size, "%s", f->path);
    else
        snprintf(out, out_size, "%.*s%s-{000000..%06u}%s", folder, f->path, f->stem, shards - 1, f->extension);
}

static void make_run(struct pack_files *f)
{
    uint8_t random[RUN_LETTERS];
    if (getrandom(random, sizeof(random), 0) != sizeof(random))
        memset(random, (int)getpid(), sizeof(random));
    for (int i = 0; i < RUN_LETTERS; i++)
        f->run[i] = "abcdefghijklmnopqrstuvwxyz234567"[random[i] % 32];
    f->run[RUN_LETTERS] = 0;
}

/* ---- opening ---- */

static int failed(const struct pack_files *f, const char *what, struct fb_error *e)
{
    int rc = error_set_errno(e, "pack", errno, "%s", what);
    error_at(e, f->path, -1);
    return rc;
}

int pack_files_open(struct pack_files *f, const char *path, const char *extension, bool is_sharded, bool overwrites, struct fb_error *e)
{
    *f = (struct pack_files){.dir_fd = -1, .journal_fd = -1, .extension = extension, .is_sharded = is_sharded, .overwrites = overwrites};
    const char *slash = strrchr(path, '/'), *last = text_last_part(path);
    size_t n = strlen(last), after = strlen(extension);
    if (n <= after || strcmp(last + n - after, extension) != 0 || n - after > LONGEST_STEM || last[0] == '.') {
        error_set(e, FB_E_USAGE, "pack", "the name of a pack must end in %s, must not begin with a dot, and must have at most %d letters",
                  extension, LONGEST_STEM);
        error_at(e, path, -1);
        return FB_E_USAGE;
    }
    char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    f->path = strdup(path);
    f->stem = strndup(last, n - after);
    if (dir && f->path && f->stem)
        f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        errno = ENOMEM;
    int rc = f->dir_fd < 0 ? failed(f, "open the folder of the pack", e) : 0;
    free(dir);
    return rc;
}

void pack_files_close(struct pack_files *f)
{
    if (f->journal_fd >= 0)
        close(f->journal_fd);
    if (f->dir_fd >= 0)
        close(f->dir_fd);
    free(f->path);
    free(f->stem);
    *f = (struct pack_files){.dir_fd = -1, .journal_fd = -1};
}

/* ---- what is there already ---- */

static int is_there(const struct pack_files *f, const char *name, struct fb_error *e)
{
    const char *slash = strrchr(f->path, '/');
    char path[NAME_BYTES + 4096];
    snprintf(path, sizeof(path), "%.*s%s", slash ? (int)(slash - f->path) + 1 : 0, f->path, name);
    error_set(e, FB_E_STATE, "pack", "the output already exists");
    error_remedy(e, "--force replaces it, at the end");
    error_at(e, path, -1);
    return FB_E_STATE;
}

/* The files that are the source: one, or the archives of a name with braces or wildcards. */
struct sources {
    struct identity {
        dev_t device;
        ino_t inode;
    } *file;
    size_t count;
};

static int by_identity(const void *a, const void *b)
{
    const struct identity *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static void add_source(struct sources *s, const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        s->file[s->count++] = (struct identity){st.st_dev, st.st_ino};
}

static int find_sources(struct sources *s, const char *source, struct fb_error *e)
{
    struct shards names = {0};
    struct stat st;
    bool is_several = source && stat(source, &st) < 0 && !strstr(source, "://") && shards_is_name(source) && shards_is_several(source);
    if (is_several)
        FB_TRY(shards_expand(&names, source, e));
    s->file = calloc((size_t)names.count + 1, sizeof(*s->file));
    if (!s->file) {
        shards_free(&names);
        return error_set(e, FB_E_NOMEM, "pack", "no memory");
    }
    for (uint32_t i = 0; i < names.count; i++)
        add_source(s, names.path[i]);
    if (source && !is_several)
        add_source(s, source);
    qsort(s->file, s->count, sizeof(*s->file), by_identity);
    shards_free(&names);
    return 0;
}

static int refuse_name(const char *name, const char *cause, struct fb_error *e)
{
    error_set(e, FB_E_USAGE, "pack", "%s", cause);
    error_remedy(e, "give the output another name");
    error_at(e, name, -1);
    return FB_E_USAGE;
}

/* `name` is one that the run will give. */
static int check_name(const struct pack_files *f, const char *name, const struct sources *s, struct fb_error *e)
{
    struct stat st, itself;
    if (fstatat(f->dir_fd, name, &itself, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISDIR(itself.st_mode))
        return refuse_name(name, "the output must be a file, but is a folder", e);
    if (fstatat(f->dir_fd, name, &st, 0) < 0)
        st = itself;
    if (bsearch(&(struct identity){st.st_dev, st.st_ino}, s->file, s->count, sizeof(*s->file), by_identity))
        return refuse_name(name, "a source is never written to", e);
    return f->overwrites ? 0 : is_there(f, name, e);
}

/* STEM-NUMBER.EXTENSION, the number having six digits or more. */
static bool is_shard(const struct pack_files *f, const char *name)
{
    size_t n = strlen(f->stem);
    if (strncmp(name, f->stem, n) != 0 || name[n] != '-')
        return false;
    size_t digits = strspn(name + n + 1, "0123456789");
    return digits >= 6 && strcmp(name + n + 1 + digits, f->extension) == 0;
}

/* How many shards there will be is not known yet, so none may be there: a wildcard would take in the old ones. */
static int check_shards(const struct pack_files *f, const struct sources *s, struct fb_error *e)
{
    int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return failed(f, "read the folder of the pack", e);
    for (const struct dirent *entry; rc == 0 && (entry = readdir(d));)
        if (is_shard(f, entry->d_name))
            rc = check_name(f, entry->d_name, s, e);
    closedir(d);
    return rc;
}

static int check_all(const struct pack_files *f, const struct sources *s, const char *const *beside, struct fb_error *e)
{
    char name[NAME_BYTES];
    final_name(f, 0, name);
    FB_TRY(f->is_sharded ? check_shards(f, s, e) : check_name(f, name, s, e));
    for (; beside && *beside; beside++) {
        snprintf(name, sizeof(name), "%s%s", f->stem, *beside);
        FB_TRY(check_name(f, name, s, e));
    }
    return 0;
}

int pack_files_check(const struct pack_files *f, const char *source, const char *const *beside, struct fb_error *e)
{
    struct sources s = {0};
    int rc = find_sources(&s, source, e);
    if (rc == 0)
        rc = check_all(f, &s, beside, e);
    free(s.file);
    return rc;
}

int pack_files_shard(struct pack_files *f, uint32_t shard, struct fb_error *e)
{
    char name[NAME_BYTES];
    partial_name(f, shard, name);
    int fd = openat(f->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    return fd < 0 ? failed(f, "make a file for the pack", e) : fd;
}

/* ---- journal ---- */

int pack_files_start(struct pack_files *f, const struct pack_question *q, struct fb_error *e)
{
    char name[NAME_BYTES];
    struct journal_head head = {JOURNAL_MAGIC, *q, 0};
    head.checksum = checksum_of(&head, offsetof(struct journal_head, checksum));
    for (int tries = 0; f->journal_fd < 0 && tries < 100; tries++) {
        make_run(f);
        journal_name(f, f->run, name);
        f->journal_fd = openat(f->dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (f->journal_fd < 0 && errno != EEXIST)
            break;
    }
    if (f->journal_fd < 0)
        return failed(f, "make a file beside the pack", e);
    flock(f->journal_fd, LOCK_EX | LOCK_NB); /* where locks do not work, two resumes at once are up to the user */
    return file_write_all(f->journal_fd, &head, sizeof(head), e);
}

int pack_files_note(struct pack_files *f, struct pack_entry *entry, struct fb_error *e)
{
    entry->entry_checksum = checksum_of(entry, offsetof(struct pack_entry, entry_checksum));
    return file_write_all(f->journal_fd, entry, sizeof(*entry), e);
}

int pack_files_cut(struct pack_files *f, uint64_t count, struct fb_error *e)
{
    off_t end = (off_t)(sizeof(struct journal_head) + count * sizeof(struct pack_entry));
    return ftruncate(f->journal_fd, end) < 0 || lseek(f->journal_fd, end, SEEK_SET) != end ? failed(f, "cut the journal", e) : 0;
}

static bool asks_the_same(const struct journal_head *h, const struct pack_question *q)
{
    return h->magic == JOURNAL_MAGIC && h->checksum == checksum_of(h, offsetof(struct journal_head, checksum)) &&
           memcmp(&h->question, q, sizeof(*q)) == 0;
}

/* The sound entries at the journal's beginning. */
static int read_entries(int fd, struct pack_entry **entries, uint64_t *count, struct fb_error *e)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_set_errno(e, "pack", errno, "look at the journal");
    uint64_t n = ((uint64_t)st.st_size - sizeof(struct journal_head)) / sizeof(struct pack_entry);
    struct pack_entry *all = malloc((n + 1) * sizeof(*all));
    if (!all)
        return error_set(e, FB_E_NOMEM, "pack", "no memory for the journal");
    uint64_t got = 0;
    for (; got < n; got++) {
        uint64_t at = sizeof(struct journal_head) + got * sizeof(*all);
        if (file_read_all_at(fd, &all[got], sizeof(*all), at) != sizeof(*all) ||
            all[got].entry_checksum != checksum_of(&all[got], offsetof(struct pack_entry, entry_checksum)))
            break;
    }
    *entries = all;
    *count = got;
    return 1;
}

static int try_journal(struct pack_files *f, const char *name, const struct pack_question *q, struct pack_entry **entries, uint64_t *count,
                       struct fb_error *e)
{
    struct journal_head head;
    int fd = openat(f->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return 0;
    bool fits =
        flock(fd, LOCK_EX | LOCK_NB) == 0 && file_read_all_at(fd, &head, sizeof(head), 0) == sizeof(head) && asks_the_same(&head, q);
    int rc = fits ? read_entries(fd, entries, count, e) : 0;
    if (rc != 1)
        close(fd);
    else
        f->journal_fd = fd;
    return rc;
}

int pack_files_resume(struct pack_files *f, const struct pack_question *q, struct pack_entry **entries, uint64_t *count, struct fb_error *e)
{
    char prefix[NAME_BYTES], run[8];
    snprintf(prefix, sizeof(prefix), ".%s%s.", f->stem, f->extension);
    int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d)
        return failed(f, "read the folder of the pack", e);
    for (const struct dirent *entry; rc == 0 && (entry = readdir(d));) {
        if (!is_of_run(entry->d_name, prefix, ".journal", run))
            continue;
        rc = try_journal(f, entry->d_name, q, entries, count, e);
        if (rc == 1)
            memcpy(f->run, run, sizeof(run));
    }
    closedir(d);
    return rc;
}

/* ---- the end ---- */

static void remove_run(const struct pack_files *f, const char *run)
{
    char suffix[32];
    snprintf(suffix, sizeof(suffix), ".%s.partial", run);
    int fd = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    char prefix[NAME_BYTES], name[NAME_BYTES];
    snprintf(prefix, sizeof(prefix), ".%s", f->stem);
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);
        if (n > strlen(suffix) && strcmp(entry->d_name + n - strlen(suffix), suffix) == 0 &&
            strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            unlinkat(f->dir_fd, entry->d_name, 0);
    }
    if (d)
        closedir(d);
    journal_name(f, run, name);
    unlinkat(f->dir_fd, name, 0);
}

void pack_files_drop(struct pack_files *f)
{
    if (f->journal_fd >= 0)
        remove_run(f, f->run);
}

/* Runs that nobody holds: they were killed. */
static void remove_dead_runs(const struct pack_files *f)
{
    char prefix[NAME_BYTES], run[8];
    snprintf(prefix, sizeof(prefix), ".%s%s.", f->stem, f->extension);
    int dir = openat(f->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = dir < 0 ? NULL : fdopendir(dir);
    for (const struct dirent *entry; d && (entry = readdir(d));) {
        if (!is_of_run(entry->d_name, prefix, ".journal", run))
            continue;
        int fd = openat(f->dir_fd, entry->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_run(f, run);
        if (fd >= 0)
            close(fd);
    }
    if (d)
        closedir(d);
}

static void warn_of_more(const struct pack_files *f, uint32_t shards, const struct log *log)
{
    char next[NAME_BYTES];
    struct stat st;
    final_name(f, shards, next);
    if (f->is_sharded && fstatat(f->dir_fd, next, &st, AT_SYMLINK_NOFOLLOW) == 0)
        log_line(log, LOG_WARN, "%s is left over from an earlier, larger set: a wildcard would match it", next);
}

/* Where a rename cannot be told to replace nothing (EINVAL), a moment is left between looking and renaming. */
int pack_files_rename(const struct pack_files *f, const char *from, const char *to, struct fb_error *e)
{
    struct stat st;
    if (!f->overwrites) {
        if (syscall(SYS_renameat2, f->dir_fd, from, f->dir_fd, to, 1u /* RENAME_NOREPLACE */) == 0)
            return 0;
        if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
            return failed(f, "rename the pack into its place", e);
        if (errno == EEXIST || fstatat(f->dir_fd, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
            return is_there(f, to, e);
    }
    return renameat(f->dir_fd, from, f->dir_fd, to) < 0 ? failed(f, "rename the pack into its place", e) : 0;
}

int pack_files_place(struct pack_files *f, uint32_t shards, struct fb_error *e)
{
    char from[NAME_BYTES], to[NAME_BYTES];
    for (uint32_t i = shards; i-- > 0;) {
        partial_name(f, i, from);
        final_name(f, i, to);
        FB_TRY(pack_files_rename(f, from, to, e));
    }
    return file_sync(f->dir_fd, NULL) < 0 ? failed(f, "sync the folder of the pack", e) : 0;
}

void pack_files_clean(struct pack_files *f, uint32_t shards, const struct log *log)
{
    char name[NAME_BYTES];
    journal_name(f, f->run, name);
    unlinkat(f->dir_fd, name, 0);
    remove_dead_runs(f);
    warn_of_more(f, shards, log);
}
