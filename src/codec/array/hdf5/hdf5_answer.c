/* Answers of the helper: every number is checked before it is used, and no byte is waited for beyond the deadline. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/text/text.h"
#include "codec/array/hdf5/hdf5_pool.h"

static int broken(struct fb_error *e, const char *how)
{
    return error_set(e, FB_E_DATA, "decode", "reading its structure %s, so the file is treated as damaged", how);
}

static int wait_for(int fd, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint64_t now = clock_now_ns();
    if (now >= deadline_ns)
        return 0;
    uint64_t ms = (deadline_ns - now) / 1000000 + 1;
    return poll(&p, 1, ms > 60000 ? 60000 : (int)ms);
}

static int receive(int fd, uint64_t deadline_ns, void *out, size_t n, struct fb_error *e)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = recv(fd, (char *)out + done, n - done, 0);
        if (got > 0) {
            done += (size_t)got;
            continue;
        }
        if (got == 0 || (errno != EAGAIN && errno != EINTR))
            return broken(e, "crashed the HDF5 helper");
        if (errno == EAGAIN && wait_for(fd, deadline_ns) == 0 && clock_now_ns() >= deadline_ns) {
            broken(e, "exceeded the time limit of the HDF5 helper");
            error_remedy(e, "if the storage is slow rather than the file damaged, set FULLBORE_HDF5_TIMEOUT to more seconds");
            return FB_E_DATA;
        }
    }
    return 0;
}

/* The helper's words, made safe to show. */
static int take_refusal(const struct hdf5_answer *a, const char *text, struct fb_error *e)
{
    static const int known[] = {FB_E_NOMEM, FB_E_IO, FB_E_DATA, FB_E_NOT_FOUND, FB_E_UNSUPPORTED};
    char cause[480], remedy[480];
    int code = FB_E_DATA;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (a->code == known[i])
            code = a->code;
    size_t length = strnlen(text, a->bytes);
    text_escape(text, cause, sizeof(cause));
    text_escape(length < a->bytes ? text + length + 1 : "", remedy, sizeof(remedy));
    error_set(e, code, "decode", "%s", cause[0] ? cause : "the HDF5 helper gave no reason");
    if (remedy[0])
        error_remedy(e, "%s", remedy);
    return code;
}

static int take_record(int fd, uint64_t deadline_ns, const struct hdf5_answer *a, uint8_t **record, size_t *n, struct fb_error *e)
{
    uint8_t *bytes = malloc(a->bytes ? a->bytes : 1);
    if (!bytes)
        return error_set(e, FB_E_NOMEM, "decode", "no memory for a description of %llu bytes", (unsigned long long)a->bytes);
    int rc = receive(fd, deadline_ns, bytes, a->bytes, e);
    if (rc < 0) {
        free(bytes);
        return rc;
    }
    *record = bytes;
    *n = a->bytes;
    return 0;
}

int hdf5_take_answer(int fd, uint64_t deadline_ns, const struct hdf5_question *q, uint8_t **record, size_t *n, void *rows, bool *is_broken,
                     struct fb_error *e)
{
    struct hdf5_answer a;
    char text[HDF5_MAX_TEXT + 1] = "";
    *is_broken = true;
    FB_TRY(receive(fd, deadline_ns, &a, sizeof(a), e));
    bool is_right = a.magic == HDF5_MAGIC && a.code <= 0;
    if (a.code < 0)
        is_right = is_right && a.bytes <= HDF5_MAX_TEXT;
    else
        is_right = is_right && (q->op == HDF5_ROWS ? a.bytes == q->bytes : a.bytes <= HDF5_MAX_RECORD);
    if (!is_right)
        return broken(e, "made the HDF5 helper send an invalid answer");
    if (a.code < 0)
        FB_TRY(receive(fd, deadline_ns, text, a.bytes, e));
    else if (q->op == HDF5_ROWS)
        FB_TRY(receive(fd, deadline_ns, rows, a.bytes, e));
    else
        FB_TRY(take_record(fd, deadline_ns, &a, record, n, e));
    *is_broken = false;
    return a.code < 0 ? take_refusal(&a, text, e) : 0;
}
