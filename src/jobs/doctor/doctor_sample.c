#include "jobs/doctor/doctor_sample.h"

#include <ctype.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "dataset/dataset.h"
#include "io/io.h"

enum { SAMPLE_BYTES_MOST = 512 << 20 }; /* of one file; larger ones are left out */

/* ---- the folder ---- */

static bool make_in(struct scratch_folder *f, const char *parent, const struct stat *wanted)
{
    struct stat s;
    if (!parent || stat(parent, &s) < 0 || (wanted && s.st_dev != wanted->st_dev))
        return false;
    if (snprintf(f->path, sizeof(f->path), "%s/.fullbore-doctor-XXXXXX", parent) >= (int)sizeof(f->path))
        return false;
    return mkdtemp(f->path) != NULL;
}

bool scratch_folder_make(struct scratch_folder *f, const char *near)
{
    struct stat wanted;
    char parent[512];
    if (!near)
        return make_in(f, "/dev/shm", NULL);
    if (stat(near, &wanted) < 0)
        return false;
    snprintf(parent, sizeof(parent), "%s/..", near); /* beside the data, never inside */
    return make_in(f, getenv("TMPDIR"), &wanted) || make_in(f, "/tmp", &wanted) || make_in(f, "/var/tmp", &wanted) ||
           make_in(f, parent, &wanted);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at)
{
    (void)s, (void)at;
    return type == FTW_DP ? rmdir(path) : unlink(path);
}

void scratch_folder_remove(struct scratch_folder *f)
{
    if (f->path[0])
        nftw(f->path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    f->path[0] = 0;
}

/* ---- copying ---- */

/* ".jpg" of a key, if it is a plain one. */
static void extension_of(const char *key, char out[8])
{
    const char *dot = strrchr(key, '.');
    size_t n = dot ? strlen(dot) : 0;
    out[0] = 0;
    if (n < 2 || n > 6)
        return;
    for (size_t i = 1; i < n; i++)
        if (!isalnum((unsigned char)dot[i]))
            return;
    memcpy(out, dot, n + 1);
}

static bool copy_bytes(int from, uint64_t offset, uint64_t length, int to, void *buffer, size_t size)
{
    for (size_t n; length; offset += n, length -= n) {
        n = length < size ? (size_t)length : size;
        if (file_read_all_at(from, buffer, n, offset) < n || file_write_all(to, buffer, n, NULL) < 0)
            return false;
    }
    return true;
}

static bool copy_one(const struct dataset *d, const struct catalog_sample *s, const char *path, void *buffer, size_t size)
{
    int from = openat(d->root_fd, s->object, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int to = from >= 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    bool is_done = to >= 0 && copy_bytes(from, s->offset, s->length, to, buffer, size);
    if (to >= 0)
        close(to);
    if (from >= 0)
        close(from);
    if (to >= 0 && !is_done)
        unlink(path);
    return is_done;
}

static int copy_all(const struct dataset *d, const char *into, uint64_t wanted, uint64_t *copied, uint64_t *bytes, struct fb_error *e)
{
    enum { BUFFER = 1 << 20 };
    uint64_t count = catalog_count(d->catalog);
    wanted = wanted < count ? wanted : count;
    void *buffer = malloc(BUFFER);
    mkdir(into, 0700); /* it may be there */
    int rc = buffer ? 0 : error_set(e, FB_E_NOMEM, "doctor", "no memory");
    for (uint64_t i = 0; i < wanted && rc == 0; i++) {
        struct catalog_sample s;
        char path[600], extension[8];
        rc = catalog_sample(d->catalog, i * count / wanted, &s, e);
        if (rc < 0)
            break;
        if (s.length > SAMPLE_BYTES_MOST)
            continue;
        extension_of(s.key, extension);
        snprintf(path, sizeof(path), "%s/%llu", into, (unsigned long long)(i % 4)); /* a few classes: labels do not matter here */
        mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/%llu/%06llu%s", into, (unsigned long long)(i % 4), (unsigned long long)i, extension);
        if (!copy_one(d, &s, path, buffer, BUFFER))
            continue;
        ++*copied;
        *bytes += s.length;
    }
    free(buffer);
    return rc;
}

int sample_copy(const fb_options *o, const char *into, uint64_t wanted, uint64_t *copied, uint64_t *bytes, struct fb_error *e)
{
    struct dataset d;
    struct dataset_request r = {.source = o->source, .catalog_dir = o->catalog_dir, .stores = io_stores};
    *copied = *bytes = 0;
    FB_TRY(dataset_open(&d, &r, e));
    int rc = d.io ? error_set(e, FB_E_UNSUPPORTED, "doctor", "samples of a store cannot be copied here")
                  : copy_all(&d, into, wanted, copied, bytes, e);
    dataset_close(&d);
    if (rc == 0 && *copied == 0)
        rc = error_set(e, FB_E_IO, "doctor", "no sample could be copied to %s", into);
    return rc;
}
