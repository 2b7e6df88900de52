/* Where is fullbore-hdf5? Beside the file that this code was loaded from (a wheel has it there), beside the running program, in the
 * libexec folder of the prefix either is installed under, in the build folder, in the Python package of the prefix (for the command that
 * came with a wheel), or where the build was told to install it. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codec/array/hdf5/hdf5_pool.h"

static const char *const near_by[] = {
    "", "../libexec/fullbore/", "../../libexec/fullbore/", "../../../libexec/fullbore/", "../../../../libexec/fullbore/", "../hdf5/"};

static bool is_there(const char *path)
{
    return access(path, X_OK) == 0;
}

/* The package of a Python in the prefix whose bin folder is `bin`. */
static bool find_in_package(const char *bin, char *path, size_t size)
{
    char lib[HDF5_MAX_PATH];
    snprintf(lib, sizeof(lib), "%.4000s../lib", bin);
    DIR *dir = opendir(lib);
    bool is_found = false;
    for (const struct dirent *entry; dir && !is_found && (entry = readdir(dir));)
        if (strncmp(entry->d_name, "python3", 7) == 0)
            is_found =
                (size_t)snprintf(path, size, "%s/%s/site-packages/fullbore/fullbore-hdf5", lib, entry->d_name) < size && is_there(path);
    if (dir)
        closedir(dir);
    return is_found;
}

/* `file` loses its last part. */
static bool find_near(char *file, char *path, size_t size)
{
    char *slash = strrchr(file, '/');
    if (!slash)
        return false;
    slash[1] = 0;
    for (size_t i = 0; i < sizeof(near_by) / sizeof(near_by[0]); i++)
        if ((size_t)snprintf(path, size, "%s%sfullbore-hdf5", file, near_by[i]) < size && is_there(path))
            return true;
    return false;
}

bool hdf5_find_helper(char *path, size_t size)
{
    char file[HDF5_MAX_PATH];
    const char *wish = getenv("FULLBORE_HDF5_HELPER");
    if (wish && wish[0])
        return (size_t)snprintf(path, size, "%s", wish) < size && is_there(path);
    Dl_info self;
    if (dladdr((void *)(uintptr_t)hdf5_find_helper, &self) && self.dli_fname && realpath(self.dli_fname, file) &&
        find_near(file, path, size))
        return true;
    ssize_t n = readlink("/proc/self/exe", file, sizeof(file) - 1);
    if (n > 0) {
        file[n] = 0;
        if (find_near(file, path, size) || find_in_package(file, path, size))
            return true;
    }
    return (size_t)snprintf(path, size, "%s/fullbore-hdf5", FB_LIBEXEC) < size && is_there(path);
}
