/* The rights that the program drops before it opens any file (sandbox.c). */
#ifndef FB_HDF5_SANDBOX_H
#define FB_HDF5_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What it is going to do. */
enum sandbox_kind {
    SANDBOX_READ,   /* reads files, answers on descriptor 0 */
    SANDBOX_ADOPT,  /* writes to descriptor 3, opens nothing */
    SANDBOX_RECHUNK /* reads files, writes to the file that is descriptor 3, has threads */
};

/* Environment, descriptors, limits: before libhdf5 is initialised. */
void sandbox_limits(enum sandbox_kind kind);
/* System calls and file access: afterwards, when everything is loaded. */
void sandbox_shut(enum sandbox_kind kind);
/* The end of the host is the end of the program, whatever it is doing. `host`: its process id. */
void sandbox_tie(enum sandbox_kind kind, pid_t host);
/* CPU seconds from now on; at their end the kernel sends SIGXCPU. */
void sandbox_cpu(uint32_t seconds);

/* For tests: tries what is shut and says what came of it, a line each. Returns the exit status. */
int sandbox_try(const char *what, const char *folder, pid_t host);

#endif
