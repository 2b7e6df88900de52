#include "dataset/store/store_url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text/text.h"

enum { BEATS = 16, LIST_AGE_S = 3600 };

bool s3_url_is(const char *source)
{
    return source && strncmp(source, "s3://", 5) == 0;
}

int s3_url_open(struct dataset_job *job, const char *url, const struct store_ops **ops, struct store **store, struct fb_error *e)
{
    for (const struct store_ops *const *s = job->request->stores; s && *s; s++)
        if (strcmp((*s)->scheme, "s3") == 0) {
            *ops = *s;
            return (*s)->open(store, url, &job->request->log, e);
        }
    error_set(e, FB_E_UNSUPPORTED, "dataset", "this command works on files, not on S3");
    error_remedy(e, "'fullbore stage' copies from S3 to a disk");
    error_at(e, url, -1);
    return FB_E_UNSUPPORTED;
}

int s3_url_set_io(struct dataset_job *job, struct fb_error *e)
{
    if (asprintf(&job->io, "s3:url=%s", job->root) >= 0)
        return 0;
    job->io = NULL;
    return error_set(e, FB_E_NOMEM, "dataset", "no memory");
}

/* scan_progress_report looks at the clock every 16th time only, since scans call it for every file; here every call is worth a look. */
int s3_url_beat(struct dataset_job *job, uint64_t seen, struct fb_error *e)
{
    for (int i = 0; i < BEATS; i++)
        FB_TRY(scan_progress_report(&job->progress, seen, 0, e));
    return 0;
}

bool s3_url_is_young(const struct dataset_job *job, const struct catalog *kept)
{
    const char *given = getenv("FULLBORE_S3_LIST_MAX_AGE");
    double most = LIST_AGE_S;
    const char *end;
    if (given && *given && !text_parse_double(given, &most, &end))
        most = 0; /* not a number: nothing is young enough */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)catalog_made_ns(kept) / 1e9;
    bool is_young = age >= 0 && age < most; /* from the future: a clock was set */
    if (is_young)
        log_line(&job->request->log, LOG_INFO, "%s: using the listing made %.0f s ago; set FULLBORE_S3_LIST_MAX_AGE=0 to list again",
                 job->root, age);
    return is_young;
}
