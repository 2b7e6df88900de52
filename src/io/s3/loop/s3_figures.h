/* What the s3 back-end's loop has done, for benches and tests that opened it by name. */
#ifndef FB_IO_S3_LOOP_S3_FIGURES_H
#define FB_IO_S3_LOOP_S3_FIGURES_H

#include "io/s3/loop/s3_loop.h"
#include "model/io_ops.h"

void io_s3_figures(struct io *io, struct s3_loop_figures *f);

#endif
