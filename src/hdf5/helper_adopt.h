/* `fullbore-hdf5 adopt`: an HDF5 file around data that is in its place already (model/hdf5/hdf5_adopt.h). */
#ifndef FB_HDF5_HELPER_ADOPT_H
#define FB_HDF5_HELPER_ADOPT_H

#include <hdf5.h>
#include <stdbool.h>

#include "model/hdf5/hdf5_adopt.h"

/* ---- helper_adopt_file.c: the driver ---- */

void adopt_set_end(uint64_t end);
/* The next room for data that libhdf5 asks for is this; it must ask for exactly so much. */
void adopt_plan(uint64_t offset, uint64_t bytes);
bool adopt_plan_was_used(void);
/* A new file in descriptor HDF5_ADOPT_FD. Negative: libhdf5 failed. */
hid_t adopt_create(void);

/* ---- helper_adopt.c ---- */

/* The whole run; returns the exit status. */
int adopt_run(void);

#endif
