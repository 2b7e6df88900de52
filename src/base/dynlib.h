/* Libraries that are opened when they are first needed.
 *
 * A library that brings thirty others along costs every start of the program 5 to 10 ms of linking, though few runs need it (libcurl: only
 * for object stores; libsndfile: only for compressed sound). Such a library is opened by name on first use instead; its absence is then an
 * error of that use, with a remedy, not of the whole program.
 *
 * A table of calls is a struct of function pointers whose types come from the library's own header.
 */
#ifndef FB_BASE_DYNLIB_H
#define FB_BASE_DYNLIB_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct dynlib_call {
    const char *name; /* in the library */
    size_t at;        /* of the pointer in the table */
    bool may_lack;    /* the pointer is NULL then */
};

struct dynlib {
    const char *what;         /* for messages: "libcurl", "CUDA driver" */
    const char *const *names; /* file names to try, in this order; NULL ends them */
    const char *stage, *remedy;
    const struct dynlib_call *calls; /* name NULL ends them */
};

/* A member of the table, of the type that the library's header gives the function; and its line in `calls`. */
#define DYNLIB_MEMBER(member, function) __typeof__(&function) member
#define DYNLIB_CALL(type, member, function) {#function, offsetof(struct type, member), false}

/* Opens the library and fills the table; it stays open for good. FB_E_UNSUPPORTED: it is not there, or lacks a function. Blocks on the
 * linker; any thread, but the caller sees to it that two do not fill one table. */
int dynlib_open(const struct dynlib *l, void *table, struct fb_error *e);

#endif
