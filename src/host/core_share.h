/* How many cores a stretch of time had: those that this process used, those that its threads wanted in vain, those that others used.
 *
 * Only cores that this process may run on count (its affinity mask). Others' time has what the hypervisor took and what the kernel's own
 * threads did, some of it for us: on an idle machine it is a few hundredths, not 0. Ticks of 10 ms make a tenth of a second the least
 * stretch that says anything.
 */
#ifndef FB_HOST_CORE_SHARE_H
#define FB_HOST_CORE_SHARE_H

#include <stdint.h>

enum { CORE_SHARE_THREADS = 256 };

struct core_share {
    uint64_t since_ns, cpu_ns, busy_ns;
    int threads; /* the first of them that the kernel lists */
    struct {
        uint64_t id, no_core_ns;
    } thread[CORE_SHARE_THREADS];
};

/* Mean cores. NAN: the kernel does not tell. */
struct core_use {
    double used, delayed, others;
};

/* Any thread. Delays are those of threads that are alive at the end; what others of them waited before the beginning is left out. */
void core_share_begin(struct core_share *s);
struct core_use core_share_between(const struct core_share *begin, const struct core_share *end);

/* For tests: nanoseconds in which a core was busy, from the text of /proc/stat; only cores that `is_ours` names. */
uint64_t core_share_busy_ns(const char *stat, const unsigned char *is_ours, int cores);

#endif
