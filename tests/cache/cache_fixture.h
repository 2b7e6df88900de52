/* What the cache tests share: a source of files with known bytes, a cache in front of it, an order that everybody can work out by hand. */
#ifndef TESTS_CACHE_FIXTURE_H
#define TESTS_CACHE_FIXTURE_H

#include "../io/io_fixture.h"

#include "base/budget.h"
#include "cache/cache.h"

enum { FILES_MOST = 256, FILE_BYTES = 20000 };

/* Epoch e takes file (17 p + 5 e) mod count at position p; count must not be a multiple of 17. */
struct source {
    struct folder folder;
    uint64_t count, file_bytes;
    char name[FILES_MOST][8];
    char dir[80]; /* for the cache */
    struct budget budget;
    int warnings;
    char warned[512];
    struct io *io;
    _Atomic bool is_busy; /* what the cache is told */
};

void source_make(struct source *s, uint64_t count, uint64_t file_bytes);
void source_remove(struct source *s);

/* What a test may choose; zeros are the defaults. */
struct choice {
    const char *inner;        /* "pread" */
    bool no_disk, is_unknown; /* unknown: no order to follow */
    uint64_t disk_limit, ram_limit;
    const char *dir, *name;
    uint32_t depth;
};
int source_try_open(struct source *s, const struct choice *c, struct fb_error *e);
void source_open(struct source *s, const struct choice *c);
/* Asserts that it was in time and that no memory is left in the budget. */
void source_close(struct source *s);
struct cache_figures figures(struct source *s);

/* Reads a file through the cache and checks every byte. */
void read_file(struct source *s, uint64_t index);
void read_all(struct source *s);
uint64_t index_at(const struct source *s, uint64_t epoch, uint64_t position);
void move_to(struct source *s, uint64_t epoch, uint64_t position);

/* What lies in the cache's folder: entries, .part files, bytes as they are counted, and what usage says. */
struct stock {
    uint64_t entries, parts, bytes, counted;
    char first[256]; /* the path of one entry */
};
struct stock take_stock(const char *dir);
/* The path of the entry that holds a file; false: there is none. */
bool find_entry(struct source *s, uint64_t index, char *path, size_t path_size);
void remove_tree(const char *path);

/* New content under the same name and size, with another time; content is that of the file called `as`. */
void rewrite(struct source *s, uint64_t index, const char *as, int64_t seconds);

#endif
