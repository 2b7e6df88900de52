#include "base/round_up.h"
#include "jobs/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/safe_path.h"
#include "base/clock.h"
#include "host/host.h"
#include "jobs/stage/stage_internal.h"

void stage_note(struct stage_job *j, const char *name, const char *why)
{
    char shown[600];
    pthread_mutex_lock(&j->lock);
    if (j->out->failed + j->out->damaged <= STAGE_NAMED)
        text_printf(&j->failed, "%s: %s\n", text_escape(name, shown, sizeof(shown)), why);
    pthread_mutex_unlock(&j->lock);
}

/* ---- before ---- */

static int refuse(struct fb_error *e, const char *cause, const char *remedy)
{
    return error_advise(e, error_set(e, FB_E_USAGE, "stage", "%s", cause), "%s", remedy);
}

static int check_options(const struct stage_request *q, struct fb_error *e)
{
    bool by_class = q->classes || q->class_count || q->per_class;
    int ways = by_class + (q->fraction < 1) + (q->keys != NULL);
    if (ways > 1)
        return refuse(e, "options for classes, --fraction and --keys cannot be combined", "use one of them");
    if (q->classes && q->class_count)
        return refuse(e, "classes are given by name and by number", "use one of them");
    return 0;
}

/* A target inside the source would be copied into itself. */
static int check_apart(const struct stage_request *q, struct fb_error *e)
{
    char above[PATH_MAX], target[PATH_MAX], source[PATH_MAX];
    if (strstr(q->source, "://") || !realpath(q->source, source) || strlen(q->target) >= sizeof(above))
        return 0;
    strcpy(above, q->target);
    while (!realpath(above, target)) {
        char *slash = strrchr(above, '/');
        if (!slash && !realpath(".", target))
            return 0;
        if (!slash)
            break;
        slash[slash == above ? 1 : 0] = 0;
    }
    size_t n = strlen(source);
    if (strncmp(target, source, n) != 0 || (target[n] && target[n] != '/'))
        return 0;
    return refuse(e, "the target lies inside the source, and nothing is ever written to a source", "stage to another place");
}

/* Folders on the way are made; as `mkdir -p`. */
static int open_target(struct stage_job *j, struct fb_error *e)
{
    char path[PATH_MAX];
    if (strlen(j->q->target) >= sizeof(path))
        return error_set(e, FB_E_USAGE, "stage", "the target's path is too long");
    strcpy(path, j->q->target);
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    mkdir(path, 0777);
    j->target_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (j->target_fd >= 0)
        return 0;
    int rc = error_set_errno(e, "stage", errno, "open or make the target folder");
    error_at(e, path, -1);
    return rc;
}

/* Is the file there, as the log says it was left? */
static bool is_there(const struct stage_job *j, const struct stage_item *item)
{
    const char *name = stage_name(&j->list, item->name);
    uint64_t unused;
    struct stat st;
    if (!safe_path_is_clean(name) || !stage_log_find(&j->log, name, item->size, item->mtime_ns, &unused))
        return false;
    if (fstatat(j->target_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return false;
    int64_t mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return (uint64_t)st.st_size == item->size && mtime_ns == item->mtime_ns;
}

static uint64_t find_there(struct stage_job *j)
{
    uint64_t needed = 0;
    for (uint64_t i = 0; i < j->list.count; i++) {
        struct stage_item *item = stage_item(&j->list, i);
        item->is_there = j->log.count && is_there(j, item);
        j->out->there += item->is_there;
        j->out->there_bytes += item->is_there ? item->size : 0;
        needed += item->is_there ? 0 : round_up(item->size, 4096);
    }
    return needed;
}

static int check_fits(const struct stage_result *out, const struct stage_request *q, struct fb_error *e)
{
    char need[32], have[32], keep[32];
    if (out->fits)
        return 0;
    error_set(e, FB_E_BUDGET, "stage", "it does not fit: %s are needed, %s are free%s, %s of that must stay free",
              text_size(out->needed_bytes, need, sizeof(need)), text_size(out->free_bytes, have, sizeof(have)),
              out->is_memory ? " in memory" : "", text_size(out->keep_bytes, keep, sizeof(keep)));
    if (out->fits_share >= 0.01 && !q->classes && !q->class_count && !q->per_class && !q->keys)
        error_remedy(e, "--fraction %.2f would fit", (int)(out->fits_share * 95) / 100.0 * (q->fraction < 1 ? q->fraction : 1));
    else
        error_remedy(e, "choose fewer classes, or another target");
    error_at(e, q->target, -1);
    return FB_E_BUDGET;
}

/* ---- the job ---- */

static int open_log(struct stage_job *j, struct fb_error *e)
{
    FB_TRY(open_target(j, e));
    j->has_log = true;
    return stage_log_open(&j->log, j->target_fd, j->q, e);
}

/* Says what there is to do and whether it can be done. A target that was not there is made only then. */
static int plan(struct stage_job *j, struct fb_error *e)
{
    const struct stage_request *q = j->q;
    struct stage_result *out = j->out;
    struct stat st;
    bool exists = stat(q->target, &st) == 0;
    FB_TRY(check_options(q, e));
    FB_TRY(check_apart(q, e));
    stage_fit(q, 0, host_memory_available(), out); /* names the devices */
    FB_TRY(stage_check_kind(q, out, e));
    FB_TRY(stage_list_make(&j->list, q, out, e));
    out->files = j->list.count;
    out->bytes = j->list.bytes;
    if (exists)
        FB_TRY(open_log(j, e));
    stage_fit(q, find_there(j), host_memory_available(), out);
    FB_TRY(check_fits(out, q, e));
    return exists || q->is_dry ? 0 : open_log(j, e);
}

static int stage_all(struct stage_job *j, struct fb_error *e)
{
    const struct stage_request *q = j->q;
    struct stage_result *out = j->out;
    FB_TRY(plan(j, e));
    if (q->is_dry)
        return 0;
    j->started_ns = clock_now_ns();
    j->log.must_sync = !out->is_memory;
    j->log.written_ns = j->started_ns;
    int rc = stage_copy(j, e);
    if (rc == 0 && out->copied && !out->is_memory && syncfs(j->target_fd) < 0)
        rc = error_set_errno(e, "stage", errno, "write everything to the disk");
    out->seconds = (double)(clock_now_ns() - j->started_ns) / 1e9;
    if (rc == 0 && q->verifies)
        rc = stage_verify(j, e);
    return rc;
}

int stage_run(const struct stage_request *q, struct stage_result *out, struct fb_error *e)
{
    memset(out, 0, sizeof(*out));
    struct stage_job j = {.q = q, .out = out, .target_fd = -1, .log = {.fd = -1}, .failed = {.limit = 4 << 20}};
    pthread_mutex_init(&j.lock, NULL);
    int rc = stage_all(&j, e);
    if (j.has_log)
        stage_log_close(&j.log);
    stage_list_free(&j.list);
    if (j.target_fd >= 0)
        close(j.target_fd);
    pthread_mutex_destroy(&j.lock);
    out->list = j.failed.data;
    return rc;
}

void stage_free(struct stage_result *r)
{
    free(r->list);
}
