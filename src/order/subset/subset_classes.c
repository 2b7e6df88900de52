#include "order/subset/subset_classes.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/text/edit_distance.h"
#include "base/text/text.h"
#include "order/subset/hash_choice.h"

enum { MAX_LIST_BYTES = 64 << 20 };

/* The catalog's classes by name. */
struct named {
    const char *name;
    int label;
};

struct roll {
    struct named *by_name; /* sorted */
    int count;
};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

static int roll_open(struct roll *r, const struct catalog *c, struct fb_error *e)
{
    r->count = catalog_class_count(c);
    r->by_name = malloc(((size_t)r->count + 1) * sizeof(*r->by_name));
    if (!r->by_name)
        return error_set_errno(e, "order", ENOMEM, "list %d classes", r->count);
    for (int i = 0; i < r->count; i++) {
        r->by_name[i] = (struct named){catalog_class_name(c, i), i};
        if (!r->by_name[i].name)
            return error_set(e, FB_E_DATA, "order", "the catalog is damaged: class %d has no name", i);
    }
    qsort(r->by_name, (size_t)r->count, sizeof(*r->by_name), compare_names);
    return 0;
}

static int refuse_name(const struct roll *r, const char *name, struct fb_error *e)
{
    char shown[128], near[128];
    const char *nearest = r->by_name[0].name;
    int best = INT_MAX;
    for (int i = 0; i < r->count; i++) {
        int distance = edit_distance(name, r->by_name[i].name);
        if (distance < best) {
            best = distance;
            nearest = r->by_name[i].name;
        }
    }
    return error_advise(e, error_set(e, FB_E_NOT_FOUND, "order", "no class is called '%s'", text_escape(name, shown, sizeof(shown))),
                        "the nearest of the %d classes is '%s'", r->count, text_escape(nearest, near, sizeof(near)));
}

/* Marks the classes named in `list`, one per line; the list is changed. */
static int mark_named(const struct roll *r, char *list, bool *is_chosen, struct fb_error *e)
{
    char *save = NULL;
    int names = 0;
    for (char *line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        size_t length = strlen(line);
        if (line[length - 1] == '\r')
            line[--length] = 0;
        if (length == 0)
            continue;
        struct named key = {line, 0}, *found = bsearch(&key, r->by_name, (size_t)r->count, sizeof(key), compare_names);
        if (!found)
            return refuse_name(r, line, e);
        is_chosen[found->label] = true;
        names++;
    }
    if (names > 0)
        return 0;
    return error_advise(e, error_set(e, FB_E_USAGE, "order", "classes= names no class"), "give at least one name, or leave classes= out");
}

static int read_all(int fd, char *out, size_t bytes)
{
    size_t used = file_read_all(fd, out, bytes);
    if (used < bytes && errno)
        return -errno;
    out[used] = 0;
    return memchr(out, 0, used) ? -EINVAL : 0;
}

/* A regular file of names; a pipe or a terminal would make open hang. */
static int read_list(const char *path, char **out, struct fb_error *e)
{
    struct stat s = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
    *out = NULL;
    if (fd < 0 || fstat(fd, &s) < 0)
        rc = error_set_errno(e, "order", errno, "read the list of classes");
    else if (!S_ISREG(s.st_mode) || s.st_size > MAX_LIST_BYTES)
        rc = error_set(e, FB_E_USAGE, "order", "the list of classes is not a regular file of at most 64 MiB");
    else if (!(*out = malloc((size_t)s.st_size + 1)))
        rc = error_set_errno(e, "order", ENOMEM, "read the list of classes");
    else if ((rc = read_all(fd, *out, (size_t)s.st_size)) == -EINVAL)
        rc = error_set(e, FB_E_USAGE, "order", "the list of classes is not text: it has NUL bytes");
    else if (rc < 0)
        rc = error_set_errno(e, "order", -rc, "read the list of classes");
    if (rc < 0)
        error_remedy(e, "classes=\"@FILE\" wants a text file with one class name per line");
    if (fd >= 0)
        close(fd);
    return rc;
}

static int choose_named(const struct roll *r, const char *classes, bool *is_chosen, struct fb_error *e)
{
    char *list = NULL;
    int rc = 0;
    if (classes[0] == '@')
        rc = read_list(classes + 1, &list, e);
    else if (!(list = strdup(classes)))
        rc = error_set_errno(e, "order", ENOMEM, "copy the list of classes");
    if (rc == 0)
        rc = mark_named(r, list, is_chosen, e);
    if (rc < 0 && classes[0] == '@')
        error_at(e, classes + 1, -1);
    free(list);
    return rc;
}

static int choose_drawn(const struct roll *r, uint64_t wanted, uint64_t seed, bool *is_chosen, struct fb_error *e)
{
    if (wanted > (uint64_t)r->count)
        return error_advise(
            e,
            error_set(e, FB_E_USAGE, "order", "%llu classes are asked for, but the data set has %d", (unsigned long long)wanted, r->count),
            "use classes= from 1 to %d", r->count);
    struct hash_choice *p = malloc((size_t)r->count * sizeof(*p));
    if (!p)
        return error_set_errno(e, "order", ENOMEM, "draw classes");
    for (int i = 0; i < r->count; i++)
        p[i] = (struct hash_choice){hash_choice_of(CHOICE_CLASS, seed, r->by_name[i].name), (uint64_t)r->by_name[i].label};
    hash_choice_smallest(p, (uint64_t)r->count, wanted);
    for (uint64_t i = 0; i < wanted; i++)
        is_chosen[p[i].index] = true;
    free(p);
    return 0;
}

/* New labels in the order of names. */
static int renumber(struct subset *s, const struct roll *r, const bool *is_chosen, struct fb_error *e)
{
    s->class_old = malloc((size_t)r->count * sizeof(int));
    s->class_new = malloc((size_t)r->count * sizeof(int));
    if (!s->class_old || !s->class_new)
        return error_set_errno(e, "order", ENOMEM, "renumber classes");
    s->class_count = 0;
    for (int i = 0; i < r->count; i++) {
        int label = r->by_name[i].label;
        s->class_new[label] = is_chosen[label] ? s->class_count : -1;
        if (is_chosen[label])
            s->class_old[s->class_count++] = label;
    }
    return 0;
}

int subset_choose_classes(struct subset *s, const struct catalog *c, const struct subset_request *r, struct fb_error *e)
{
    s->class_count = catalog_class_count(c);
    if (!r->classes && r->class_count == 0)
        return 0;
    if (r->classes && r->class_count != 0)
        return error_advise(e, error_set(e, FB_E_USAGE, "order", "classes are both named and counted"), "give either names or a number");
    struct roll roll;
    bool *is_chosen = calloc((size_t)s->class_count + 1, sizeof(bool));
    int rc = roll_open(&roll, c, e);
    if (rc == 0 && !is_chosen)
        rc = error_set_errno(e, "order", ENOMEM, "choose classes");
    if (rc == 0)
        rc = r->classes ? choose_named(&roll, r->classes, is_chosen, e) : choose_drawn(&roll, r->class_count, r->class_seed, is_chosen, e);
    if (rc == 0)
        rc = renumber(s, &roll, is_chosen, e);
    free(is_chosen);
    free(roll.by_name);
    return rc;
}
