/* A directory that stands for /proc and /sys/fs/cgroup. */
#ifndef FB_TESTS_FAKE_TREE_H
#define FB_TESTS_FAKE_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree {
    char root[64], proc[96], cgroup[96];
};

/* Writes a file, making the folders above it. */
static inline void tree_write(const struct tree *t, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", t->root, name);
    for (char *p = path + strlen(t->root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static inline struct tree tree_open(void)
{
    struct tree t = {.root = "/tmp/fullbore-host-XXXXXX"};
    assert_non_null(mkdtemp(t.root));
    snprintf(t.proc, sizeof(t.proc), "%s/proc", t.root);
    snprintf(t.cgroup, sizeof(t.cgroup), "%s/cgroup", t.root);
    mkdir(t.proc, 0700);
    mkdir(t.cgroup, 0700);
    return t;
}

static inline int tree_remove_one(const char *path, const struct stat *s, int type, struct FTW *where)
{
    (void)s, (void)type, (void)where;
    return remove(path);
}

static inline void tree_close(const struct tree *t)
{
    nftw(t->root, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

#endif
