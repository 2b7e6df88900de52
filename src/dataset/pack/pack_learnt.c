/* A record in the store belongs to a file by size and time; in the pack it belongs to a sample by number. So it gets the time of the pack
 * it is read from, whatever that is after copying. Large sections are not imported: opening must not take seconds. */
#include "dataset/pack/pack_learnt.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "model/learnt/learnt.h"

enum { MOST_BYTES = 64 << 20 };

static void marker_path(const struct archive *a, const char *dir, char *out, size_t out_size)
{
    uint64_t identity[2] = {a->size, (uint64_t)a->mtime_ns};
    snprintf(out, out_size, "%s/pack-%016llx", dir, (unsigned long long)checksum_of(identity, sizeof(identity)));
}

/* Whatever is there speaks of a pack that was at this path before; it would only stand in the way of what comes now. */
static void forget(const char *dir)
{
    DIR *d = opendir(dir);
    for (const struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_type == DT_REG && strcmp(entry->d_name, "merge.lock") != 0)
            unlinkat(dirfd(d), entry->d_name, 0);
    if (d)
        closedir(d);
}

static void put_all(struct learnt *l, const struct archive *a, const struct catalog *c, const char *bytes, uint64_t n)
{
    struct pack_learnt head;
    for (uint64_t at = 0; n - at >= sizeof(head);) {
        struct catalog_sample s;
        memcpy(&head, bytes + at, sizeof(head));
        at += sizeof(head);
        if (head.length > n - at || head.sample >= catalog_count(c) || catalog_sample(c, head.sample, &s, NULL) < 0)
            return;
        learnt_put(l, learnt_key(s.key), &(struct learnt_identity){s.length, a->mtime_ns}, bytes + at, head.length);
        at += head.length + (-head.length & 7);
        if (at > n)
            return;
    }
}

static void take_over(const struct archive *a, const struct catalog *c, const char *dir, const char *bytes, uint64_t n,
                      const struct log *log)
{
    struct budget budget = {0};
    struct learnt *l = NULL;
    atomic_store(&budget.limit, UINT64_C(1) << 30);
    forget(dir);
    learnt_open(&l, dir, &budget, log);
    if (!l)
        return;
    put_all(l, a, c, bytes, n);
    learnt_close(l);
    char marker[4200];
    marker_path(a, dir, marker, sizeof(marker));
    int fd = open(marker, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

void pack_learnt_import(const struct archive *a, const struct catalog *c, const char *learnt_dir, const struct log *log)
{
    struct pack_index x;
    struct stat st;
    char marker[4200];
    void *section;
    marker_path(a, learnt_dir, marker, sizeof(marker));
    if (stat(marker, &st) == 0)
        return;
    int fd = open(archive_place(a), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return;
    bool has_any = pack_index_open(&x, fd, a->size, a->path, NULL) == 1 && x.head.section[PACK_LEARNT].length > 0;
    uint64_t n = has_any ? x.head.section[PACK_LEARNT].length : 0;
    if (n > MOST_BYTES)
        log_line(log, LOG_INFO, "%s holds too many learnt records to import at start-up; run 'fullbore index --learn' to make them again",
                 a->path);
    if (has_any && n <= MOST_BYTES && pack_index_section(&x, fd, PACK_LEARNT, a->path, &section, NULL) == 0) {
        take_over(a, c, learnt_dir, section, n, log);
        free(section);
    }
    close(fd);
}
