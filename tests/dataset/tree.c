#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

const char tree_jpeg[4] = "\xFF\xD8\xFF", tree_png[9] = "\x89PNG\r\n\x1A\n";

int tree_make(void **state)
{
    struct tree *t = calloc(1, sizeof(*t));
    snprintf(t->root, sizeof(t->root), "%s/fb-dataset-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    if (!mkdtemp(t->root))
        return -1;
    snprintf(t->cache, sizeof(t->cache), "%s.cache", t->root);
    t->d.root_fd = -1;
    *state = t;
    return 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

int tree_remove(void **state)
{
    struct tree *t = *state;
    dataset_close(&t->d);
    nftw(t->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    nftw(t->cache, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(t);
    return 0;
}

const char *tree_path(const struct tree *t, const char *name)
{
    static char path[4][4096];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof(path[0]), "%s%s%s", t->root, name[0] ? "/" : "", name);
    return path[turn];
}

void tree_mkdir(const struct tree *t, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/", tree_path(t, name));
    for (char *slash = strchr(path + strlen(t->root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

void tree_put_bytes(const struct tree *t, const char *name, const void *bytes, size_t n)
{
    const char *slash = strrchr(name, '/');
    if (slash) {
        char above[4096];
        snprintf(above, sizeof(above), "%.*s", (int)(slash - name), name);
        tree_mkdir(t, above);
    }
    int fd = open(tree_path(t, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, n), n);
    close(fd);
}

void tree_put(const struct tree *t, const char *name, const char *content)
{
    tree_put_bytes(t, name, content, strlen(content));
}

static int age_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st, (void)flag, (void)ftw;
    struct timespec then[2] = {{time(NULL) - 3600, 123456789}, {time(NULL) - 3600, 123456789}};
    return utimensat(AT_FDCWD, path, then, AT_SYMLINK_NOFOLLOW);
}

void tree_age(const struct tree *t)
{
    assert_int_equal(nftw(t->root, age_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

static void on_progress(void *ctx, const struct fb_progress *p)
{
    struct tree *t = ctx;
    assert_string_equal(p->what, "scanning");
    t->progress_calls++;
}

static int on_interrupt(void *ctx)
{
    struct tree *t = ctx;
    if (++t->interrupt_calls == 1 && t->is_slow)
        usleep(60000); /* so that the next call is due, however fast the machine */
    return t->interrupt_calls == t->interrupt_at;
}

static void on_log(void *ctx, int level, const char *line)
{
    (void)level;
    struct tree *t = ctx;
    t->log_lines++;
    snprintf(t->log + strlen(t->log), sizeof(t->log) - strlen(t->log), "%s\n", line);
}

int tree_open_request(struct tree *t, struct dataset_request r)
{
    dataset_close(&t->d);
    error_clear(&t->e);
    t->log[0] = 0;
    t->log_lines = 0;
    if (!r.catalog_dir)
        r.catalog_dir = t->cache;
    r.progress = on_progress;
    r.interrupted = on_interrupt;
    r.ctx = t;
    r.log = (struct log){on_log, t};
    int rc = dataset_open(&t->d, &r, &t->e);
    assert_int_equal(rc, t->e.code);
    if (rc == 0) {
        assert_true(t->d.root_fd >= 0);
        assert_non_null(t->d.root);
        assert_non_null(t->d.kind);
    }
    return rc;
}

int tree_open(struct tree *t, const char *source)
{
    return tree_open_request(t, (struct dataset_request){.source = tree_path(t, source)});
}

int tree_open_list(struct tree *t, const char *const *paths, uint64_t n, const struct fb_column *columns, int column_count)
{
    return tree_open_request(
        t, (struct dataset_request){.source = t->root, .paths = paths, .path_count = n, .columns = columns, .column_count = column_count});
}

void tree_expect_keys(const struct tree *t, const char *const *keys)
{
    if (t->e.code) {
        char line[2200];
        fb_format_error(&t->e, line, sizeof(line));
        print_message("%s\n", line);
    }
    assert_int_equal(t->e.code, 0);
    uint64_t n = 0;
    for (; keys[n]; n++) {
        assert_true(n < catalog_count(t->d.catalog));
        assert_string_equal(catalog_key(t->d.catalog, n, NULL), keys[n]);
    }
    assert_int_equal(catalog_count(t->d.catalog), n);
}

static uint64_t index_of(const struct tree *t, const char *key)
{
    for (uint64_t i = 0; i < catalog_count(t->d.catalog); i++)
        if (strcmp(catalog_key(t->d.catalog, i, NULL), key) == 0)
            return i;
    fail_msg("no sample %s", key);
    return 0;
}

const void *tree_value(const struct tree *t, const char *key, const char *field)
{
    for (int f = 0; f < catalog_field_count(t->d.catalog); f++)
        if (strcmp(catalog_field(t->d.catalog, f)->name, field) == 0)
            return catalog_value(t->d.catalog, index_of(t, key), f, NULL);
    fail_msg("no field %s", field);
    return NULL;
}

const char *tree_class_of(const struct tree *t, const char *key)
{
    int field = catalog_class_field(t->d.catalog);
    assert_true(field >= 0);
    const int64_t *label = catalog_value(t->d.catalog, index_of(t, key), field, NULL);
    return catalog_class_name(t->d.catalog, (int)*label);
}

void tree_expect_error(const struct tree *t, int code, const char *const *words)
{
    char line[2200];
    fb_format_error(&t->e, line, sizeof(line));
    print_message("%s\n", line);
    assert_int_equal(t->e.code, code);
    assert_string_equal(t->e.stage, "dataset");
    assert_null(t->d.catalog);
    for (; *words; words++)
        if (!strstr(line, *words))
            fail_msg("'%s' is not in: %s", *words, line);
}
