/* Errors in words: what failed, where, why, and what to do.
 *
 * A function that can fail takes a struct fb_error (may be NULL), returns 0 or a negative FB_E_* code, and fills the record once, at the
 * place that knows most. Callers add what they know (the file, the sample) and pass the code on. The first error is kept.
 */
#ifndef FB_BASE_ERROR_H
#define FB_BASE_ERROR_H

#include <stdbool.h>

#include <fullbore/fullbore.h>

/* Forward a failure unchanged. */
#define FB_TRY(expr)             \
    do {                         \
        int fb_try_rc_ = (expr); \
        if (fb_try_rc_ < 0)      \
            return fb_try_rc_;   \
    } while (0)

/* Makes `e` empty (sample and offset -1). */
void error_clear(struct fb_error *e);

/* A record of its own, empty; error_free frees it. Without memory for one: a record for all that says so (error_is_shared), which must
 * not be changed. Never NULL. */
struct fb_error *error_new(void);
int error_is_shared(const struct fb_error *e);
void error_free(struct fb_error *e);

/* No sample's fault: another one would fail the same way. */
bool error_is_systemic(const struct fb_error *e);

/* Fills an empty record and returns `code`. The cause is one sentence without a full stop. */
int error_set(struct fb_error *e, int code, const char *stage, const char *cause_format, ...) __attribute__((format(printf, 4, 5)));

/* The same for a failed system call: "cannot WHAT: strerror". Code by errno: ENOENT -> FB_E_NOT_FOUND, ENOMEM -> FB_E_NOMEM, else FB_E_IO;
 * remedies for EMFILE, EACCES, ENOSPC and EIO are filled in. */
int error_set_errno(struct fb_error *e, const char *stage, int sys_errno, const char *what_format, ...)
    __attribute__((format(printf, 4, 5)));

/* Adds to a record what the caller knows; each keeps what is already there. */
void error_remedy(struct fb_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same around the call that fills the record, to pass its code on: return error_advise(e, error_set(e, ...), "remedy"). */
int error_advise(struct fb_error *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Says the remedy with the caller's own options: `from` in it becomes `to`. */
void error_reword(struct fb_error *e, const char *from, const char *to);
void error_at(struct fb_error *e, const char *path, int64_t offset);

#endif
