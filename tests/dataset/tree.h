/* Trees of small files for the tests of data sets, and a request with everything recorded. */
#ifndef TESTS_DATASET_TREE_H
#define TESTS_DATASET_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/dataset.h"

extern const char tree_jpeg[4], tree_png[9]; /* first bytes; NUL-terminated for tree_put */

struct tree {
    char root[64];  /* temporary; the tests' files are below */
    char cache[80]; /* where catalogs are kept */
    struct dataset d;
    struct fb_error e;
    char log[8192]; /* all lines, newline-separated */
    int log_lines, progress_calls, interrupt_calls;
    int interrupt_at; /* the call to say stop at; 0: never */
    bool is_slow;     /* the first call takes longer than the time between two */
};

/* cmocka's setup and teardown; *state is a struct tree. */
int tree_make(void **state);
int tree_remove(void **state);

/* A path below the root, in one of a few static buffers. */
const char *tree_path(const struct tree *t, const char *name);
/* Makes a file and the folders above it. */
void tree_put(const struct tree *t, const char *name, const char *content);
void tree_put_bytes(const struct tree *t, const char *name, const void *bytes, size_t n);
void tree_mkdir(const struct tree *t, const char *name);
/* Sets the mtimes of everything an hour back, so that catalogs made now can be trusted. */
void tree_age(const struct tree *t);

/* Opens `source` (below the root) with the tree's cache; closes what was open. The result is in t->d or t->e. */
int tree_open(struct tree *t, const char *source);
int tree_open_list(struct tree *t, const char *const *paths, uint64_t n, const struct fb_column *columns, int column_count);
/* The whole request, with `source` and the rest as they are. */
int tree_open_request(struct tree *t, struct dataset_request r);

/* Fails unless the keys are these, NULL at the end. */
void tree_expect_keys(const struct tree *t, const char *const *keys);
#define EXPECT_KEYS(t, ...) tree_expect_keys(t, (const char *const[]){__VA_ARGS__, NULL})
/* The class name of a sample by its key. */
const char *tree_class_of(const struct tree *t, const char *key);
const void *tree_value(const struct tree *t, const char *key, const char *field);
/* Fails unless the last open failed with that code and these words are in its text (any of cause, remedy, path). */
void tree_expect_error(const struct tree *t, int code, const char *const *words);
#define EXPECT_ERROR(t, code, ...) tree_expect_error(t, code, (const char *const[]){__VA_ARGS__, NULL})

#endif
