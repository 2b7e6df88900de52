/* Watching any training program: a live line, a verdict at the end, a recording. */
#ifndef FB_JOBS_WATCH_H
#define FB_JOBS_WATCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct watch_request {
    char **command; /* argv to start, NULL-terminated; NULL: watch `pid` */
    pid_t pid;
    double interval_s;     /* of a snapshot; 0: 0.5 */
    double line_s;         /* between lines when stderr is no terminal; 0: 10 */
    const char *summary;   /* JSON file, or NULL */
    const char *recording; /* .fbr file, or NULL */
    bool json;             /* the summary on stdout too */
    bool quiet;            /* no live line */
    bool no_stacks;        /* Python stacks are not read */
};

/* Runs until the program ends. *exit_code: the child's (128 + signal if a signal ended it); 0 with a pid. */
int watch_run(const struct watch_request *r, int *exit_code, struct fb_error *e);

#endif
