/* The partial file and its journal, beside the output: .NAME.partial and .NAME.journal.
 *
 * The journal has one entry for each stretch of rows that is written, in order, with the rows' checksums and the bad recordings met on the
 * way. It is never synced: a later run believes what it says as far as the bytes in the partial file agree, and no further. So a crash at
 * any moment costs the rows that had not arrived, and never lets a wrong one in.
 *
 * The process that writes holds a lock (flock) on both. fullbore.build of the Python package writes under the same partial name and locks
 * that file in the same way: nothing is cut or written before the lock is there, the name still means the locked file, and the output is
 * seen not to exist.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/file/file.h"
#include "base/rng.h"
#include "base/text/text.h"
#include "dataset/catalog_keep.h"
#include "jobs/build/build_internal.h"
#include "model/hdf5/hdf5_adopt.h"

#define JOURNAL_MAGIC UINT64_C(0x334C4E524A426266) /* "fbBJRNL3" */
enum { NAME_BYTES = 300, MOST_BAD_IN_ENTRY = 1 << 20, LOCK_TRIES = 50 };

struct head {
    uint64_t magic, question, checksum;
};

struct entry {
    struct build_piece piece;
    uint64_t bads;
};

/* ---- names ---- */

static int split_path(struct build_files *f, const char *path, struct fb_error *e)
{
    const char *slash = strrchr(path, '/');
    f->folder = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    f->name = strdup(text_last_part(path));
    if (!f->folder || !f->name)
        return error_set(e, FB_E_NOMEM, "build", "no memory for a path");
    size_t n = strlen(f->name);
    if (n == 0 || n > 200 || !strcmp(f->name, ".") || !strcmp(f->name, ".."))
        return error_set(e, FB_E_USAGE, "build", "'%s' is not a name for a file", f->name);
    return 0;
}

static const char *hidden(const struct build_files *f, const char *suffix, char *out)
{
    snprintf(out, NAME_BYTES, ".%s.%s", f->name, suffix);
    return out;
}

/* ---- opening ---- */

static int is_there(struct fb_error *e)
{
    return error_advise(e, error_set(e, FB_E_STATE, "build", "the output already exists"), "--force replaces it, at the end");
}

static int check_output(const struct build_files *f, const struct build_plan *p, struct fb_error *e)
{
    struct stat st;
    if (fstatat(f->dir_fd, f->name, &st, 0) < 0)
        return 0;
    if (!S_ISREG(st.st_mode))
        return error_set(e, FB_E_USAGE, "build", "the output exists and is not a file");
    return p->q->overwrites ? 0 : is_there(e);
}

