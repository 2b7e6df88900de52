#include "base/file/file_kind.h"

#include <stddef.h>
#include <sys/statfs.h>

/* Those on which only this machine's kernel writes. overlayfs is here because containers keep everything on it; its layers are local in
 * practice. */
static const unsigned long local[] = {
    0xEF53,     /* ext2, ext3, ext4 */
    0x58465342, /* XFS */
    0x9123683E, /* btrfs */
    0x2FC12FC1, /* ZFS */
    0xF2F52010, /* F2FS */
    0xCA451A4E, /* bcachefs */
    0x52654973, /* ReiserFS */
    0x3153464A, /* JFS */
    0x01021994, /* tmpfs */
    0x858458F6, /* ramfs */
    0x794C7630, /* overlayfs */
    0x73717368, /* squashfs */
    0xE0F5E1E2, /* EROFS */
    0x4D44,     /* FAT */
    0x2011BAB0, /* exFAT */
    0x7366746E, /* NTFS, the kernel's own driver */
    0x5346544E, /* NTFS, the older one */
};

bool file_type_is_remote(unsigned long f_type)
{
    for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
        if (f_type == local[i])
            return false;
    return true;
}

bool file_is_remote(int fd)
{
    struct statfs s;
    return fstatfs(fd, &s) < 0 || file_type_is_remote((unsigned long)s.f_type & 0xFFFFFFFF);
}
