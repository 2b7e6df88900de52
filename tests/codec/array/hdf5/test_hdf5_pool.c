/* Many threads, forks, and what h5py cannot write: against files that this program makes with libhdf5 itself. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <hdf5.h>

#include "codec/array/array_format.h"
#include "codec/array/array_rows.h"
#include "codec/array/hdf5/decompress.h"

enum { ROWS = 7, COLUMNS = 5, THREADS = 8, TIMES = 25, MOST_HELPERS = 4 };

static char path[] = "/tmp/fb-hdf5-XXXXXX";
static int32_t numbers[ROWS][COLUMNS];

/* ---- the file ---- */

static void write_dataset(hid_t file, const char *name, hid_t type, hid_t creation)
{
    hsize_t shape[2] = {ROWS, COLUMNS};
    hid_t space = H5Screate_simple(2, shape, NULL), id = H5Dcreate2(file, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT);
    assert_true(id >= 0 && H5Dwrite(id, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers) >= 0);
    H5Dclose(id);
    H5Sclose(space);
}

static void write_edges(hid_t file)
{
    hsize_t side[2] = {4, 3};
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(creation, 2, side);
    H5Pset_shuffle(creation);
    H5Pset_deflate(creation, 6);
    H5Pset_chunk_opts(creation, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
    write_dataset(file, "edges", H5T_STD_I32LE, creation);
    H5Pclose(creation);
}

static void write_odd(hid_t file)
{
    hid_t type = H5Tcopy(H5T_STD_I32BE);
    H5Tset_precision(type, 12);
    H5Tset_offset(type, 3);
    write_dataset(file, "twelve bits", type, H5P_DEFAULT);
    H5Tclose(type);
}

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        numbers[i / COLUMNS][i % COLUMNS] = 40 * i - 700;
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_LATEST);
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    write_edges(file);
    write_odd(file);
    write_dataset(file, "plain", H5T_STD_I32LE, H5P_DEFAULT);
    H5Fclose(file);
    H5Pclose(access);
    return fd < 0 || close(fd) < 0;
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static int describe(struct array_file *f, struct array_source *s, struct fb_error *e)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return -1;
    *s = (struct array_source){.path = path, .size = (uint64_t)st.st_size};
    return array_format_by_name("hdf5")->describe(s, f, e);
}

/* ---- what h5py cannot write ---- */

static void read_at(uint64_t offset, uint32_t length, void *out)
{
    int fd = open(path, O_RDONLY);
    assert_int_equal(pread(fd, out, length, (off_t)offset), length);
    close(fd);
}

static void edge_chunks_left_unfiltered_are_read_as_they_are(void **state)
{
    (void)state;
    struct array_file f;
    struct array_source s;
    struct fb_error e = {0};
    struct decompress u = {0};
    uint8_t stored[4096], data[4096];
    int32_t got[ROWS][COLUMNS];
    assert_int_equal(describe(&f, &s, &e), 0);
    const struct array_layout *a = array_find(&f, "edges");
    assert_non_null(a);
    assert_int_equal(a->chunk_count, 4);
    assert_int_equal(a->chunk[0].skips, 0);
    for (uint64_t i = 0; i < 4; i++) {
        if (i)
            assert_int_equal(a->chunk[i].skips, 3);
        read_at(a->chunk[i].offset, a->chunk[i].length, stored);
        assert_int_equal(decompress_chunk(&u, a, a->chunk[i].skips, stored, a->chunk[i].length, data, &e), 0);
        array_copy_from_chunk(a, i, data, 0, ROWS, got);
    }
    assert_memory_equal(got, numbers, sizeof(got));
    decompress_free(&u);
    array_file_free(&f);
}

static void integers_of_twelve_bits_are_converted(void **state)
{
    (void)state;
    struct array_file f;
    struct array_source s;
    struct fb_error e = {0};
    int64_t got[ROWS][COLUMNS];
    assert_int_equal(describe(&f, &s, &e), 0);
    const struct array_layout *a = array_find(&f, "twelve bits");
    assert_non_null(a);
    assert_int_equal(a->storage, ARRAY_OPAQUE);
    assert_string_equal(a->why_opaque, "integers of 12 bits, converted to 64");
    assert_int_equal(array_format_by_name("hdf5")->read_rows(&s, a, 0, ROWS, got, &e), 0);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        assert_int_equal(got[i / COLUMNS][i % COLUMNS], numbers[i / COLUMNS][i % COLUMNS]);
    array_file_free(&f);
}

/* ---- the pool ---- */

static int count_children(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    for (const struct dirent *entry; (entry = readdir(dir));) {
        char name[300];
        snprintf(name, sizeof(name), "/proc/self/task/%s/children", entry->d_name);
        FILE *f = fopen(name, "r");
        if (!f)
            continue;
        for (int pid; fscanf(f, "%d", &pid) == 1;)
            count++;
        fclose(f);
    }
    closedir(dir);
    return count;
}

static void *describe_often(void *failures)
{
    for (int i = 0; i < TIMES; i++) {
        struct array_file f;
        struct array_source s;
        struct fb_error e = {0};
        if (describe(&f, &s, &e) < 0 || f.count != 3)
            *(int *)failures += 1;
        array_file_free(&f);
    }
    return NULL;
}

static void eight_threads_share_four_helpers(void **state)
{
    (void)state;
    pthread_t thread[THREADS];
    int failures[THREADS] = {0};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, describe_often, &failures[i]), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        assert_int_equal(failures[i], 0);
    }
    int helpers = count_children();
    assert_true(helpers >= 1 && helpers <= MOST_HELPERS);
}

static void a_forked_child_has_helpers_of_its_own(void **state)
{
    (void)state;
    int failures = 0, status;
    describe_often(&failures);
    int before = count_children();
    pid_t child = fork();
    if (child == 0) {
        describe_often(&failures);
        _exit(failures || count_children() != 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    describe_often(&failures);
    assert_int_equal(failures, 0);
    assert_int_equal(count_children(), before);
}

static void bytes_without_a_path_are_refused(void **state)
{
    (void)state;
    struct array_file f;
    struct fb_error e = {0};
    const struct array_source s = {.size = 100};
    assert_int_equal(array_format_by_name("hdf5")->describe(&s, &f, &e), FB_E_UNSUPPORTED);
}

static void user_blocks_are_looked_behind(void **state)
{
    (void)state;
    uint8_t bytes[3000] = "anything";
    assert_null(array_find_format(bytes, sizeof(bytes)));
    memcpy(bytes + 2048, "\x89HDF\r\n\x1a\n", 8);
    assert_ptr_equal(array_find_format(bytes, sizeof(bytes)), array_format_by_name("hdf5"));
    assert_null(array_find_format(bytes, 2055));
    assert_ptr_equal(array_find_format((const uint8_t *)"MATLAB 7.3 MAT-file", 16), array_format_by_name("hdf5"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edge_chunks_left_unfiltered_are_read_as_they_are),
        cmocka_unit_test(integers_of_twelve_bits_are_converted),
        cmocka_unit_test(eight_threads_share_four_helpers),
        cmocka_unit_test(a_forked_child_has_helpers_of_its_own),
        cmocka_unit_test(bytes_without_a_path_are_refused),
        cmocka_unit_test(user_blocks_are_looked_behind),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
