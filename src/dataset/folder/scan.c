/* Walking a tree of folders for images; where there are none, for sound, and where there is none either, for arrays. If no name is an
 * array's, those that may be one are looked into: HDF5 files go by many names (.mat, .nc, .h5ad).
 *
 * Each folder is opened once, its mtime taken before its entries are read; files get one stat and are opened only if their name does not
 * say what they are. FIFOs, sockets and devices are never opened. Links are followed; a folder that is one of its own ancestors (device and
 * inode) is left out, so loops end, while a link beside its target is a second copy on purpose. Links can still multiply paths without a
 * loop (n folders that link to each other have n! paths): SCAN_MAX_FOLDERS bounds that.
 *
 * The root is read first: images in it mean that there are no classes, and then images below it are a mistake worth naming.
 */
#include "dataset/folder/scan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/data_names.h"
#include "dataset/image_names.h"
#include "dataset/catalog_keep.h"
#include "dataset/folder/skipped_files.h"
#include "model/hdf5/hdf5_signature.h"

enum { SCAN_MAX_FOLDERS = 1 << 24, SCAN_MAX_DEPTH = 256, NAMED = 3 };

struct folder {
    struct folder *parent, *top; /* top: the class folder it is in; itself for one; NULL for the root */
    struct folder *next;         /* of those still to be read */
    struct folder *made_before;  /* of all, for freeing */
    dev_t device;
    ino_t inode;
    uint64_t matched; /* of the pattern, by its path */
    int depth;
    int label; /* of a class folder; -1: no image in it yet */
    char path[];
};

struct scan {
    struct dataset_job *job;
    const struct pattern *pattern;
    const char *kind;
    enum data_family family; /* what is looked for; "image" below stands for a file of it */
    bool has_label_field;
    bool looks_inside;     /* for arrays whose names do not say so */
    uint64_t of_family[3]; /* files met, by name */
    uint64_t unsure;       /* files met that may be arrays all the same */
    struct folder *waiting, *all;
    uint64_t folders, seen, images, in_root;
    char *first_in_root[NAMED]; /* the bytewise first, for the message */
    struct skipped_files left_out;
    uint64_t not_decoded; /* images of formats that are not decoded */
    struct text path;     /* of the file at hand */
};

/* Names a path below the root in full. */
static int failed_at(const struct scan *s, const char *path, struct fb_error *e, int code)
{
    char full[4200];
    snprintf(full, sizeof(full), "%s%s%s", s->job->root, path[0] ? "/" : "", path);
    error_at(e, full, -1);
    return code;
}

static int no_memory(struct fb_error *e)
{
    return error_set(e, FB_E_NOMEM, "dataset", "no memory to scan");
}

/* ---- folders still to be read ---- */

static int add_folder(struct scan *s, struct folder *parent, const char *name, struct fb_error *e)
{
    uint64_t matched = parent ? pattern_step(s->pattern, parent->matched, name) : pattern_start(s->pattern);
    if (matched == 0)
        return 0;
    if (++s->folders > SCAN_MAX_FOLDERS || (parent && parent->depth == SCAN_MAX_DEPTH)) {
        error_set(e, FB_E_DATA, "dataset", "more than %d folders, or more than %d inside each other", SCAN_MAX_FOLDERS, SCAN_MAX_DEPTH);
        error_remedy(e, "look for links between folders, or open a smaller part");
        return failed_at(s, parent->path, e, FB_E_DATA);
    }
    size_t above = parent ? strlen(parent->path) : 0, size = above + strlen(name) + 2;
    struct folder *f = calloc(1, sizeof(*f) + size);
    if (!f)
        return no_memory(e);
    snprintf(f->path, size, "%s%s%s", parent ? parent->path : "", above ? "/" : "", name);
    f->parent = parent;
    f->depth = parent ? parent->depth + 1 : 0;
    f->top = !parent ? NULL : parent->top ? parent->top : f;
    f->label = -1;
    f->matched = matched;
    f->next = s->waiting;
    s->waiting = f;
    f->made_before = s->all;
    s->all = f;
    return 0;
}

static bool is_own_ancestor(const struct folder *f)
{
    for (const struct folder *p = f->parent; p; p = p->parent)
        if (p->device == f->device && p->inode == f->inode)
            return true;
    return false;
}

/* ---- samples ---- */

