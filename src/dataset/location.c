#include "dataset/location.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text/text.h"

int location_missing(const char *path, struct fb_error *e)
{
    char *above = strdup(path);
    if (!above)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory");
    struct stat st;
    char *slash;
    const char *there = NULL;
    while (!there && (slash = strrchr(above, '/'))) {
        slash[slash == above ? 1 : 0] = 0;
        if (stat(above, &st) == 0)
            there = above;
        else if (slash == above)
            break;
    }
    char shown[300];
    if (there)
        error_set(e, FB_E_NOT_FOUND, "dataset", "no such file or folder; '%s' exists%s", text_escape(there, shown, sizeof(shown)),
                  S_ISDIR(st.st_mode) ? "" : ", but it is not a folder");
    else
        error_set(e, FB_E_NOT_FOUND, "dataset", "no such file or folder; the current folder is the last part of its path that exists");
    error_remedy(e, "check the spelling, and that the disk is mounted");
    error_at(e, path, -1);
    free(above);
    return FB_E_NOT_FOUND;
}

int location_canonical(const char *path, char **out, struct fb_error *e)
{
    *out = realpath(path, NULL);
    if (*out)
        return 0;
    if (errno == ENOENT || errno == ENOTDIR)
        return location_missing(path, e);
    int rc = error_set_errno(e, "dataset", errno, "find the data set");
    error_at(e, path, -1);
    return rc;
}

void location_shorten(char *path, const char *root)
{
    size_t n = strlen(root);
    const char *in = path;
    char *out = path;
    if (n > 1 && strncmp(path, root, n) == 0 && path[n] == '/' && path[n + 1])
        in += n + 1;
    if (*in == '/' && in == path)
        *out++ = *in++;
    while (*in) {
        while (*in == '/' || (in[0] == '.' && in[1] == '/'))
            in++;
        const char *slash = strchr(in, '/');
        size_t length = slash ? (size_t)(slash - in) + 1 : strlen(in);
        memmove(out, in, length);
        out += length;
        in += length;
    }
    *out = 0;
}
