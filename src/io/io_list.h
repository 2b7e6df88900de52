/* The back-ends, and how they read their options: "name:key=value,key=value,over=name:...". */
#ifndef FB_IO_LIST_H
#define FB_IO_LIST_H

#include "base/text/options.h"
#include "io/io.h"

extern const struct io_ops io_uring_ops, io_pread, io_null, io_slow, io_fault, io_merge, io_s3;
extern const struct store_ops store_s3;

enum { IO_SPEC_MAX = 1024 };

/* A spec taken apart. String options point into `text`, so it lives as long as they. */
struct io_spec {
    char text[IO_SPEC_MAX];
    const char *over; /* all that follows "over=", commas and all; "pread" when nothing does */
};

/* Splits off over= and copies the rest; the options are still to be read from `text`. FB_E_USAGE: too long. */
int io_spec_split(struct io_spec *s, const char *name, const char *spec, struct fb_error *e);
/* Reads options separated by commas or spaces; changes `text`. */
int io_spec_options(const struct option *table, void *target, const char *name, char *text, struct fb_error *e);
/* For back-ends without options: FB_E_USAGE if there are any. */
int io_no_options(const char *name, const char *spec, struct fb_error *e);

#endif
