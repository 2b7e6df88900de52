/* Which file systems are this machine's own, and whose files are believed. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file/file_kind.h"
#include "base/file/file_owner.h"

static void what_other_machines_may_write_to_is_remote(void **state)
{
    (void)state;
    /* NFS, SMB, CIFS, SMB2, FUSE, Lustre, GPFS, Ceph, 9p, AFS, Coda, BeeGFS, PanFS, OrangeFS, OCFS2, GFS2, VirtualBox, one that is not
     * there */
    static const unsigned long remote[] = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x65735546, 0x0BD00BD0,
                                           0x47504653, 0x00C36400, 0x01021997, 0x5346414F, 0x73757245, 0x19830326,
                                           0xAAD7AAEA, 0x20030528, 0x7461636F, 0x01161970, 0x786F4256, 0x12345678};
    static const unsigned long local[] = {0xEF53, 0x58465342, 0x9123683E, 0x2FC12FC1, 0xF2F52010, 0x01021994, 0x858458F6, 0x794C7630};
    for (size_t i = 0; i < sizeof(remote) / sizeof(remote[0]); i++)
        assert_true(file_type_is_remote(remote[i]));
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        assert_false(file_type_is_remote(local[i]));
}

static void a_file_system_that_cannot_be_asked_is_remote(void **state)
{
    (void)state;
    assert_true(file_is_remote(-1));
    int fd = open("/dev/shm", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        skip();
    assert_false(file_is_remote(fd));
    close(fd);
}

static void only_ones_own_and_the_systems_files_are_believed(void **state)
{
    (void)state;
    struct stat st = {.st_uid = geteuid(), .st_mode = S_IFDIR | 0700};
    assert_null(owner_distrust(&st));
    st.st_mode = S_IFDIR | 0775;
    assert_null(owner_distrust(&st));
    st.st_uid = 0;
    assert_null(owner_distrust(&st));
    st.st_uid = geteuid() + 1;
    assert_non_null(owner_distrust(&st));
    st.st_uid = geteuid();
    st.st_mode = S_IFDIR | 01777; /* sticky: others may still put files there first */
    assert_non_null(owner_distrust(&st));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_other_machines_may_write_to_is_remote),
        cmocka_unit_test(a_file_system_that_cannot_be_asked_is_remote),
        cmocka_unit_test(only_ones_own_and_the_systems_files_are_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
