/* fullbore-hdf5: the parts of the program that opens HDF5 files for the library.
 *
 * The only code that is linked with libhdf5. It may crash, hang or run out of memory on a hostile file: the library notices, kills it,
 * starts another, and calls the file bad. One thread; reads files, writes nothing.
 */
#ifndef FB_HDF5_HELPER_H
#define FB_HDF5_HELPER_H

#include <hdf5.h>

#include "model/array/array.h"

/* ---- helper_file.c: opening, through a driver of our own ---- */

/* FB_E_NOT_FOUND, FB_E_IO, FB_E_DATA; H5Fclose ends it. */
int file_open(const char *path, hid_t *file, uint64_t *size, struct fb_error *e);

/* Called with the bytes of every read from now on. */
void file_on_read(void (*call)(size_t bytes));

/* Where a chunk lies, at `at` in numbers: what H5Dread_chunk would read, caught by the driver. ARRAY_NO_CHUNK: never written. */
int file_find_chunk(hid_t dataset, const hsize_t *at, struct array_chunk *c);

/* ---- helper_type.c: element types ---- */

/* How the elements of a dataset come out. */
struct form {
    enum fb_dtype dtype;
    enum array_code code;
    int ndim; /* dimensions inside an element: array types, bytes of a compound */
    uint64_t shape[FB_MAX_DIMS];
    bool is_plain;  /* numbers as they are in the file: the library reads them itself */
    bool is_ragged; /* variable-length numbers, padded to the longest */
    hid_t memory;   /* what H5Dread is asked for, when not plain; H5I_INVALID_HID: there is no numeric form */
    char why[96];   /* when not plain */
};

/* Of a type in the file. form_close frees `memory`. */
void form_of(hid_t type, struct form *f);
void form_close(struct form *f);

/* ---- helper_layout.c, helper_walk.c ---- */

struct description {
    struct array_file file;
    struct array_layout array[ARRAY_MAX_IN_FILE];
    void *owned[ARRAY_MAX_IN_FILE]; /* chunk table or inline bytes of each */
    uint64_t chunks;                /* in all tables */
    bool allows_external;
};

/* Every dataset of the file, those of the root group first; description_free ends it, also after a failure. */
int describe_file(hid_t file, uint64_t size, bool allows_external, struct description *d, struct fb_error *e);
void description_free(struct description *d);

/* Adds one open dataset. */
int describe_dataset(struct description *d, hid_t dataset, const char *name, bool is_elsewhere, struct fb_error *e);
/* Adds a name that leads out of the file and is not followed. */
void describe_external(struct description *d, const char *name);

/* The data of a dataset with these properties lies outside its file: how, in words; NULL: it does not. */
const char *data_elsewhere(hid_t creation);

/* Links that lead to other files are followed or refused by this link access list. */
hid_t walk_access(bool allows_external);

/* ---- helper_rows.c ---- */

/* Rows of a dataset as numbers of its form: `bytes` of them into malloc'ed memory. */
int read_rows(hid_t file, const char *name, bool allows_external, uint64_t first, uint64_t rows, uint64_t bytes, void **out,
              struct fb_error *e);

/* Length of the longest element of a variable-length dataset; -1: too many to look at. */
int64_t longest_element(hid_t dataset, const struct form *f);

/* ---- helper.c ---- */

/* Tells the host, at most once a second, that the work goes on. */
void helper_beat(uint64_t done, uint64_t total);

/* FB_E_DATA with what libhdf5 says about its last failure; FB_E_UNSUPPORTED if the file seems newer than the library. */
int hdf5_failed(struct fb_error *e, const char *what, const char *name);

#endif
