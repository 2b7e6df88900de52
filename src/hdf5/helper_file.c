/* Opening a file for libhdf5 through a driver of our own: plain pread, regular files only, no locks, no writing.
 *
 * The driver also tells where chunks are. libhdf5 1.10 has no call for it that is not linear in their number (H5Dget_chunk_info and
 * H5Dget_chunk_info_by_coord walk the index from its beginning: 100 us a chunk in a file of 200,000); but H5Dread_chunk looks a chunk up
 * in the index, 0.5 us, and then asks the driver for its bytes. So the driver is told to note the place instead of reading: its addresses
 * are those of the file, user block included, whatever the index looks like.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file/file.h"
#include "hdf5/helper.h"
#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

struct plain_file {
    H5FD_t common; /* first: libhdf5 casts */
    int fd;
    haddr_t end_of_addresses, size;
    dev_t device;
    ino_t inode;
};

static struct {
    bool is_on, was_asked;
    haddr_t offset;
    size_t length;
} note;

static void (*on_read)(size_t bytes);

void file_on_read(void (*call)(size_t bytes))
{
    on_read = call;
}

static int open_regular(const char *path, struct stat *st)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block */
    if (fd < 0)
        return -1;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

static H5FD_t *plain_open(const char *name, unsigned flags, hid_t fapl, haddr_t maxaddr)
{
    struct stat st;
    (void)fapl;
    (void)maxaddr;
    if (flags & (H5F_ACC_RDWR | H5F_ACC_TRUNC | H5F_ACC_CREAT))
        return NULL;
    int fd = open_regular(name, &st);
    struct plain_file *f = fd < 0 ? NULL : calloc(1, sizeof(*f));
    if (!f) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    f->fd = fd;
    f->size = (haddr_t)st.st_size;
    f->device = st.st_dev;
    f->inode = st.st_ino;
    return &f->common;
}

static herr_t plain_close(H5FD_t *file)
{
    struct plain_file *f = (struct plain_file *)file;
    close(f->fd);
    free(f);
    return 0;
}

static int plain_cmp(const H5FD_t *a, const H5FD_t *b)
{
    const struct plain_file *x = (const struct plain_file *)a, *y = (const struct plain_file *)b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    return x->inode < y->inode ? -1 : x->inode > y->inode;
}

static herr_t plain_query(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t plain_get_eoa(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const struct plain_file *)file)->end_of_addresses;
}

static herr_t plain_set_eoa(H5FD_t *file, H5FD_mem_t type, haddr_t address)
{
    (void)type;
    ((struct plain_file *)file)->end_of_addresses = address;
    return 0;
}

static haddr_t plain_get_eof(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const struct plain_file *)file)->size;
}

static herr_t plain_read(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size, void *out)
{
    const struct plain_file *f = (const struct plain_file *)file;
    (void)dxpl;
    if (note.is_on && type == H5FD_MEM_DRAW) {
        note.was_asked = true;
        note.offset = address;
        note.length = size;
        return 0;
    }
    size_t got = 0;
    errno = 0;
    if (address <= INT64_MAX - size)
        got = file_read_all_at(f->fd, out, size, address);
    if (got < size && errno)
        return -1;
    memset((char *)out + got, 0, size - got); /* libhdf5's own driver gives zeros behind the end, too */
    if (on_read && got)
        on_read(got);
    return 0;
}

static herr_t plain_write(H5FD_t *file, H5FD_mem_t type, hid_t dxpl, haddr_t address, size_t size, const void *bytes)
{
    (void)file, (void)type, (void)dxpl, (void)address, (void)size, (void)bytes;
    return -1;
}

static const H5FD_class_t plain_driver = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)600, /* from the range that is free for one's own */
#endif
    .name = "fullbore",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .open = plain_open,
    .close = plain_close,
    .cmp = plain_cmp,
    .query = plain_query,
    .get_eoa = plain_get_eoa,
    .set_eoa = plain_set_eoa,
    .get_eof = plain_get_eof,
    .read = plain_read,
    .write = plain_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

static hid_t access_list(void)
{
    static hid_t list = H5I_INVALID_HID;
    if (list >= 0)
        return list;
    hid_t driver = H5FDregister(&plain_driver);
    list = H5Pcreate(H5P_FILE_ACCESS);
    if (driver < 0 || list < 0 || H5Pset_driver(list, driver, NULL) < 0 || H5Pset_fclose_degree(list, H5F_CLOSE_STRONG) < 0)
        list = H5I_INVALID_HID;
    return list;
}

int file_open(const char *path, hid_t *file, uint64_t *size, struct fb_error *e)
{
    struct stat st;
    int fd = open_regular(path, &st); /* libhdf5 would swallow errno */
    if (fd < 0)
        return errno == EINVAL ? error_set(e, FB_E_DATA, "decode", "it is not a regular file")
                               : error_set_errno(e, "read", errno, "open it");
    close(fd);
    *size = (uint64_t)st.st_size;
    *file = H5Fopen(path, H5F_ACC_RDONLY, access_list());
    return *file < 0 ? hdf5_failed(e, "HDF5 cannot open it", NULL) : 0;
}

/* A chunk that was never written is a failure of H5D__chunk_direct_read itself; damage to the index is one of something below it. */
static herr_t is_chunk_missing(unsigned n, const H5E_error2_t *one, void *answer)
{
    if (n == 0)
        *(bool *)answer = one->func_name && strcmp(one->func_name, "H5D__chunk_direct_read") == 0;
    return 0;
}

int file_find_chunk(hid_t dataset, const hsize_t *at, struct array_chunk *c)
{
    char nowhere[8];
    bool is_missing = false;
    *c = (struct array_chunk){.offset = ARRAY_NO_CHUNK};
    memset(&note, 0, sizeof(note));
    note.is_on = true;
    herr_t rc = H5Dread_chunk(dataset, H5P_DEFAULT, at, &c->skips, nowhere);
    note.is_on = false;
    if (rc < 0) {
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, is_chunk_missing, &is_missing);
        c->skips = 0;
        return is_missing ? 0 : -1;
    }
    if (!note.was_asked || note.length > UINT32_MAX)
        return -1;
    c->offset = note.offset;
    c->length = (uint32_t)note.length;
    return 0;
}
