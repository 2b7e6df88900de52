/* The libhdf5 driver for `adopt`: one file that is open already. When libhdf5 asks for space for data, it gets the place where the data
 * already lies; structure gets space behind all data. Writing data does nothing, because it is there already. So libhdf5 stores our
 * addresses, and its own allocator is not used.
 *
 * The driver declares no aggregation, so every request for space reaches it unchanged.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/round_up.h"
#include "hdf5/helper_adopt.h"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

struct adopt_file {
    H5FD_t common; /* first: libhdf5 casts */
    int fd;
    haddr_t end_of_addresses;
};

static struct {
    haddr_t end;           /* of the data */
    haddr_t planned;       /* where the next data lies */
    hsize_t planned_bytes; /* 0: none is expected */
} place;

void adopt_set_end(uint64_t end)
{
    place.end = round_up(end, 8);
}

void adopt_plan(uint64_t offset, uint64_t bytes)
{
    place.planned = offset;
    place.planned_bytes = bytes;
}

bool adopt_plan_was_used(void)
{
    return place.planned_bytes == 0;
}

static H5FD_t *adopt_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    (void)name, (void)flags, (void)fapl, (void)maxaddr;
    struct adopt_file *f = calloc(1, sizeof(*f));
    if (!f)
        return NULL;
    f->fd = HDF5_ADOPT_FD;
    return &f->common;
}

static herr_t adopt_close(H5FD_t *file)
{
    free(file);
    return 0;
}

static int adopt_cmp(const H5FD_t *a, const H5FD_t *b)
{
    return a < b ? -1 : a > b;
}

static herr_t adopt_query(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

/* The superblock comes first and is asked for first. The heap of variable-length text asks as if it were data; nothing is planned then. */
static haddr_t adopt_alloc(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, hsize_t size)
{
    struct adopt_file *f = (struct adopt_file *)file;
    (void)dxpl;
    if (type == H5FD_MEM_DRAW && place.planned_bytes) {
        if (place.planned_bytes != size)
            return HADDR_UNDEF;
        place.planned_bytes = 0;
        return place.planned;
    }
    if (f->end_of_addresses == 0 && size <= HDF5_ADOPT_FIRST) {
        f->end_of_addresses = place.end;
        return 0;
    }
    haddr_t at = round_up(f->end_of_addresses, 8);
    f->end_of_addresses = at + size;
    return at;
}

static haddr_t adopt_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const struct adopt_file *)file)->end_of_addresses;
}

static herr_t adopt_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((struct adopt_file *)file)->end_of_addresses = address;
    return 0;
}

/* Empty until it has a superblock: else libhdf5 would look for one. */
static haddr_t adopt_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    const struct adopt_file *f = (const struct adopt_file *)file;
    struct stat st;
    (void)type;
    return f->end_of_addresses == 0 ? 0 : fstat(f->fd, &st) < 0 ? HADDR_UNDEF : (haddr_t)st.st_size;
}

static herr_t adopt_read(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size, void *out)
{
    const struct adopt_file *f = (const struct adopt_file *)file;
    (void)type, (void)dxpl;
    memset(out, 0, size);
    return file_read_all_at(f->fd, out, size, address) < size && errno ? -1 : 0;
}

static herr_t adopt_write(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size, const void *bytes)
{
    const struct adopt_file *f = (const struct adopt_file *)file;
    (void)dxpl;
    if (type == H5FD_MEM_DRAW && address < place.end)
        return 0;
    return file_write_all_at(f->fd, bytes, size, address, NULL) < 0 ? -1 : 0;
}

/* Removes what an interrupted run wrote beyond the end. */
static herr_t adopt_truncate(H5FD_t *file, hid_t dxpl, hbool_t closing)
{
    const struct adopt_file *f = (const struct adopt_file *)file;
    (void)dxpl, (void)closing;
    return ftruncate(f->fd, (off_t)f->end_of_addresses) < 0 ? -1 : 0;
}

static const H5FD_class_t adopt_driver = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)601,
#endif
    .name = "fullbore-adopt",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .open = adopt_open,
    .close = adopt_close,
    .cmp = adopt_cmp,
    .query = adopt_query,
    .alloc = adopt_alloc,
    .get_eoa = adopt_get_eoa,
    .set_eoa = adopt_set_eoa,
    .get_eof = adopt_get_eof,
    .read = adopt_read,
    .write = adopt_write,
    .truncate = adopt_truncate,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

hid_t adopt_create(void)
{
    hid_t driver = H5FDregister(&adopt_driver), list = H5Pcreate(H5P_FILE_ACCESS), file = H5I_INVALID_HID;
    if (driver >= 0 && list >= 0 && H5Pset_driver(list, driver, NULL) >= 0 && H5Pset_fclose_degree(list, H5F_CLOSE_STRONG) >= 0)
        file = H5Fcreate("adopted", H5F_ACC_TRUNC, H5P_DEFAULT, list); /* the list stays: closing it would forget why this failed */
    return file;
}