static int remember_in_root(struct scan *s, const char *name, struct fb_error *e)
{
    s->in_root++;
    int at = 0;
    while (at < NAMED && s->first_in_root[at] && strcmp(s->first_in_root[at], name) < 0)
        at++;
    if (at == NAMED)
        return 0;
    char *copy = strdup(name);
    if (!copy)
        return no_memory(e);
    free(s->first_in_root[NAMED - 1]);
    memmove(&s->first_in_root[at + 1], &s->first_in_root[at], (size_t)(NAMED - 1 - at) * sizeof(char *));
    s->first_in_root[at] = copy;
    return 0;
}

static int refuse_mixed(const struct scan *s, const char *below, struct fb_error *e)
{
    char names[NAMED * 64] = "", shown[60], number[32];
    for (int i = 0; i < NAMED && s->first_in_root[i]; i++) {
        strcat(names, i ? ", " : "");
        strcat(names, text_escape(s->first_in_root[i], shown, sizeof(shown)));
    }
    error_set(e, FB_E_DATA, "dataset", "%s image%s directly in the folder (%s%s), others in class folders (%s)",
              skipped_files_number(s->in_root, number, sizeof(number)), s->in_root == 1 ? " lies" : "s lie", names,
              s->in_root > NAMED ? ", ..." : "", text_escape(below, shown, sizeof(shown)));
    error_remedy(e, "move them into class folders, or open only one kind: the glob '*/**' takes those in class folders, '*' the others");
    return failed_at(s, "", e, FB_E_DATA);
}

/* Only classes make labels: images that all lie in the folder itself have none. */
static int add_label_field(struct scan *s, struct fb_error *e)
{
    struct catalog_field label = {.name = "label", .dtype = FB_INT64, .is_class = true};
    s->has_label_field = true;
    return catalog_add_field(s->job->w, &label, e);
}

static int add_image(struct scan *s, struct folder *f, const char *path, const struct stat *st, struct fb_error *e)
{
    struct catalog_sample sample = {
        .key = path, .length = (uint64_t)st->st_size, .object_size = (uint64_t)st->st_size, .mtime_ns = keep_mtime_ns(st)};
    s->images++;
    if (!f->top) {
        FB_TRY(remember_in_root(s, path, e));
        return catalog_add_sample(s->job->w, &sample, NULL, e);
    }
    if (s->in_root)
        return refuse_mixed(s, path, e);
    if (!s->has_label_field)
        FB_TRY(add_label_field(s, e));
    if (f->top->label < 0)
        FB_TRY(f->top->label = catalog_add_class(s->job->w, f->top->path, e));
    int64_t label = f->top->label;
    return catalog_add_sample(s->job->w, &sample, (const void *const[]){&label}, e);
}

/* 1: the first bytes are an image's. 0: they are not, or the file is gone. */
static int sniff(int dir_fd, const char *name, struct fb_error *e)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* it may have become a FIFO meanwhile */
    if (fd < 0)
        return errno == ENOENT ? 0 : error_set_errno(e, "dataset", errno, "open a file to see whether it is an image");
    uint8_t bytes[IMAGE_SNIFF_BYTES];
    size_t n = file_read_all(fd, bytes, sizeof(bytes));
    int rc = n == 0 && errno && errno != EAGAIN ? error_set_errno(e, "dataset", errno, "read a file to see whether it is an image")
                                                : n > 0 && image_sniff(bytes, n);
    close(fd);
    return rc;
}

/* 1: HDF5. 0: it is not, or the file is gone. */
static int sniff_array(int dir_fd, const char *name, const struct stat *st, struct fb_error *e)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT ? 0 : error_set_errno(e, "dataset", errno, "open a file to see whether it is an array");
    bool is_array = hdf5_is_file(fd, 0, (uint64_t)st->st_size);
    close(fd);
    return is_array;
}

static bool may_be_array(const char *name)
{
    return data_name_may_be_array(name) || image_name_kind(name) == IMAGE_NAME_UNKNOWN;
}

/* Not an image, but perhaps one of what is looked for if there are none. */
static void leave_out(struct scan *s, const char *name)
{
    s->of_family[data_name_family(name)]++;
    s->unsure += data_name_family(name) == FAMILY_IMAGE && may_be_array(name);
    skipped_files_add_file(&s->left_out, name);
}

