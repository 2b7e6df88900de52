/* The workers' own: tasks, chunks and who has them; see build_crew.c. */
#ifndef FB_JOBS_BUILD_BUILD_CREW_H
#define FB_JOBS_BUILD_BUILD_CREW_H

#include "jobs/build/build_ahead.h"
#include "jobs/build/build_internal.h"

struct build_task {
    struct build_task *next; /* in order */
    uint64_t first, count, skip;
    int split;
    bool is_waiting; /* not started */
    bool is_large;   /* its first recording needs, and when it has started may have, the plan's large_bytes */
    bool is_done;
    int users; /* chunks that borrow from it, and one until it is joined */
    uint64_t rows;
    struct scratch data, row; /* rows, and struct build_row of each */
    struct build_table bad;
    struct fb_error error; /* a bad recording that ends the build */
};

enum build_chunk_state {
    BUILD_CHUNK_OPEN,
    BUILD_CHUNK_FULL,
    BUILD_CHUNK_PACKING,
    BUILD_CHUNK_PACKED,
    BUILD_CHUNK_WRITING,
    BUILD_CHUNK_WRITTEN
};

struct build_part {
    struct build_task *task; /* NULL: rows kept by the chunk itself */
    uint64_t first, rows;
};

struct build_chunk {
    struct build_chunk *next;
    enum build_chunk_state state;
    struct build_piece piece;
    struct scratch part; /* struct build_part */
    uint64_t parts;
    struct scratch kept, kept_row; /* rows copied out of tasks, so that those can go */
    uint64_t kept_rows;
    struct scratch packed;
    struct build_table bad;
};

struct build_crew {
    const struct build_plan *p;
    struct build_files *files;
    struct build_table *table;
    struct build_meter *meter;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for workers */
    pthread_cond_t told;    /* for the caller */
    struct budget budget;
    struct build_ahead ahead;
    struct build_task *oldest, *newest, *spare_task;
    struct build_chunk *first, *last, *spare_chunk; /* in order; the last one may be open */
    uint64_t next_file, skip;                       /* where the next task begins */
    uint64_t tasks, waiting;
    struct build_task *large; /* who has the plan's large_bytes, until its rows are written */
    uint64_t chunks_made, packed_next, offset_next;
    struct build_table bad;            /* met, not yet in a chunk */
    uint64_t files_before, files_done; /* by an earlier run; in all */
    int running;                       /* workers that have not ended */
    int writers;                       /* of them, those who write and do nothing else; 0: all do everything */
    bool is_stopped;
    struct fb_error error;
};

struct build_worker {
    struct build_crew *c;
    pthread_t thread;
    bool is_writer;
    struct build_sound sound;
    struct scratch gather;
    struct build_deflate deflate;
};

/* ---- build_crew.c ---- */

/* One user less; behind the last one it is spare, or gone. */
void build_release_task(struct build_crew *c, struct build_task *t);

/* ---- build_chunk.c: from tasks to the file. With the lock held, but for build_pack_chunk and build_write_chunk ---- */

/* All tasks that are done, in order, into chunks; at the end the chunk that is not full is closed. */
int build_join_tasks(struct build_crew *c, struct fb_error *e);
/* Small tasks may be all taken before their rows fill a chunk: their rows are copied, and they are free again. */
bool build_is_stuck(const struct build_crew *c);
int build_keep_rows(struct build_crew *c, struct build_chunk *k, struct fb_error *e);
/* The first chunk in that state, or NULL. */
struct build_chunk *build_find_chunk(const struct build_crew *c, enum build_chunk_state state);
int build_pack_chunk(struct build_worker *w, struct build_chunk *k, struct fb_error *e);
void build_place_chunks(struct build_crew *c);
int build_write_chunk(struct build_worker *w, struct build_chunk *k, struct fb_error *e);
/* What is written and has nothing unwritten before it goes into the journal. */
int build_commit_chunks(struct build_crew *c, struct fb_error *e);

#endif
