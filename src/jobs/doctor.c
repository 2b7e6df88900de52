#include "jobs/doctor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "host/gpu.h"
#include "host/host.h"
#include "host/machine_sample.h"
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

static double limit_of(__rlimit_resource_t which)
{
    struct rlimit l;
    if (getrlimit(which, &l) < 0)
        return NAN;
    return l.rlim_cur == RLIM_INFINITY ? INFINITY : (double)l.rlim_cur;
}

static void look_at_machine(struct doctor_machine *m)
{
    struct statvfs shm;
    struct gpu gpu;
    m->cores = host_cores();
    m->memory_available_bytes = (double)host_memory_available();
    m->shm_free_bytes = statvfs("/dev/shm", &shm) == 0 ? (double)shm.f_bavail * (double)shm.f_frsize : 0;
    m->files_limit = limit_of(RLIMIT_NOFILE);
    m->processes_limit = limit_of(RLIMIT_NPROC);
    m->locked_bytes_limit = limit_of(RLIMIT_MEMLOCK);
    m->copy_bytes_per_s = probe_memory();
    gpu_open(&gpu, NULL, "/sys");
    snprintf(m->gpu, sizeof(m->gpu), "%s", gpu.name[0] ? gpu.name : gpu.reason);
    gpu_close(&gpu);
}

/* ---- the measurement ---- */

double doctor_cpu(const struct bench_result *b, uint64_t batch_size)
{
    double first = (double)batch_size, delivered = (double)b->samples - first, decoded = delivered;
    for (int i = 0; i < b->stage_count; i++)
        if (strcmp(b->stage[i].name, "decode") == 0 && (double)b->stage[i].items > first)
            decoded = (double)b->stage[i].items - first;
    return decoded > 0 && delivered > 0 ? b->cpu_seconds_per_1000_samples / 1000 * delivered / decoded : 0;
}

double doctor_stage(const struct bench_result *b, const char *stage)
{
    for (int i = 0; i < b->stage_count; i++)
        if (strcmp(b->stage[i].name, stage) == 0)
            return b->stage[i].items ? b->stage[i].busy_seconds / (double)b->stage[i].items : 0;
    return 0;
}

/* Warm, the samples are gone through several times: one pass of a fraction of a second says little. */
static int measure(const struct doctor_request *q, const struct info *data, bool is_cold, struct bench_result *b, struct fb_error *e)
{
    struct bench_request request = {.options = q->options, .epochs = is_cold ? 1 : 3, .is_cold = is_cold};
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
    r->first_cpu_s = doctor_cpu(&b, q->options.batch_size);
    r->read_s = doctor_stage(&b, "read");
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
    r->decode_s = doctor_stage(&b, "decode");
    r->transform_s = doctor_stage(&b, "transform");
    r->known_cpu_s = doctor_cpu(&b, q->options.batch_size);
    r->machine.threads = b.threads;
    r->measured = b.samples;
    snprintf(r->io, sizeof(r->io), "%.15s", b.io);
    bench_free(&b);
    return 0;
}

/* Cores that others used between two looks: the machine's less our own. */
static double others_cores(struct machine_sampler *m, uint64_t since_ns, uint64_t cpu_since_ns)
{
    struct snapshot s = {0};
    double wall = (double)(clock_now_ns() - since_ns) / 1e9;
    machine_take(m, 0, wall, &s);
    double own = (double)(clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_since_ns) / 1e9 / wall;
    return fmax(0, s.cpu_ratio * (double)sysconf(_SC_NPROCESSORS_ONLN) - own);
}

static int measure_both(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    struct machine_sampler *machine = calloc(1, sizeof(*machine));
    struct snapshot ignored = {0};
    uint64_t since = clock_now_ns(), cpu = clock_cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (!machine)
        return error_set(e, FB_E_NOMEM, "doctor", "no memory");
    machine_open(machine, "/proc", "/sys", "/sys/fs/cgroup", getpid());
    machine_take(machine, 0, 0, &ignored);
    int rc = measure_cold(q, r, e);
    if (rc == 0)
        rc = measure_warm(q, r, e);
    r->others_cores = others_cores(machine, since, cpu);
    free(machine);
    return rc;
}

int doctor_run(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    memset(r, 0, sizeof(*r));
    FB_TRY(info_of(&q->options, &r->data, e));
    look_at_machine(&r->machine);
    look_at_place(r->data.root, &r->machine);
    int rc = measure_both(q, r, e);
    if (rc == 0)
        rc = probe_storage(&q->options, &r->storage, e);
    if (rc == 0)
        rc = doctor_try_smaller(q, r, e);
    if (rc == 0)
        doctor_predict(q, r);
    if (rc == 0 && q->proves)
        rc = doctor_prove(q, r, e);
    if (rc < 0)
        doctor_free(r);
    return rc;
}

void doctor_free(struct doctor_result *r)
{
    info_free(&r->data);
}
