/* Options as data: a table of (name, type, place, range, default, help) drives the command line, `key=value` specs and their help. */
#ifndef FB_BASE_TEXT_OPTIONS_H
#define FB_BASE_TEXT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum option_type {
    OPTION_FLAG,   /* bool; on the command line without a value */
    OPTION_INT,    /* int64_t */
    OPTION_DOUBLE, /* double */
    OPTION_SIZE,   /* uint64_t bytes: "64MiB" */
    OPTION_STRING, /* const char *, into the text that was parsed (specs) or argv */
    OPTION_CHOICE, /* int: index into `choices` */
    OPTION_NUMBERS /* struct option_numbers: "224,224" */
};

enum { OPTION_MAX_NUMBERS = 16 };

struct option_numbers {
    int count;
    double value[OPTION_MAX_NUMBERS];
};

struct option {
    const char *name; /* "batch-size" on the command line, "size" in a spec; '-' and '_' are the same */
    enum option_type type;
    size_t offset;              /* of the value in the target struct */
    double min, max;            /* numbers: inclusive range; both 0: any */
    const char *const *choices; /* OPTION_CHOICE: NULL-terminated */
    const char *metavar;        /* "N", "SIZE" */
    const char *help;           /* one line, with unit and default */
};

/* Sets one option from text. `stage` and `what` name the owner in errors ("transform", "resize"); `what` NULL: the command line. Table
 * ends with a NULL name. */
int option_set(const struct option *table, void *target, const char *name, const char *value, const char *stage, const char *what,
               struct fb_error *e);
const struct option *option_find(const struct option *table, const char *name);

/* Parses "key=value key=value" (separated by spaces). `spec` is changed in place and must outlive string values. */
int options_parse_spec(const struct option *table, void *target, char *spec, const char *stage, const char *what, struct fb_error *e);

#endif
