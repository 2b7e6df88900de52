/* Sources that are URLs of a store: finding the store, and what its kinds of data sets share. */
#ifndef FB_DATASET_STORE_STORE_URL_H
#define FB_DATASET_STORE_STORE_URL_H

#include "dataset/dataset_ops.h"

/* Is it a URL of an S3 store? (Of one that there may be no back-end for.) */
bool s3_url_is(const char *source);

/* Opens the store of `url`. FB_E_UNSUPPORTED: this program has none. */
int s3_url_open(struct dataset_job *job, const char *url, const struct store_ops **ops, struct store **store, struct fb_error *e);

/* Sets job->io for a root; FB_E_NOMEM. */
int s3_url_set_io(struct dataset_job *job, struct fb_error *e);

/* Scan progress as a store_wait; ctx is the job. `seen` of them so far. */
int s3_url_beat(struct dataset_job *job, uint64_t seen, struct fb_error *e);

/* How old a kept listing may be, in seconds: FULLBORE_S3_LIST_MAX_AGE, an hour if that is not set. Says so when it is used. */
bool s3_url_is_young(const struct dataset_job *job, const struct catalog *kept);

#endif
