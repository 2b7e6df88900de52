#include "dataset/store/bucket_mount.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file/file.h"
#include "base/text/text.h"

enum { FUSE_MAGIC = 0x65735546, PATH_BYTES = 4096, MOST_ARGUMENTS = 128 };

/* ---- which mount ---- */

/* Spaces and the like are written \040. In place. */
static void unescape(char *s)
{
    char *out = s;
    for (; *s; s++)
        if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7') {
            *out++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
            s += 3;
        } else {
            *out++ = *s;
        }
    *out = 0;
}

static bool is_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strcmp(folder, "/") == 0 || (strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == 0));
}

/* The mount that `path` is in: the last line counts, as mounts cover each other. True: mountpoint-s3. */
static bool find_mount(const char *proc, const char *path, char point[PATH_BYTES])
{
    char name[PATH_BYTES], *line = NULL;
    size_t size = 0, longest = 0;
    bool is_ours = false;
    snprintf(name, sizeof(name), "%s/self/mountinfo", proc);
    FILE *f = fopen(name, "re");
    if (!f)
        return false;
    while (getline(&line, &size, f) > 0) {
        char at[PATH_BYTES], type[64] = "", source[256] = "";
        const char *dash = strstr(line, " - ");
        if (!dash || sscanf(line, "%*s %*s %*s %*s %4095s", at) != 1 || sscanf(dash + 3, "%63s %255s", type, source) != 2)
            continue;
        unescape(at);
        if (!is_below(path, at) || strlen(at) < longest)
            continue;
        longest = strlen(at);
        is_ours = strncmp(type, "fuse", 4) == 0 && (strcmp(source, "mountpoint-s3") == 0 || strstr(type, "mountpoint-s3"));
        strcpy(point, at);
    }
    free(line);
    fclose(f);
    return is_ours;
}

/* ---- which bucket ---- */

static bool is_same_folder(const char *argument, const char *point)
{
    char real[PATH_BYTES];
    size_t n = strlen(argument);
    while (n > 1 && argument[n - 1] == '/')
        n--;
    if (strlen(point) == n && strncmp(argument, point, n) == 0)
        return true;
    return argument[0] == '/' && realpath(argument, real) && strcmp(real, point) == 0;
}

/* "mount-s3 [options] BUCKET FOLDER", options anywhere. */
static bool bucket_of(char *const *argument, int count, const char *point, const char *below, char *url, size_t url_size)
{
    const char *bucket = NULL, *prefix = "";
    const char *base = strrchr(argument[0], '/') ? strrchr(argument[0], '/') + 1 : argument[0];
    if (strcmp(base, "mount-s3") != 0)
        return false;
    for (int i = 1; i < count; i++) {
        if (i >= 2 && is_same_folder(argument[i], point) && argument[i - 1][0] != '-')
            bucket = argument[i - 1];
        if (strcmp(argument[i], "--prefix") == 0 && i + 1 < count)
            prefix = argument[i + 1];
        else if (strncmp(argument[i], "--prefix=", 9) == 0)
            prefix = argument[i] + 9;
    }
    if (!bucket)
        return false;
    bucket = strncmp(bucket, "s3://", 5) == 0 ? bucket + 5 : bucket;
    snprintf(url, url_size, "s3://%s/%s%s", bucket, prefix, below);
    return true;
}

static bool look_at_process(const char *proc, const char *pid, const char *point, const char *below, char *url, size_t url_size)
{
    char name[PATH_BYTES], text[8192], *argument[MOST_ARGUMENTS];
    int count = 0;
    snprintf(name, sizeof(name), "%s/%s/cmdline", proc, pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t n = file_read_all(fd, text, sizeof(text) - 1);
    close(fd);
    text[n] = 0;
    for (size_t at = 0; at < n && count < MOST_ARGUMENTS; at += strlen(text + at) + 1)
        argument[count++] = text + at;
    return count > 2 && bucket_of(argument, count, point, below, url, url_size);
}

bool s3_mount_find(const char *proc, const char *path, char *url, size_t url_size)
{
    char point[PATH_BYTES];
    url[0] = 0;
    if (!find_mount(proc, path, point))
        return false;
    const char *below = path + strlen(point);
    below += *below == '/';
    DIR *d = opendir(proc);
    for (struct dirent *entry; d && (entry = readdir(d));)
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && look_at_process(proc, entry->d_name, point, below, url, url_size))
            break;
    if (d)
        closedir(d);
    return true;
}

void s3_mount_say(const char *proc, const char *root, const struct log *log)
{
    static atomic_flag was_said = ATOMIC_FLAG_INIT;
    char url[PATH_BYTES + 256], shown[512];
    if (!log->write || !s3_mount_find(proc, root, url, sizeof(url)) || atomic_flag_test_and_set(&was_said))
        return;
    log_line(log, LOG_WARN, "%s is a bucket mounted by mountpoint-s3; opening %s instead reads many objects at once", root,
             url[0] ? text_escape(url, shown, sizeof(shown)) : "its s3:// URL");
}

void s3_mount_offer(int root_fd, const char *root, const struct log *log)
{
    struct statfs fs;
    if (fstatfs(root_fd, &fs) == 0 && fs.f_type == FUSE_MAGIC)
        s3_mount_say("/proc", root, log);
}
