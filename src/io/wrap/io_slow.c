/* "slow": the time of another device around a back-end that is faster: a rotating disk, a network file system, a store in the cloud.
 *
 *   latency_us=T   each read takes at least this long
 *   jitter_us=T    and up to this much longer, the same for the same path and offset
 *   iops=N         at most this many reads begin per second
 *   bandwidth=SIZE at most this many bytes per second
 *   ask_us=T       who asks for a file's size and time waits this long; a file system over a network
 *   seed=N         of the jitter
 *   over=SPEC      what reads (default pread); last
 *
 * Reads begin one after the other at the pace of iops, share the bandwidth in the order they came, and overlap in their latency, up to the
 * depth the back-end was opened with. Given the times of arrival, everything else follows. The inner read's own time comes on top.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/rng.h"
#include "io/io_shared.h"
#include "io/wrap/io_wrap.h"

struct slow {
    int64_t latency_us, jitter_us, ask_us, seed;
    double iops;
    uint64_t bandwidth;
    uint64_t next_start_ns, bus_free_ns; /* under the wrapper's lock */
};

static const struct option options[] = {
    {"latency_us", OPTION_INT, offsetof(struct slow, latency_us), 0, 6e8, NULL, "T", "microseconds each read takes at least (default 0)"},
    {"jitter_us", OPTION_INT, offsetof(struct slow, jitter_us), 0, 6e8, NULL, "T", "up to this many microseconds more (default 0)"},
    {"iops", OPTION_DOUBLE, offsetof(struct slow, iops), 0.001, 1e9, NULL, "N", "reads per second at most (default: no limit)"},
    {"bandwidth", OPTION_SIZE, offsetof(struct slow, bandwidth), 1, 1e15, NULL, "SIZE", "bytes per second at most (default: no limit)"},
    {"ask_us", OPTION_INT, offsetof(struct slow, ask_us), 0, 6e8, NULL, "T", "microseconds to be told a file's size and time (default 0)"},
    {"seed", OPTION_INT, offsetof(struct slow, seed), 0, 0, NULL, "N", "of the jitter (default 0)"},
    {0},
};

static uint64_t jitter_ns(const struct slow *s, const struct io_request *r)
{
    if (s->jitter_us == 0)
        return 0;
    uint64_t key = rng_mix((uint64_t)s->seed, checksum_of(r->path, strlen(r->path)));
    return rng_mix(key, r->offset) % ((uint64_t)s->jitter_us * 1000 + 1);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void admit(struct io_wrap *w, struct io_shadow *shadow)
{
    struct slow *s = w->policy;
    const struct io_request *r = shadow->outer;
    uint64_t start_ns = later(clock_now_ns(), s->next_start_ns);
    if (s->iops > 0)
        s->next_start_ns = start_ns + (uint64_t)(1e9 / s->iops);
    if (s->bandwidth > 0) {
        double bytes = (double)(r->length == IO_WHOLE ? r->expected_size : r->length);
        start_ns = s->bus_free_ns = later(start_ns, s->bus_free_ns) + (uint64_t)(bytes * 1e9 / (double)s->bandwidth);
    }
    shadow->due_ns = start_ns + (uint64_t)s->latency_us * 1000 + jitter_ns(s, r);
}

static uint64_t ask_ns(const struct io *io)
{
    const struct slow *s = ((const struct io_wrap *)io)->policy;
    return (uint64_t)s->ask_us * 1000;
}

static void free_policy(struct io_wrap *w)
{
    free(w->policy);
}

static int slow_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct io_spec parts;
    struct slow o = {0};
    FB_TRY(io_spec_split(&parts, "slow", spec, e));
    FB_TRY(io_spec_options(options, &o, "slow", parts.text, e));
    struct slow *s = io_alloc(sizeof(*s), e);
    if (!s)
        return FB_E_NOMEM;
    *s = o;
    struct io_wrap init = {.io.ops = &io_slow, .admit = admit, .free_policy = free_policy, .policy = s, .has_timer = true};
    return io_wrap_open(out, &init, parts.over, depth, log, e);
}

const struct io_ops io_slow = {
    .name = "slow",
    .open = slow_open,
    .submit = io_wrap_submit,
    .ask_ns = ask_ns,
    .figures = io_wrap_figures,
    .close = io_wrap_close,
};
