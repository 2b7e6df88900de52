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
#include "host/proc/proc_mounts.h"
#include "model/snapshot.h"

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
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    m->cores = host_cores();
    m->online_cores = online > 0 ? (int)online : 0;
    m->memory_available_bytes = (double)host_memory_available();
    m->shm_free_bytes = statvfs("/dev/shm", &shm) == 0 ? (double)shm.f_bavail * (double)shm.f_frsize : 0;
    m->files_limit = limit_of(RLIMIT_NOFILE);
    m->processes_limit = limit_of(RLIMIT_NPROC);
    m->locked_bytes_limit = limit_of(RLIMIT_MEMLOCK);
    m->copy_bytes_per_s = probe_memory(1);
    m->copies_bytes_per_s = probe_memory(m->cores);
    gpu_open(&gpu, NULL, "/sys");
    snprintf(m->gpu, sizeof(m->gpu), "%s", gpu.name[0] ? gpu.name : gpu.reason);
    gpu_close(&gpu);
}

/* ---- the whole ---- */

static int look(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    FB_TRY(info_of(&q->options, &r->data, e));
    r->data.has_rows = r->data.has_rows && q->options.sample != FB_SAMPLE_FILE;
    look_at_machine(&r->machine);
    r->machine.is_bucket = strncmp(r->data.root, "s3://", strlen("s3://")) == 0;
    if (!r->machine.is_bucket)
        look_at_place(r->data.root, &r->machine);
    return 0;
}

int doctor_run(const struct doctor_request *q, struct doctor_result *r, struct fb_error *e)
{
    memset(r, 0, sizeof(*r));
    int rc = look(q, r, e);
    if (rc == 0)
        rc = doctor_measure(q, r, e);
    if (rc == 0)
        rc = probe_storage(&q->options, r->data.has_rows ? (uint64_t)r->sample_bytes : 0, &r->storage, e);
    if (rc == 0) {
        doctor_try_smaller(q, r);
        doctor_try_decoded(q, r);
        doctor_judge_chunks(r, q->options.memory ? (double)q->options.memory : (double)host_default_memory());
        doctor_predict(q, r);
    }
    if (rc == 0 && q->proves)
        rc = doctor_prove(q, r, e);
    if (rc < 0)
        doctor_free(r);
    return rc;
}

void doctor_free(struct doctor_result *r)
{
    info_free(&r->data);
    free(r->part.rows);
    r->part.rows = NULL;
}