/* A build that was killed may have left fullbore-hdf5 at work on the partial file, with the lock: that is a matter of moments. */
static int lock(int fd, struct fb_error *e)
{
    int rc;
    for (int tries = 0; (rc = flock(fd, LOCK_EX | LOCK_NB)) < 0 && errno == EWOULDBLOCK && tries < LOCK_TRIES; tries++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    if (rc == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return error_set_errno(e, "build", errno, "lock the file");
    return error_advise(e, error_set(e, FB_E_STATE, "build", "another build is writing this file"), "wait for it, or choose another name");
}

/* It may have been finished and renamed, or removed, between opening and locking. One that has another name as well is a finished build
 * that ended in a crash between getting the one and losing the other: it keeps the other. */
static bool is_still_there(const struct build_files *f, int fd, const char *name)
{
    struct stat mine, there;
    if (fstat(fd, &mine) < 0 || fstatat(f->dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (mine.st_dev != there.st_dev || mine.st_ino != there.st_ino)
        return false;
    if (mine.st_nlink > 1)
        unlinkat(f->dir_fd, name, 0);
    return mine.st_nlink == 1;
}

/* Opens and locks it; *fd is set only when it is ours. */
static int open_part(const struct build_files *f, const char *suffix, int *fd, struct fb_error *e)
{
    char name[NAME_BYTES];
    hidden(f, suffix, name);
    for (int tries = 0; tries < 10; tries++) {
        int got = openat(f->dir_fd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (got < 0)
            return error_set_errno(e, "build", errno, "make '%s'", name);
        int rc = lock(got, e);
        if (rc == 0 && is_still_there(f, got, name)) {
            *fd = got;
            return 0;
        }
        close(got);
        FB_TRY(rc);
    }
    return error_set(e, FB_E_STATE, "build", "another process keeps creating and deleting '%s'", name);
}

/* Python's build removes the journal of rows that it puts away. It does so while it holds the lock on the partial file, perhaps while we
 * waited for that lock; now that we hold it, no process can. */
static int open_parts(struct build_files *f, struct fb_error *e)
{
    char name[NAME_BYTES];
    FB_TRY(open_part(f, "journal", &f->journal_fd, e));
    FB_TRY(open_part(f, "partial", &f->data_fd, e));
    if (is_still_there(f, f->journal_fd, hidden(f, "journal", name)))
        return 0;
    close(f->journal_fd);
    f->journal_fd = -1;
    return open_part(f, "journal", &f->journal_fd, e);
}

static int start_journal(struct build_files *f, const struct build_plan *p, struct fb_error *e)
{
    struct head h = {JOURNAL_MAGIC, p->question, 0};
    h.checksum = checksum_of(&h, offsetof(struct head, checksum));
    if (ftruncate(f->journal_fd, 0) < 0 || ftruncate(f->data_fd, 0) < 0)
        return error_set_errno(e, "build", errno, "empty the files of an earlier run");
    f->journal_end = sizeof(h);
    return file_write_all_at(f->journal_fd, &h, sizeof(h), 0, e);
}

int build_files_open(struct build_files *f, const struct build_plan *p, struct fb_error *e)
{
    f->plan = p;
    FB_TRY(split_path(f, p->q->output, e));
    f->dir_fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir_fd < 0)
        return error_set_errno(e, "build", errno, "open the folder of the output");
    FB_TRY(check_output(f, p, e));
    FB_TRY(open_parts(f, e));
    FB_TRY(check_output(f, p, e)); /* who had the lock may have finished it */
    f->is_ours = true;
    char name[NAME_BYTES];
    build_direct_open(&f->direct, f->data_fd, f->dir_fd, build_has_direct_pieces(p) ? hidden(f, "partial", name) : NULL);
    return p->q->resumes ? 0 : start_journal(f, p, e);
}

/* ---- recordings ---- */

/* Takes in the recordings up to `last`. Later recordings may change without invalidating the rows that exist: a bad recording can be
 * repaired or removed, and the build goes on. */
static void add_sources(struct build_files *f, uint32_t last)
{
    for (; f->sources_next <= last; f->sources_next++) {
        struct catalog_sample s = {.key = ""};
        catalog_sample(f->plan->dataset.catalog, f->plan->file[f->sources_next], &s, NULL);
        uint64_t one = rng_mix(rng_mix(checksum_of(s.key, strlen(s.key)), s.length), (uint64_t)s.mtime_ns);
        f->sources = rng_mix(f->sources, one);
    }
}

/* The catalog is made anew when folders change, not when a recording is rewritten in its place: before rows of an earlier run are used, the
 * sizes and times of the recordings up to `last` are checked. */
static bool are_sources_there(const struct build_files *f, uint32_t last)
{
    for (uint64_t i = f->sources_next; i <= last; i++) {
        struct catalog_sample s;
        struct stat st;
        if (catalog_sample(f->plan->dataset.catalog, f->plan->file[i], &s, NULL) < 0)
            return false;
        bool is_file = fstatat(f->plan->dataset.root_fd, s.object, &st, 0) == 0 && S_ISREG(st.st_mode);
        if (s.object_size != (is_file ? (uint64_t)st.st_size : 0) || s.mtime_ns != (is_file ? keep_mtime_ns(&st) : 0))
            return false;
    }
    return true;
}

/* ---- writing entries ---- */

static int entry_bytes(const struct build_piece *piece, const struct build_row *row, const struct build_bad *bad, uint64_t bad_count,
                       struct text *out, struct fb_error *e)
{
    struct entry head = {*piece, bad_count};
    out->limit = SIZE_MAX / 2;
    text_append(out, (const char *)&head, sizeof(head));
    text_append(out, (const char *)row, piece->rows * sizeof(*row));
    if (bad_count) /* else there is no list */
        text_append(out, (const char *)bad, bad_count * sizeof(*bad));
    uint64_t sum = out->failed ? 0 : checksum_of(out->data, out->length);
    text_append(out, (const char *)&sum, sizeof(sum));
    return out->failed ? error_set(e, FB_E_NOMEM, "build", "no memory for an entry of the journal") : 0;
}

int build_files_note(struct build_files *f, const struct build_piece *piece, const struct build_row *row, const struct build_bad *bad,
                     uint64_t bad_count, struct fb_error *e)
{
    struct text t = {0};
    struct build_piece full = *piece;
    add_sources(f, row[piece->rows - 1].file);
    full.sources = f->sources;
    int rc = entry_bytes(&full, row, bad, bad_count, &t, e);
    if (rc == 0)
        rc = file_write_all_at(f->journal_fd, t.data, t.length, f->journal_end, e);
    f->journal_end += rc == 0 ? t.length : 0;
    text_free(&t);
    return rc;
}

/* ---- what is known ---- */

/* At once as much as it may have: a list that grew would be there twice for a moment, and what is not used costs nothing. */
int build_table_open(struct build_table *t, const struct build_plan *p, struct fb_error *e)
{
    atomic_store(&t->budget.limit, p->table_bytes);
    t->row.budget = &t->budget;
    return scratch_need(&t->row, p->table_bytes, e) ? 0 : e->code;
}

int build_table_add(struct build_table *t, const struct build_piece *piece, const struct build_row *row, struct fb_error *e)
{
    struct build_piece *pieces = scratch_grow(&t->piece, t->pieces * sizeof(*pieces), (t->pieces + 1) * sizeof(*pieces), e);
    struct build_row *rows = pieces ? scratch_grow(&t->row, t->rows * sizeof(*rows), (t->rows + piece->rows) * sizeof(*rows), e) : NULL;
    if (!rows)
        return FB_E_NOMEM;
    pieces[t->pieces++] = *piece;
    memmove(rows + t->rows, row, piece->rows * sizeof(*rows)); /* they may be there already */
    t->rows += piece->rows;
    return 0;
}

int build_table_add_bad(struct build_table *t, const struct build_bad *bad, struct fb_error *e)
{
    struct build_bad *all = scratch_grow(&t->bad, t->bads * sizeof(*all), (t->bads + 1) * sizeof(*all), e);
    if (!all)
        return FB_E_NOMEM;
    all[t->bads++] = *bad;
    return 0;
}

void build_table_free(struct build_table *t)
{
    scratch_free(&t->row);
    scratch_free(&t->piece);
    scratch_free(&t->bad);
}

/* ---- reading them back ---- */

struct reading {
    struct build_files *f;
    const struct build_plan *p;
    struct build_table *t;
    struct scratch entry, data;
    uint64_t journal_size, data_size;
};

static bool is_place_right(const struct reading *r, const struct build_piece *x)
{
    uint64_t expected = r->t->pieces ? 0 : HDF5_ADOPT_FIRST;
    if (r->t->pieces) {
        const struct build_piece *last = &((const struct build_piece *)r->t->piece.data)[r->t->pieces - 1];
        expected = last->offset + last->length;
    }
    bool is_chunk = r->p->chunk_rows == 0 || x->rows == r->p->chunk_rows;
    bool has_length = r->p->q->deflate || x->length == x->rows * r->p->row_bytes;
    return x->number == r->t->pieces && x->offset == expected && is_chunk && has_length && x->rows > 0 && x->rows <= UINT32_MAX;
}

/* The bytes in the partial file are those that the entry speaks of. */
static bool is_data_right(struct reading *r, const struct build_piece *x, const struct build_row *row)
{
    if (x->length > r->data_size || x->offset > r->data_size - x->length)
        return false;
    uint8_t *data = scratch_need(&r->data, x->length, NULL);
    if (!data || file_read_all_at(r->f->data_fd, data, x->length, x->offset) < x->length)
        return false;
    if (r->p->q->deflate)
        return checksum_of(data, x->length) == x->hash;
    for (uint64_t i = 0; i < x->rows; i++)
        if (checksum_of(data + i * r->p->row_bytes, r->p->row_bytes) != row[i].hash)
            return false;
    return true;
}

static bool are_rows_sane(const struct reading *r, const struct build_row *row, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (row[i].file >= r->p->files)
            return false;
    return true;
}

/* In order, and before the entry's last row. */
static bool are_bads_sane(const struct build_bad *bad, uint64_t n, uint32_t last)
{
    for (uint64_t i = 0; i < n; i++)
        if (bad[i].file >= last || (i && bad[i].file <= bad[i - 1].file) || !memchr(bad[i].cause, 0, sizeof(bad[i].cause)))
            return false;
    return true;
}

/* With this --memory one that was left out for want of it may be good: it is tried again, and what comes behind it gets another place. */
static bool are_bads_bad(const struct reading *r, const struct build_bad *bad, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (bad[i].needed && bad[i].needed <= r->p->large_bytes)
            return false;
    return true;
}

/* 1: one more entry is believed; 0: there are no more. */
static int take_entry(struct reading *r, struct fb_error *e)
{
    struct entry head;
    uint64_t at = r->f->journal_end;
    if (file_read_all_at(r->f->journal_fd, &head, sizeof(head), at) < sizeof(head) || !is_place_right(r, &head.piece) ||
        head.bads > MOST_BAD_IN_ENTRY)
        return 0;
    uint64_t rows = head.piece.rows * sizeof(struct build_row), bads = head.bads * sizeof(struct build_bad);
    uint64_t bytes = sizeof(head) + rows + bads, sum;
    if (bytes > r->journal_size - at)
        return 0;
    uint8_t *all = scratch_need(&r->entry, bytes + sizeof(sum), e);
    if (!all)
        return FB_E_NOMEM;
    if (file_read_all_at(r->f->journal_fd, all, bytes + sizeof(sum), at) < bytes + sizeof(sum))
        return 0;
    memcpy(&sum, all + bytes, sizeof(sum));
    const struct build_row *row = (const struct build_row *)(const void *)(all + sizeof(head));
    const struct build_bad *bad = (const struct build_bad *)(const void *)(all + sizeof(head) + rows);
    if (sum != checksum_of(all, bytes) || !are_rows_sane(r, row, head.piece.rows) ||
        !are_bads_sane(bad, head.bads, row[head.piece.rows - 1].file) || !is_data_right(r, &head.piece, row))
        return 0;
    if (!are_bads_bad(r, bad, head.bads) || !are_sources_there(r->f, row[head.piece.rows - 1].file))
        return 0;
    uint64_t sources = r->f->sources, next = r->f->sources_next;
    add_sources(r->f, row[head.piece.rows - 1].file);
    if (head.piece.sources != r->f->sources) {
        r->f->sources = sources;
        r->f->sources_next = next;
        return 0;
    }
    FB_TRY(build_table_add(r->t, &head.piece, row, e));
    for (uint64_t i = 0; i < head.bads; i++)
        FB_TRY(build_table_add_bad(r->t, &bad[i], e));
    r->f->journal_end = at + bytes + sizeof(sum);
    return 1;
}

static int read_entries(struct build_files *f, const struct build_plan *p, struct build_table *t, struct fb_error *e)
{
    struct stat journal, data;
    if (fstat(f->journal_fd, &journal) < 0 || fstat(f->data_fd, &data) < 0)
        return error_set_errno(e, "build", errno, "read the size of the files of an earlier run");
    struct reading r = {.f = f, .p = p, .t = t, .journal_size = (uint64_t)journal.st_size, .data_size = (uint64_t)data.st_size};
    int rc;
    f->journal_end = sizeof(struct head);
    while ((rc = take_entry(&r, e)) == 1)
        ;
    scratch_free(&r.entry);
    scratch_free(&r.data);
    /* Old bytes beyond the end would show in the gaps between columns if this run writes fewer rows than the earlier one. */
    const struct build_piece *last = t->pieces ? &((const struct build_piece *)t->piece.data)[t->pieces - 1] : NULL;
    uint64_t end = last ? last->offset + last->length : 0;
    if (rc == 0 && (ftruncate(f->journal_fd, (off_t)f->journal_end) < 0 || ftruncate(f->data_fd, (off_t)end) < 0))
        rc = error_set_errno(e, "build", errno, "truncate the files of an earlier run");
    return rc;
}

int build_files_resume(struct build_files *f, const struct build_plan *p, struct build_table *t, struct fb_error *e)
{
    struct head h;
    bool is_ours = file_read_all_at(f->journal_fd, &h, sizeof(h), 0) == sizeof(h) && h.magic == JOURNAL_MAGIC &&
                   h.checksum == checksum_of(&h, offsetof(struct head, checksum)) && h.question == p->question;
    return is_ours ? read_entries(f, p, t, e) : start_journal(f, p, e);
}

/* ---- the end ---- */

/* Never over a file that came meanwhile, unless that was asked for. File systems without RENAME_NOREPLACE get a link, which never replaces
 * either. */
static int publish(const struct build_files *f, const char *partial, struct fb_error *e)
{
    unsigned flags = f->plan->q->overwrites ? 0 : RENAME_NOREPLACE;
    int rc = renameat2(f->dir_fd, partial, f->dir_fd, f->name, flags);
    if (rc < 0 && flags && (errno == EINVAL || errno == ENOSYS)) {
        rc = linkat(f->dir_fd, partial, f->dir_fd, f->name, 0);
        if (rc == 0)
            unlinkat(f->dir_fd, partial, 0);
    }
    if (rc == 0)
        return 0;
    return errno == EEXIST ? is_there(e) : error_set_errno(e, "build", errno, "give the file its name");
}

int build_files_finish(struct build_files *f, struct fb_error *e)
{
    char name[NAME_BYTES];
    FB_TRY(file_sync(f->data_fd, e));
    FB_TRY(publish(f, hidden(f, "partial", name), e));
    unlinkat(f->dir_fd, hidden(f, "journal", name), 0);
    return file_sync(f->dir_fd, e);
}

/* Locked files may be removed; those of an earlier run stay when this one was refused before it touched them. */
static void close_part(const struct build_files *f, const char *suffix, int fd, bool is_kept)
{
    char name[NAME_BYTES];
    struct stat st;
    if (fd < 0)
        return;
    bool is_empty = fstat(fd, &st) == 0 && st.st_size == 0;
    if ((!is_kept && f->is_ours) || (!f->is_ours && is_empty))
        unlinkat(f->dir_fd, hidden(f, suffix, name), 0);
    close(fd);
}

void build_files_close(struct build_files *f, bool is_kept)
{
    build_direct_close(&f->direct);
    close_part(f, "partial", f->data_fd, is_kept);
    close_part(f, "journal", f->journal_fd, is_kept);
    if (f->dir_fd >= 0)
        close(f->dir_fd);
    free(f->folder);
    free(f->name);
}
