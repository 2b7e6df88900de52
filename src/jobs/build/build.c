#include "jobs/build.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "jobs/build/build_internal.h"

enum { SKIPPED_NAMED = 1000 };

/* A label is missing: said before hours of work, not after. */
static int check_labels(const struct build_plan *p, struct fb_error *e)
{
    for (uint64_t i = 0; i < p->files; i++) {
        int rc = build_labels_check(p->labels, p->file[i], e);
        if (rc < 0) {
            error_at(e, catalog_key(p->dataset.catalog, p->file[i], NULL), -1);
            error_remedy(e, "paths in it are relative to the source");
            return rc;
        }
    }
    return 0;
}

static void list_bad(const struct build_plan *p, const struct build_table *t, struct build_result *out)
{
    struct text list = {.limit = 4 << 20};
    const struct build_bad *bad = t->bad.data;
    out->skipped = t->bads;
    for (uint64_t i = 0; i < t->bads && i < SKIPPED_NAMED; i++) {
        char shown[600];
        const char *key = catalog_key(p->dataset.catalog, p->file[bad[i].file], NULL);
        text_printf(&list, "%s: %s\n", text_escape(key ? key : "?", shown, sizeof(shown)), bad[i].cause);
    }
    out->skipped_list = list.data;
}

static void take_figures(const struct build_meter *m, const struct build_plan *p, struct build_result *out)
{
    out->splits = p->splits;
    memcpy(out->split, m->split, sizeof(out->split));
    memcpy(out->slow, m->slow, sizeof(out->slow));
    for (int i = 0; i < 1 << BUILD_STAGES; i++)
        out->wall_of[i] = (double)m->wall_ns[i] / 1e9;
    out->depth_mean = m->asked_times ? (double)m->asked_sum / (double)m->asked_times : 0;
    out->depth_most = m->asked_most;
}

static void take_shape(const struct build_plan *p, const struct build_table *t, struct build_result *out)
{
    out->rows = t->rows;
    out->files = p->files - t->bads;
    out->rate = p->rate;
    out->threads = (uint32_t)p->threads;
    out->chunk_rows = p->chunk_rows;
    out->payload = t->rows * p->row_bytes;
    out->shape[0] = t->rows;
    out->ndim = p->ndim + 1;
    for (int i = 0; i < p->ndim; i++)
        out->shape[i + 1] = p->shape[i];
}

/* Of this process and of children that have ended: the helper that puts HDF5's structure around the rows is one. */
static double cpu_so_far(void)
{
    struct rusage own, children;
    if (getrusage(RUSAGE_SELF, &own) < 0 || getrusage(RUSAGE_CHILDREN, &children) < 0)
        return 0;
    const struct timeval t[] = {own.ru_utime, own.ru_stime, children.ru_utime, children.ru_stime};
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)t[i].tv_sec + (double)t[i].tv_usec / 1e6;
    return sum;
}

static int compute(const struct build_plan *p, struct build_files *f, struct build_table *t, struct build_result *out, struct fb_error *e)
{
    struct build_meter m;
    double cpu = cpu_so_far();
    build_meter_open(&m);
    int rc = build_crew_run(p, f, t, &m, out, e);
    build_meter_close(&m);
    out->rows_cpu_seconds = cpu_so_far() - cpu;
    take_figures(&m, p, out);
    if (rc == 0 && t->rows == 0)
        rc = error_set(e, FB_E_DATA, "build", "every recording is bad, so there is nothing to build");
    return rc;
}

static int build(const struct build_plan *p, struct build_files *f, struct build_table *t, struct build_result *out, struct fb_error *e)
{
    FB_TRY(check_labels(p, e));
    FB_TRY(build_table_open(t, p, e));
    FB_TRY(build_files_open(f, p, e));
    if (p->q->resumes)
        FB_TRY(build_files_resume(f, p, t, e));
    out->resumed_rows = t->rows;
    FB_TRY(compute(p, f, t, out, e));
    uint64_t since = clock_now_ns();
    FB_TRY(build_finish(p, f, t, out, e));
    struct stat st;
    out->bytes = fstat(f->data_fd, &st) == 0 ? (uint64_t)st.st_size : 0;
    int rc = build_files_finish(f, e);
    out->finish_seconds = (double)(clock_now_ns() - since) / 1e9;
    return rc;
}

int build_run(const struct build_request *q, struct build_result *out, struct fb_error *e)
{
    struct build_plan p;
    struct build_files f = {.dir_fd = -1, .data_fd = -1, .journal_fd = -1, .direct.fd = -1};
    struct build_table t = {0};
    uint64_t since = clock_now_ns();
    double cpu = cpu_so_far();
    memset(out, 0, sizeof(*out));
    int rc = build_plan_open(&p, q, e);
    if (rc == 0) {
        rc = build(&p, &f, &t, out, e);
        if (rc < 0)
            error_at(e, q->output, -1);
        list_bad(&p, &t, out);
        take_shape(&p, &t, out);
    }
    out->is_kept = rc < 0 && t.rows > 0;
    build_files_close(&f, rc == 0 || out->is_kept);
    build_table_free(&t);
    build_plan_close(&p);
    out->seconds = (double)(clock_now_ns() - since) / 1e9;
    out->cpu_seconds = cpu_so_far() - cpu;
    return rc;
}

void build_result_free(struct build_result *r)
{
    free(r->skipped_list);
}
