#include "jobs/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "host/gpu.h"
#include "host/host.h"
#include "host/proc_mounts.h"
#include "jobs/bench.h"
#include "model/snapshot.h"

static const uint64_t cold_most = 200000; /* samples; dropping more files from memory takes longer than it tells */

/* ---- the machine ---- */

static void look_at_place(const char *path, struct doctor_machine *m)
{
    struct stat s;
    struct mounts *mounts = malloc(sizeof(*mounts));
    const struct mount_entry *at = NULL;
    if (mounts && stat(path, &s) == 0 && mounts_read(mounts, "/proc", getpid(), "/sys"))
        at = mounts_find(mounts, s.st_dev);
    snprintf(m->kind, sizeof(m->kind), "%s", snapshot_file_kind_name(at ? at->kind : FILE_NONE));
    snprintf(m->mount, sizeof(m->mount), "%s", at ? at->point : "");
    snprintf(m->device, sizeof(m->device), "%s", at ? at->source : "");
    m->is_remote = at && mounts_is_remote(at->kind);
    free(mounts);
}

static void look_at_machine(struct doctor_machine *m)
{
    struct statvfs shm;
    struct rlimit files;
    struct gpu gpu;
    m->cores = host_cores();
    m->memory_available_bytes = (double)host_memory_available();
    m->shm_free_bytes = statvfs("/dev/shm", &shm) == 0 ? (double)shm.f_bavail * (double)shm.f_frsize : 0;
    m->files_limit = getrlimit(RLIMIT_NOFILE, &files) == 0 ? (double)files.rlim_cur : NAN;
    gpu_open(&gpu, NULL, "/sys");
    snprintf(m->gpu, sizeof(m->gpu), "%s", gpu.name[0] ? gpu.name : gpu.reason);
    gpu_close(&gpu);
}

/* ---- the measurement ---- */

static double demand_of(const struct bench_result *b, const char *stage)
{
    for (int i = 0; i < b->stage_count; i++)
        if (strcmp(b->stage[i].name, stage) == 0)
            return b->stage[i].items ? b->stage[i].busy_seconds / (double)b->stage[i].items : 0;
    return 0;
}

/* Warm, a small data set is gone through several times: one pass of a fraction of a second says little. */
static int measure(const struct doctor_request *q, const struct info *data, bool is_cold, struct bench_result *b, struct fb_error *e)
{
    struct bench_request request = {.options = q->options, .epochs = is_cold || data->samples > 2000 ? 1 : 3, .is_cold = is_cold};
    uint64_t limit = q->sample_limit ? q->sample_limit : 1000;
    if (limit < q->options.batch_size * 4)
        limit = q->options.batch_size * 4;
    if (limit < data->samples)
        request.options.fraction = (double)limit / (double)data->samples;
    return bench_run(&request, b, e);
}

static int measure_cold(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct bench_result b;
    r->cold_rate = r->evicted_share = NAN;
    bool can_evict = r->data.samples <= cold_most;
    FB_TRY(measure(q, &r->data, can_evict, &b, e));
    r->first_cpu_s = demand_of(&b, "decode") + demand_of(&b, "transform");
    r->read_s = demand_of(&b, "read");
    r->evicted_share = can_evict ? b.evicted_share : NAN;
    if (can_evict && b.evicted_share > 0.5)
        r->cold_rate = b.samples_per_second;
    bench_free(&b);
    return 0;
}

static int measure_warm(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct bench_result b;
    FB_TRY(measure(q, &r->data, false, &b, e));
    r->warm_rate = b.samples_per_second;
    r->decode_s = demand_of(&b, "decode");
    r->transform_s = demand_of(&b, "transform");
    r->known_cpu_s = r->decode_s + r->transform_s;
    r->machine.threads = b.threads;
    r->measured = b.samples;
    snprintf(r->io, sizeof(r->io), "%.15s", b.io);
    bench_free(&b);
    return 0;
}

int doctor_run(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    memset(r, 0, sizeof(*r));
    FB_TRY(info_of(&q->options, &r->data, e));
    look_at_machine(&r->machine);
    look_at_place(r->data.root, &r->machine);
    int rc = measure_cold(q, r, e);
    if (rc == 0)
        rc = measure_warm(q, r, e);
    if (rc < 0)
        doctor_free(r);
    else
        doctor_predict(q, r);
    return rc;
}

void doctor_free(struct doctor_result *r)
{
    info_free(&r->data);
}
