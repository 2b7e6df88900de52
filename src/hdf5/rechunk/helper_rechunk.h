/* `fullbore-hdf5 rechunk`: the same file with other chunks (model/hdf5/hdf5_rechunk.h). */
#ifndef FB_HDF5_RECHUNK_HELPER_RECHUNK_H
#define FB_HDF5_RECHUNK_HELPER_RECHUNK_H

#include "hdf5/helper.h"
#include "model/hdf5/hdf5_rechunk.h"

struct rechunk_object {
    haddr_t address; /* in the source */
    char *path;      /* in both */
};

struct rechunk {
    struct hdf5_rechunk q;
    hid_t from, to;
    unsigned long fileno;          /* of the source */
    struct rechunk_object *object; /* groups, datasets and types that are made already */
    uint32_t objects, room;
    int depth;
    uint64_t datasets, rechunked;
    uint64_t bytes, bytes_total, bytes_told;
    uint64_t bytes_read; /* since the last that were done */
    struct fb_error e;
};

/* ---- helper_rechunk.c ---- */

/* The whole run; returns the exit status. */
int rechunk_run(void);
void rechunk_tell(struct rechunk *r, uint64_t bytes);
/* The cause is libhdf5's last word. Returns false. */
bool rechunk_failed(struct rechunk *r, const char *what, const char *path);

/* ---- helper_rechunk_data.c ---- */

/* Makes the dataset `path` of the target from an open one and copies its data; references are left for the end. */
bool rechunk_dataset(struct rechunk *r, hid_t from, const char *path);
/* Its values are pointers to pieces of memory: variable length, in whatever it hides. */
bool rechunk_is_scattered(hid_t type);

/* ---- helper_rechunk_deflate.c ---- */

/* Shuffled and deflated as libhdf5's filters would, on several threads: `chunks` of chunk_bytes each, one behind the other. length[i]
 * becomes that of out[i], which is malloc'ed and the caller's; one that is 0 is left out. False: no memory. */
bool rechunk_deflate(const uint8_t *bytes, size_t chunk_bytes, uint64_t chunks, size_t element, bool shuffles, int level, uint32_t threads,
                     uint8_t **out, size_t *length);

/* ---- helper_rechunk_refs.c ---- */

/* Copies the values of what holds object references, which are other numbers in the target, to objects that exist by now. */
bool rechunk_refs_dataset(struct rechunk *r, hid_t from, hid_t to, const char *path);
bool rechunk_refs_attribute(struct rechunk *r, hid_t from, hid_t to, const char *path);

#endif
