#include "base/file/file_owner.h"

#include <stddef.h>
#include <unistd.h>

const char *owner_distrust(const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0)
        return "it belongs to another user";
    return st->st_mode & S_IWOTH ? "everybody may write to it" : NULL;
}
