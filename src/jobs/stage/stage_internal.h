/* What the files of the stage job share. stage.c leads; stage_list.c, stage_keys.c and stage_walk.c say what there is; stage_fit.c
 * whether it fits; stage_log.c what is done already; stage_copy.c moves bytes; stage_write.c puts them in place; stage_verify.c reads
 * them again. */
#ifndef FB_JOBS_STAGE_STAGE_INTERNAL_H
#define FB_JOBS_STAGE_STAGE_INTERNAL_H

#include <pthread.h>

#include "base/file/safe_path.h"
#include "base/text/text.h"
#include "dataset/dataset.h"
#include "jobs/stage.h"
#include "model/io_ops.h"

#define STAGE_LOG_NAME ".fullbore-stage"
enum { STAGE_PIECE = 8 << 20, STAGE_NAMED = 1000, STAGE_MARKS_TOGETHER = 8 };

/* A file to make. */
struct stage_item {
    uint64_t name;           /* its path in the target, in stage_list.names */
    uint64_t object;         /* what to read, in stage_list.names */
    uint64_t offset, length; /* IO_WHOLE: all of it */
    uint64_t size;           /* bytes to expect */
    uint64_t object_size;    /* of what is read: of the archive that it is a range of, otherwise the same */
    int64_t mtime_ns;
    uint32_t source; /* in stage_list.source */
    bool is_there;   /* from an earlier run */
};

/* Where objects are read from: one per part. */
struct stage_source {
    struct dataset dataset; /* without a catalog if files are taken as they are */
    int root_fd;
    struct io *io;
};

/* ---- stage_keys.c: the samples that --keys names ---- */
struct stage_keys {
    struct text lines;
    const char **key;  /* sorted, each once */
    uint8_t *is_taken; /* by a part */
    uint64_t count;
};
int stage_keys_open(struct stage_keys *k, const char *path, struct fb_error *e);
void stage_keys_free(struct stage_keys *k);
/* Key i as the part has it: with train/ and val/ a key begins with one of them. NULL: it is another part's. */
const char *stage_keys_take(struct stage_keys *k, uint64_t i, const char *part);
/* One that no part took, or NULL. */
const char *stage_keys_left(const struct stage_keys *k);

struct stage_list {
    struct text names, items; /* items: struct stage_item */
    uint64_t count, bytes;
    struct stage_source source[STAGE_PARTS_MOST];
    int sources;
    struct stage_keys keys;
};

static inline struct stage_item *stage_item(const struct stage_list *l, uint64_t i)
{
    return (struct stage_item *)(void *)l->items.data + i;
}

static inline const char *stage_name(const struct stage_list *l, uint64_t at)
{
    return l->names.data + at;
}

/* ---- stage_list.c, stage_walk.c ---- */
int stage_list_make(struct stage_list *l, const struct stage_request *q, struct stage_result *out, struct fb_error *e);
void stage_list_free(struct stage_list *l);
/* `name` is put behind `part` and a slash, if there is one. object NULL: the name without the part. */
int stage_list_add(struct stage_list *l, const char *part, const char *name, const char *object, const struct stage_item *item,
                   struct fb_error *e);
/* Every regular file below the folder, links followed. */
int stage_walk(struct stage_list *l, uint32_t source, const char *part, const struct stage_request *q, struct fb_error *e);

/* ---- stage_log.c: what is done already ---- */
struct stage_log {
    int fd;              /* appended to */
    struct text records; /* those found at open, sorted by key */
    uint64_t count;
    bool must_sync; /* files are brought to the disk before their records say that they are there */
    pthread_mutex_t lock;
    struct text waiting; /* under lock: records that are not written yet */
    bool is_writing;     /* under lock: somebody is at it */
    uint64_t written_ns;
};
/* Opens or makes the target's log. FB_E_USAGE: the target is not empty and not of this source, or it is and q->resumes is not set. */
int stage_log_open(struct stage_log *l, int target_fd, const struct stage_request *q, struct fb_error *e);
/* Does the log know this file as it is in the source now? Its checksum. */
bool stage_log_find(const struct stage_log *l, const char *name, uint64_t size, int64_t mtime_ns, uint64_t *checksum);
int stage_log_add(struct stage_log *l, const char *name, uint64_t size, int64_t mtime_ns, uint64_t checksum, struct fb_error *e);
int stage_log_flush(struct stage_log *l, struct fb_error *e);
void stage_log_close(struct stage_log *l);
/* Reads it again: all records, sorted; the latest of a key counts. */
int stage_log_reload(struct stage_log *l, struct fb_error *e);

/* ---- stage_fit.c ---- */
/* `memory` is what can still be used of it (host_memory_available). */
void stage_fit(const struct stage_request *q, uint64_t needed, uint64_t memory, struct stage_result *out);
int stage_check_kind(const struct stage_request *q, const struct stage_result *out, struct fb_error *e);
/* What kind of device a path (or the nearest folder above that exists) lies on. */
void stage_device(const char *path, char *out, size_t out_size, bool *is_memory, bool *is_ssd);

/* ---- stage_write.c ---- */
/* Is it a name, without folders, that staging gives to its log, to files that are not whole yet and to those of a run that was killed? */
bool stage_is_own_name(const char *last);
/* Writes a whole file. FB_E_DATA: the name is refused. */
int stage_write_file(struct safe_place *p, const char *name, const void *bytes, uint64_t size, int64_t mtime_ns, struct fb_error *e);
/* A large file, in pieces: which of them are there (one byte each), the file itself. */
struct stage_large {
    int fd, marks_fd, parent_fd;
    char last[256];
    uint64_t pieces, left;
    uint8_t *is_done;
    bool has_failed;
    pthread_mutex_t lock;
    uint64_t written[STAGE_MARKS_TOGETHER]; /* under lock: pieces that are written, not marked yet */
    uint32_t writtens;
    uint64_t marked_ns;
};
int stage_large_open(struct stage_large *g, int target_fd, const char *name, uint64_t size, int64_t mtime_ns, bool resumes,
                     struct fb_error *e);
int stage_large_write(struct stage_large *g, uint64_t piece, const void *bytes, uint64_t n, struct fb_error *e);
/* All pieces are there: checks it as a whole and gives it its name. */
int stage_large_finish(struct stage_large *g, uint64_t size, int64_t mtime_ns, uint64_t *checksum, struct fb_error *e);
void stage_large_close(struct stage_large *g);
/* Of all that is in a copy, which must be `size` bytes. */
int stage_checksum(int fd, uint64_t size, uint64_t *sum, struct fb_error *e);

/* ---- stage_copy.c, stage_verify.c ---- */
struct stage_job {
    const struct stage_request *q;
    struct stage_result *out; /* under lock */
    struct stage_list list;
    struct stage_log log;
    bool has_log;
    int target_fd;
    pthread_mutex_t lock;
    struct text failed; /* under lock: becomes out->list */
    uint64_t started_ns;
};
void stage_note(struct stage_job *j, const char *name, const char *why);
int stage_copy(struct stage_job *j, struct fb_error *e);
int stage_verify(struct stage_job *j, struct fb_error *e);

#endif
