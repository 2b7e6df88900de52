/* The loop: looks at the threads about 20 times a second, a snapshot twice a second, new processes four times a second; what the watched
 * program tells of its own loop (meter/marks.h) goes into the snapshots.
 */
#include "jobs/watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "monitor/loop_marks.h"
#include "monitor/observer.h"
#include "jobs/watch/watch_child.h"
#include "monitor/live_line.h"
#include "meter/recording.h"

struct watch {
    struct watch_child child;
    struct observer observer;
    struct marks_reader marks;
    struct loop_marks told;
    struct watch_line line;
    struct recording_writer *recording;
    bool line_is_on, is_looking;
};

static const uint64_t marks_least_ns = 20000000; /* a last interval so short is kept for the marks in it */

/* ---- what comes in ---- */

/* Marks of the interval: into the row, and into the recording with times of its own clock. */
static void take_marks(void *ctx, struct snapshot *row)
{
    struct watch *w = ctx;
    struct mark m[512];
    int n;
    while ((n = marks_take(&w->marks, m, 512)) > 0) {
        loop_marks_add(&w->told, m, n);
        for (int i = 0; i < n; i++)
            m[i].at_ns = m[i].at_ns > w->observer.started_ns ? m[i].at_ns - w->observer.started_ns : 0;
        if (w->recording)
            recording_mark(w->recording, m, n);
    }
    loop_marks_take(&w->told, row);
}

static void show_row(struct watch *w)
{
    if (w->recording && w->observer.series.count == 4)
        recording_note(w->recording, &w->observer.facts);
    if (w->recording)
        recording_add(w->recording, &w->observer.row);
    if (w->line_is_on)
        watch_line_show(&w->line, w->observer.row.at_s, &w->observer.series, &w->observer.facts);
}

/* ---- what comes out ---- */

static void print_verdict(struct watch *w)
{
    struct verdict v;
    struct text t = {.limit = 1 << 16};
    diagnose(&w->observer.series, &w->observer.facts, &v);
    verdict_print(&v, &w->observer.facts, &t);
    if (t.data)
        fprintf(stderr, "fullbore: %s", t.data);
    text_free(&t);
}

static int write_summary(struct watch *w, const struct watch_request *r, struct fb_error *e)
{
    struct verdict v;
    struct text t = {.limit = 1 << 24};
    diagnose(&w->observer.series, &w->observer.facts, &v);
    verdict_json(&v, &w->observer.facts, &w->observer.series, &(struct json_writer){.out = &t});
    int rc = t.failed || !t.data ? error_set(e, FB_E_NOMEM, "watch", "no memory for the summary") : 0;
    if (rc == 0 && r->json)
        fputs(t.data, stdout);
    FILE *f = rc == 0 && r->summary ? fopen(r->summary, "we") : NULL;
    if (rc == 0 && r->summary && (!f || fputs(t.data, f) < 0))
        rc = error_set_errno(e, "watch", errno, "write %s", r->summary);
    if (f && fclose(f) != 0 && rc == 0)
        rc = error_set_errno(e, "watch", errno, "write %s", r->summary);
    text_free(&t);
    return rc;
}

static void run(struct watch *w)
{
    bool wants_end = false;
    while (!w->child.has_ended && !wants_end) {
        bool wants_verdict = false, is_resized = false;
        watch_child_wait(&w->child, w->observer.tick_at, &wants_verdict, &wants_end, &is_resized);
        if (is_resized && w->line_is_on)
            watch_line_resize(&w->line);
        if (wants_verdict)
            print_verdict(w);
        if (clock_now_ns() >= w->observer.tick_at && observer_step(&w->observer))
            show_row(w);
    }
    uint64_t now = clock_now_ns(), least_ns = w->told.loops ? marks_least_ns : w->observer.interval_ns / 4;
    if (now - w->observer.sampler.interval_ns > least_ns) {
        observer_take(&w->observer, now);
        show_row(w);
    }
    w->observer.facts.exit_code = w->child.is_child ? w->child.exit_code : NAN;
}

/* No /proc, as in some containers: the program has been started and is not to suffer. */
static void wait_unwatched(struct watch_child *c)
{
    fprintf(stderr, "fullbore: /proc does not show the program, so it cannot be watched; it runs on, unwatched\n");
    while (!c->has_ended) {
        bool ignored[3];
        watch_child_wait(c, clock_now_ns() + 1000000000u, &ignored[0], &ignored[1], &ignored[2]);
    }
}

/* Where the program may tell what its loop does; without such a file it is watched from outside only. */
static void offer_marks(struct watch *w)
{
    if (marks_reader_open(&w->marks))
        setenv("FULLBORE_MARKS", w->marks.path, 1);
    else
        unsetenv("FULLBORE_MARKS");
}

static int open_all(struct watch *w, const struct watch_request *r, struct fb_error *e)
{
    if (r->command)
        offer_marks(w);
    FB_TRY(watch_child_open(&w->child, r->command, r->pid, e));
    int rc = observer_open(&w->observer, w->child.pid, w->child.is_child, r->interval_s, e);
    if (rc < 0 && w->child.is_child)
        wait_unwatched(&w->child);
    FB_TRY(rc);
    w->is_looking = true;
    if (!r->no_stacks)
        sampler_read_stacks(&w->observer.sampler);
    w->observer.tell = take_marks;
    w->observer.ctx = w;
    w->line_is_on = !r->quiet;
    if (w->line_is_on)
        watch_line_open(&w->line, r->line_s);
    return 0;
}

int watch_run(const struct watch_request *r, int *exit_code, struct fb_error *e)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(e, FB_E_NOMEM, "watch", "no memory");
    w->child.signal_fd = w->child.pid_fd = w->marks.fd = -1;
    int rc = 0;
    if (r->recording)
        rc = recording_create(&w->recording, r->recording, e); /* before the child: a path that cannot be written stops nothing halfway */
    if (rc == 0)
        rc = open_all(w, r, e);
    if (w->child.has_ended && rc < 0)
        *exit_code = w->child.exit_code;
    if (rc == 0) {
        run(w);
        watch_line_close(&w->line);
        print_verdict(w);
        *exit_code = w->child.is_child ? w->child.exit_code : 0;
        if (r->summary || r->json)
            rc = write_summary(w, r, e);
    }
    if (w->recording) {
        int closed = recording_close(w->recording, &w->observer.facts, e);
        rc = rc < 0 ? rc : closed;
    }
    if (w->is_looking)
        observer_close(&w->observer);
    marks_reader_close(&w->marks);
    watch_child_close(&w->child);
    free(w);
    return rc;
}
