/* "fault": makes reads fail, by rule. Rules are separated by ';', their options by ','. The first rule that fires decides.
 *
 * What happens (one per rule):
 *   error=EIO      the read fails with that errno (a name of the table below, or a number); at=open or at=read (default)
 *   short=SIZE     the file ends after SIZE bytes
 *   shrink=SIZE    the file ends after SIZE bytes although it was larger when opened: the failure io/ reports for that
 *   grow=SIZE      the file is SIZE zeros longer: IO_GREW, or the longer content if the buffer holds it
 *   hang           the read never ends; close gets it back
 *   stuck          the read never ends, and close has to leave it behind
 * When (all that are given must hold; none: always):
 *   path=TEXT      the path contains it
 *   nth=N          the Nth request that got this far in the rule (from 1); with forever every one from there on
 *   every=N        every Nth
 *   p=P            with this probability, decided by seed, path and offset: the same files whatever the threads do
 *   times=N        at most this many times
 *   seed=N         of p
 * Last: over=SPEC what reads (default pread).
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/rng.h"
#include "base/text/text.h"
#include "io/file/file_read.h"
#include "io/io_shared.h"
#include "io/wrap/io_wrap.h"

enum { RULES_MAX = 16 };
static const char *const stages[] = {"read", "open", NULL};
enum { AT_READ, AT_OPEN };
#define NOT_GIVEN UINT64_MAX

struct rule {
    const char *error_name;
    int sys_errno, at;
    uint64_t short_to, shrink_to, grow_by; /* NOT_GIVEN */
    bool is_hang, is_stuck;

    const char *path;
    int64_t nth, every, times, seed;
    double p; /* < 0: not given */
    bool is_forever;
    uint64_t seen, fired; /* under the wrapper's lock */
};

struct fault {
    struct io_spec spec; /* holds the strings of the rules */
    struct rule rules[RULES_MAX];
    int rule_count;
};

#define AT(field) offsetof(struct rule, field)
static const struct option options[] = {
    {"error", OPTION_STRING, AT(error_name), 0, 0, NULL, "ERRNO", "fail with it"},
    {"at", OPTION_CHOICE, AT(at), 0, 0, stages, "STAGE", "where the error occurs (default read)"},
    {"short", OPTION_SIZE, AT(short_to), 0, 0, NULL, "SIZE", "the file ends there"},
    {"shrink", OPTION_SIZE, AT(shrink_to), 0, 0, NULL, "SIZE", "the file shrinks to it while being read"},
    {"grow", OPTION_SIZE, AT(grow_by), 1, 1e15, NULL, "SIZE", "the file is longer by this much"},
    {"hang", OPTION_FLAG, AT(is_hang), 0, 0, NULL, NULL, "never ends before close"},
    {"stuck", OPTION_FLAG, AT(is_stuck), 0, 0, NULL, NULL, "never ends at all"},
    {"path", OPTION_STRING, AT(path), 0, 0, NULL, "TEXT", "only paths that contain it"},
    {"nth", OPTION_INT, AT(nth), 1, 1e18, NULL, "N", "only the Nth"},
    {"forever", OPTION_FLAG, AT(is_forever), 0, 0, NULL, NULL, "with nth: all later ones, too"},
    {"every", OPTION_INT, AT(every), 1, 1e18, NULL, "N", "every Nth"},
    {"times", OPTION_INT, AT(times), 1, 1e18, NULL, "N", "at most this many times"},
    {"p", OPTION_DOUBLE, AT(p), 0, 1, NULL, "P", "with this probability"},
    {"seed", OPTION_INT, AT(seed), 0, 0, NULL, "N", "of p (default 0)"},
    {0},
};

/* ---- when ---- */

static bool is_drawn(const struct rule *u, const struct io_request *r)
{
    uint64_t key = rng_mix((uint64_t)u->seed, checksum_of(r->path, strlen(r->path)));
    return (double)(rng_mix(key, r->offset) >> 11) * 0x1.0p-53 < u->p;
}

static bool fires(struct rule *u, const struct io_request *r)
{
    if ((u->path && !strstr(r->path, u->path)) || (u->p >= 0 && !is_drawn(u, r)))
        return false;
    u->seen++;
    if (u->nth && (u->is_forever ? u->seen < (uint64_t)u->nth : u->seen != (uint64_t)u->nth))
        return false;
    if ((u->every && u->seen % (uint64_t)u->every != 0) || (u->times && u->fired >= (uint64_t)u->times))
        return false;
    u->fired++;
    return true;
}

static void admit(struct io_wrap *w, struct io_shadow *s)
{
    struct fault *f = w->policy;
    for (int i = 0; i < f->rule_count && !s->verdict; i++)
        if (fires(&f->rules[i], s->outer))
            s->verdict = &f->rules[i];
    const struct rule *u = s->verdict;
    if (!u)
        return;
    s->is_over = u->sys_errno != 0;
    s->is_stuck = u->is_stuck;
    if (u->is_hang || u->is_stuck)
        s->due_ns = IO_NEVER;
}

