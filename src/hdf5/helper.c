/* fullbore-hdf5: opens HDF5 files for the library and reports where their arrays lie.
 *
 * The library starts it with a socket as its standard input; people do not run it. It drops the rights it does not need before it opens any
 * file (sandbox.c). CPU time is limited for each request, so a file that makes libhdf5 loop for ever ends the program even when nobody
 * waits for it. It exits at the end of its input.
 *
 * With the word "adopt" it is the other way round: it makes one file, and reads nothing but its description (helper_adopt.h). With
 * "rechunk" it makes one from another (helper_rechunk.h). Both are followed by the host's process id, and say a line "p DONE TOTAL" now
 * and then while they get on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/file/file.h"
#include "hdf5/helper.h"
#include "hdf5/helper_adopt.h"
#include "hdf5/rechunk/helper_rechunk.h"
#include "hdf5/sandbox.h"
#include "model/hdf5/hdf5_protocol.h"

enum { THE_SOCKET = 0 };

/* ---- what libhdf5 says ---- */

static herr_t take_first(unsigned n, const H5E_error2_t *one, void *ctx)
{
    if (n == 0 && one->desc)
        snprintf(ctx, 200, "%s", one->desc);
    return 0;
}

int hdf5_failed(struct fb_error *e, const char *what, const char *name)
{
    char said[200] = "no reason given";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_first, said);
    bool is_newer = strncmp(said, "bad version number", 18) == 0;
    int code = is_newer ? FB_E_UNSUPPORTED : FB_E_DATA;
    error_set(e, code, "decode", "%s%s%s%s: %s", what, name ? " \"" : "", name ? name : "", name ? "\"" : "", said);
    if (is_newer)
        error_remedy(e, "it may be of a newer kind than HDF5 %d.%d.%d reads: write it without libver=\"latest\", or h5repack it",
                     H5_VERS_MAJOR, H5_VERS_MINOR, H5_VERS_RELEASE);
    return code;
}

/* ---- signs of life ---- */

void helper_beat(uint64_t done, uint64_t total)
{
    static time_t last;
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now) < 0 || now.tv_sec == last)
        return;
    last = now.tv_sec;
    printf("p %llu %llu\n", (unsigned long long)done, (unsigned long long)total);
    fflush(stdout);
}

/* ---- the library ---- */

static void tame_libhdf5(void)
{
    H5dont_atexit();
    H5open();
    H5PLset_loading_state(0);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

/* ---- talk ---- */

static bool receive(void *out, size_t n)
{
    return file_read_all(THE_SOCKET, out, n) == n;
}

static bool deliver(const void *bytes, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t sent = send(THE_SOCKET, (const char *)bytes + done, n - done, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        done += (size_t)sent;
    }
    return true;
}

static bool answer(int code, const void *bytes, size_t n)
{
    struct hdf5_answer a = {.magic = HDF5_MAGIC, .code = code, .bytes = n};
    return deliver(&a, sizeof(a)) && deliver(bytes, n);
}

static bool answer_error(const struct fb_error *e)
{
    char text[HDF5_MAX_TEXT];
    int n = snprintf(text, sizeof(text), "%.500s%c%.500s", e->cause, 0, e->remedy);
    return answer(e->code, text, (size_t)n);
}

/* What goes back: malloc'ed bytes, or an error. */
struct reply {
    void *bytes;
    size_t n;
    struct fb_error e;
};

static void make_record(const struct description *d, struct reply *r)
{
    size_t n = array_record_write(&d->file, NULL, 0);
    r->bytes = n <= HDF5_MAX_RECORD ? malloc(n) : NULL;
    r->n = n;
    if (r->bytes)
        array_record_write(&d->file, r->bytes, n);
    else
        error_set(&r->e, FB_E_UNSUPPORTED, "decode", "the description of its arrays takes %zu bytes, more than can be kept", n);
}

static void describe(hid_t file, uint64_t size, const struct hdf5_request *q, struct reply *r)
{
    static struct description d;
    if (describe_file(file, size, q->allows_external, &d, &r->e) == 0)
        make_record(&d, r);
    description_free(&d);
}

/* The file is closed before the answer goes out: who has it may replace or unmount it. */
static bool serve(const struct hdf5_request *q, const char *path, const char *name)
{
    struct reply r = {.n = q->bytes};
    hid_t file;
    uint64_t size;
    sandbox_cpu(q->timeout_s);
    if (file_open(path, &file, &size, &r.e) == 0) {
        if (q->op == HDF5_DESCRIBE)
            describe(file, size, q, &r);
        else
            read_rows(file, name, q->allows_external, q->first, q->rows, q->bytes, &r.bytes, &r.e);
        H5Fclose(file);
    }
    bool is_sent = r.e.code ? answer_error(&r.e) : answer(0, r.bytes, r.n);
    free(r.bytes);
    return is_sent;
}

static bool serve_next(void)
{
    struct hdf5_request q;
    char path[HDF5_MAX_PATH + 1], name[HDF5_MAX_NAME + 1];
    if (!receive(&q, sizeof(q)) || q.magic != HDF5_MAGIC || q.path_bytes > HDF5_MAX_PATH || q.name_bytes > HDF5_MAX_NAME)
        return false;
    if (!receive(path, q.path_bytes) || !receive(name, q.name_bytes))
        return false;
    path[q.path_bytes] = name[q.name_bytes] = 0;
    return serve(&q, path, name);
}

static void enter(enum sandbox_kind kind, const char *host)
{
    sandbox_limits(kind);
    tame_libhdf5();
    sandbox_tie(kind, host ? (pid_t)strtol(host, NULL, 10) : 0);
    sandbox_shut(kind);
}

int main(int argc, char **argv)
{
    int type;
    socklen_t n = sizeof(type);
    const char *word = argc > 1 ? argv[1] : "", *host = argc > 2 ? argv[2] : NULL;
    if (strcmp(word, "adopt") == 0) {
        enter(SANDBOX_ADOPT, host);
        return adopt_run();
    }
    if (strcmp(word, "rechunk") == 0) {
        enter(SANDBOX_RECHUNK, host);
        return rechunk_run();
    }
    if (argc >= 4 && strcmp(word, "try") == 0)
        return sandbox_try(argv[2], argv[3], argc > 4 ? (pid_t)strtol(argv[4], NULL, 10) : 0);
    if (argc > 1 || getsockopt(THE_SOCKET, SOL_SOCKET, SO_TYPE, &type, &n) < 0) {
        fprintf(stderr, "fullbore-hdf5 " FB_VERSION ": reads the structure of HDF5 files for the library, which starts it by itself\n");
        return argc > 1 ? 0 : 2;
    }
    enter(SANDBOX_READ, NULL);
    while (serve_next())
        ;
    return 0;
}