static int meet_other_file(struct scan *s, struct folder *f, int dir_fd, const char *name, const struct stat *st, struct fb_error *e)
{
    int is_wanted = !s->looks_inside ? data_name_family(name) == s->family : may_be_array(name) ? sniff_array(dir_fd, name, st, e) : 0;
    if (is_wanted < 0)
        return failed_at(s, s->path.data, e, is_wanted);
    if (is_wanted)
        return add_image(s, f, s->path.data, st, e);
    skipped_files_add_file(&s->left_out, name);
    return 0;
}

static int meet_file(struct scan *s, struct folder *f, int dir_fd, const char *name, const struct stat *st, struct fb_error *e)
{
    if (s->family != FAMILY_IMAGE)
        return meet_other_file(s, f, dir_fd, name, st, e);
    enum image_name kind = image_name_kind(name);
    int is_image = kind == IMAGE_NAME_YES;
    if (kind == IMAGE_NAME_UNKNOWN || kind == IMAGE_NAME_OTHER) {
        is_image = sniff(dir_fd, name, e);
        if (is_image < 0)
            return failed_at(s, s->path.data, e, is_image);
    }
    if (is_image)
        return add_image(s, f, s->path.data, st, e);
    s->not_decoded += kind == IMAGE_NAME_OTHER;
    leave_out(s, name);
    return 0;
}

/* ---- entries ---- */

static int set_path(struct scan *s, const struct folder *f, const char *name, struct fb_error *e)
{
    s->path.length = 0;
    text_append(&s->path, f->path, strlen(f->path));
    if (f->path[0])
        text_append(&s->path, "/", 1);
    text_append(&s->path, name, strlen(name));
    return s->path.failed ? no_memory(e) : 0;
}

/* The stat follows links. A name that leads nowhere (a dangling link, a file removed meanwhile) is counted and left out. */
static int meet_other(struct scan *s, struct folder *f, int dir_fd, const char *name, struct fb_error *e)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, 0) < 0) {
        if (errno == ENOENT || errno == ELOOP) {
            skipped_files_add(&s->left_out, "dangling link");
            return 0;
        }
        return failed_at(s, s->path.data, e, error_set_errno(e, "dataset", errno, "stat a file"));
    }
    if (S_ISDIR(st.st_mode))
        return add_folder(s, f, name, e);
    s->seen++;
    if (!pattern_is_matched(s->pattern, pattern_step(s->pattern, f->matched, name)))
        return 0;
    if (S_ISREG(st.st_mode))
        return meet_file(s, f, dir_fd, name, &st, e);
    skipped_files_add(&s->left_out, "not a file");
    return 0;
}

/* Not what is looked for, by its name alone. */
static bool is_no(const struct scan *s, const char *name)
{
    if (s->family == FAMILY_IMAGE)
        return image_name_kind(name) == IMAGE_NAME_NO;
    return s->looks_inside ? !may_be_array(name) : data_name_family(name) != s->family;
}

static int meet_entry(struct scan *s, struct folder *f, int dir_fd, const struct dirent *entry, struct fb_error *e)
{
    const char *name = entry->d_name;
    if (name[0] == '.') {
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
            skipped_files_add(&s->left_out, "hidden");
        return 0;
    }
    FB_TRY(scan_progress_report(&s->job->progress, s->seen, 0, e));
    if (entry->d_type == DT_DIR)
        return add_folder(s, f, name, e);
    if (entry->d_type == DT_REG && is_no(s, name)) { /* not worth a stat */
        s->seen++;
        if (pattern_is_matched(s->pattern, pattern_step(s->pattern, f->matched, name)))
            leave_out(s, name);
        return 0;
    }
    FB_TRY(set_path(s, f, name, e));
    return meet_other(s, f, dir_fd, name, e);
}

/* ---- the walk ---- */

static int read_entries(struct scan *s, struct folder *f, DIR *d, struct fb_error *e)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(d);
        if (!entry)
            return errno ? failed_at(s, f->path, e, error_set_errno(e, "dataset", errno, "read a folder")) : 0;
        FB_TRY(meet_entry(s, f, dirfd(d), entry, e));
    }
}

static int read_opened(struct scan *s, struct folder *f, DIR *d, struct fb_error *e)
{
    struct stat st;
    if (fstat(dirfd(d), &st) < 0)
        return error_set_errno(e, "dataset", errno, "stat a folder");
    f->device = st.st_dev;
    f->inode = st.st_ino;
    if (is_own_ancestor(f)) {
        skipped_files_add(&s->left_out, "link loop");
        return 0;
    }
    if (s->family == FAMILY_IMAGE) /* the first walk has seen them all */
        FB_TRY(catalog_add_dir(s->job->w, f->path, keep_mtime_ns(&st), e));
    return read_entries(s, f, d, e);
}