/* ---- what ---- */

static void cut(struct io_request *r, uint64_t size)
{
    uint64_t from = r->length == IO_WHOLE ? 0 : r->offset;
    uint64_t left = size > from ? size - from : 0;
    r->object_size = size < r->object_size ? size : r->object_size;
    r->got = r->got < left ? r->got : left;
}

static void lengthen(struct io_request *r, uint64_t by)
{
    r->object_size += by;
    if (r->length != IO_WHOLE)
        return;
    if (r->object_size > r->capacity - IO_TAIL) {
        r->got = 0;
        r->status = IO_GREW;
        return;
    }
    memset(r->buffer + r->got, 0, by);
    r->got = r->object_size;
}

static void finish(struct io_wrap *w, struct io_shadow *s)
{
    (void)w;
    const struct rule *u = s->verdict;
    struct io_request *r = s->outer;
    if (!u)
        return;
    if (u->sys_errno && u->at == AT_OPEN)
        io_file_fail_open(r, u->sys_errno);
    else if (u->sys_errno)
        io_file_fail_read(r, 0, u->sys_errno);
    else if (r->status != 0)
        return;
    else if (u->short_to != NOT_GIVEN)
        cut(r, u->short_to);
    else if (u->shrink_to != NOT_GIVEN && u->shrink_to < r->got)
        io_file_fail_shrunk(r, r->got, u->shrink_to);
    else if (u->grow_by != NOT_GIVEN)
        lengthen(r, u->grow_by);
}

/* ---- rules ---- */

static int errno_of(const char *name)
{
    static const struct {
        const char *name;
        int sys_errno;
    } known[] = {{"EIO", EIO},       {"EMFILE", EMFILE}, {"ENFILE", ENFILE}, {"ENOMEM", ENOMEM}, {"ENOENT", ENOENT},
                 {"EACCES", EACCES}, {"EPERM", EPERM},   {"ESTALE", ESTALE}, {"EISDIR", EISDIR}, {"ETIMEDOUT", ETIMEDOUT}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].sys_errno;
    char *end;
    long number = strtol(name, &end, 10);
    return *name && !*end && number > 0 && number < 4096 ? (int)number : 0;
}

static int check_rule(struct rule *u, struct fb_error *e)
{
    char shown[64];
    if (u->error_name && !(u->sys_errno = errno_of(u->error_name)))
        return error_set(e, FB_E_USAGE, "read", "fault: error=%s is not a known errno", text_escape(u->error_name, shown, sizeof(shown)));
    int kinds = (u->sys_errno != 0) + (u->short_to != NOT_GIVEN) + (u->shrink_to != NOT_GIVEN) + (u->grow_by != NOT_GIVEN) + u->is_hang +
                u->is_stuck;
    if (kinds == 1)
        return 0;
    error_set(e, FB_E_USAGE, "read", "fault: a rule says %s should happen", kinds ? "more than one thing that" : "nothing that");
    error_remedy(e, "give one of error=, short=, shrink=, grow=, hang, stuck; separate rules by ';'");
    return FB_E_USAGE;
}

static int parse_rules(struct fault *f, struct fb_error *e)
{
    char *save = NULL;
    for (char *text = strtok_r(f->spec.text, ";", &save); text; text = strtok_r(NULL, ";", &save)) {
        if (f->rule_count == RULES_MAX)
            return error_set(e, FB_E_USAGE, "read", "fault: more than %d rules", RULES_MAX);
        struct rule *u = &f->rules[f->rule_count];
        *u = (struct rule){.short_to = NOT_GIVEN, .shrink_to = NOT_GIVEN, .grow_by = NOT_GIVEN, .p = -1};
        FB_TRY(io_spec_options(options, u, "fault", text, e));
        FB_TRY(check_rule(u, e));
        f->rule_count++;
    }
    return 0;
}

static void free_policy(struct io_wrap *w)
{
    free(w->policy);
}

static int fault_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct fault *f = io_alloc(sizeof(*f), e);
    if (!f)
        return FB_E_NOMEM;
    int rc = io_spec_split(&f->spec, "fault", spec, e);
    if (rc == 0)
        rc = parse_rules(f, e);
    if (rc < 0) {
        free(f);
        return rc;
    }
    struct io_wrap init = {.io.ops = &io_fault, .admit = admit, .finish = finish, .free_policy = free_policy, .policy = f};
    return io_wrap_open(out, &init, f->spec.over, depth, log, e);
}

const struct io_ops io_fault = {
    .name = "fault",
    .open = fault_open,
    .submit = io_wrap_submit,
    .figures = io_wrap_figures,
    .close = io_wrap_close,
};