static int read_folder(struct scan *s, struct folder *f, struct fb_error *e)
{
    int fd = openat(s->job->root_fd, f->path[0] ? f->path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && f->parent)
        return 0; /* removed meanwhile: its parent has changed, so the next start will look again */
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        int rc = error_set_errno(e, "dataset", errno, "open a folder");
        error_remedy(e, "make it readable, or move it out of the data set");
        if (fd >= 0)
            close(fd);
        return failed_at(s, f->path, e, rc);
    }
    int rc = read_opened(s, f, d, e);
    closedir(d);
    return rc < 0 ? failed_at(s, f->path, e, rc) : 0;
}

static int walk(struct scan *s, struct fb_error *e)
{
    FB_TRY(add_folder(s, NULL, "", e));
    while (s->waiting) {
        struct folder *f = s->waiting;
        s->waiting = f->next;
        FB_TRY(read_folder(s, f, e));
    }
    return 0;
}

/* ---- what came of it ---- */

static int refuse_empty(struct scan *s, struct fb_error *e)
{
    bool is_glob = strcmp(s->kind, "glob") == 0;
    if (s->left_out.total == 0) {
        error_set(e, FB_E_DATA, "dataset", is_glob ? "nothing matches the pattern" : "the folder is empty");
        error_remedy(e, is_glob ? "** stands for any number of folders, * for part of a name"
                                : "check the path; images are .jpg, .jpeg, .png and .webp files in it or in class folders below it, "
                                  "sound .wav, arrays .h5 and .npy");
        error_at(e, s->job->request->source, -1);
        return FB_E_DATA;
    }
    char number[32], kinds[256];
    skipped_files_number(s->left_out.total, number, sizeof(number));
    skipped_files_say(&s->left_out, 6, kinds, sizeof(kinds));
    error_set(e, FB_E_DATA, "dataset", "%s file%s, none an image, sound or an array: %s", number, s->left_out.total == 1 ? "" : "s", kinds);
    error_remedy(
        e, s->looks_inside
               ? "JPEG, PNG, WebP and HDF5 files are known by their content; .mat files before MATLAB 7.3 and .nc files before netCDF 4 "
                 "are not HDF5: save them anew "
                 "(-v7.3, nccopy -k nc4)"
               : "files with other extensions are not opened: give such images and HDF5 files as a list; check the path");
    error_at(e, s->job->request->source, -1);
    return FB_E_DATA;
}

static int conclude(struct scan *s, struct fb_error *e)
{
    return s->images ? skipped_files_conclude(&s->left_out, s->not_decoded, s->job, e) : refuse_empty(s, e);
}

static void end(struct scan *s)
{
    for (struct folder *f = s->all, *before; f; f = before) {
        before = f->made_before;
        free(f);
    }
    for (int i = 0; i < NAMED; i++)
        free(s->first_in_root[i]);
    text_free(&s->path);
}

/* What there is instead of images. */
static enum data_family other_family(const struct scan *s)
{
    return s->images ? FAMILY_IMAGE : s->of_family[FAMILY_SOUND] ? FAMILY_SOUND : s->of_family[FAMILY_ARRAY] ? FAMILY_ARRAY : FAMILY_IMAGE;
}

static int scan_for(struct dataset_job *job, const struct pattern *pattern, const char *kind, enum data_family family, bool looks_inside,
                    struct fb_error *e)
{
    struct scan s = {
        .job = job, .pattern = pattern, .kind = kind, .family = family, .looks_inside = looks_inside, .path = {.limit = 1 << 20}};
    int rc = walk(&s, e);
    enum data_family other = family == FAMILY_IMAGE ? other_family(&s) : family;
    bool is_inside = other == FAMILY_IMAGE && s.images == 0 && s.unsure > 0;
    if (is_inside)
        other = FAMILY_ARRAY;
    if (rc == 0 && other == family)
        rc = conclude(&s, e);
    end(&s);
    return rc < 0 || other == family ? rc : scan_for(job, pattern, kind, other, is_inside, e);
}

int scan_tree(struct dataset_job *job, const struct pattern *pattern, const char *kind, struct fb_error *e)
{
    return scan_for(job, pattern, kind, FAMILY_IMAGE, false, e);
}
