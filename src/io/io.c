/* Choosing a back-end. "auto" is uring where the kernel lets us, else pread: containers often forbid io_uring (Docker's default profile
 * answers EPERM), old kernels lack it. Which one and why is said once per process. FULLBORE_IO names another than auto. */
#include "io/io.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/text.h"
#include "io/io_list.h"
#include "io/io_shared.h"

static const struct io_ops *find(const char *name, size_t length)
{
    for (int i = 0; io_list[i]; i++)
        if (strlen(io_list[i]->name) == length && strncmp(io_list[i]->name, name, length) == 0)
            return io_list[i];
    return NULL;
}

static int refuse_name(const char *spec, struct fb_error *e)
{
    char shown[64], names[128] = "auto";
    error_set(e, FB_E_USAGE, "read", "there is no reader called '%s'", text_escape(spec, shown, sizeof(shown)));
    for (int i = 0; io_list[i]; i++) {
        strncat(names, ", ", sizeof(names) - strlen(names) - 1);
        strncat(names, io_list[i]->name, sizeof(names) - strlen(names) - 1);
    }
    error_remedy(e, "use one of: %s", names);
    return FB_E_USAGE;
}

static int open_named(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    size_t length = strcspn(spec, ":");
    const struct io_ops *ops = find(spec, length);
    if (!ops)
        return refuse_name(spec, e);
    return ops->open(out, spec[length] ? spec + length + 1 : "", depth, log, e);
}

static void say_once(const struct log *log, const char *name, const char *why)
{
    static atomic_flag was_said = ATOMIC_FLAG_INIT;
    if (log->write && !atomic_flag_test_and_set(&was_said))
        log_line(log, LOG_INFO, "reading files with %s: %s", name, why);
}

static int open_auto(struct io **out, uint32_t depth, const struct log *log, struct fb_error *e)
{
    struct fb_error why;
    error_clear(&why);
    if (io_uring_ops.open(out, "", depth, log, &why) == 0) {
        say_once(log, "io_uring", "the kernel offers it");
        return 0;
    }
    FB_TRY(io_pread.open(out, "", depth, log, e));
    say_once(log, "pread on threads", why.cause);
    return 0;
}

static int open_from_environment(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    int rc = open_named(out, spec, depth, log, e);
    if (rc < 0)
        error_remedy(e, "FULLBORE_IO in the environment asks for it: change or unset it");
    return rc;
}

int io_open(struct io **out, const char *spec, uint32_t depth, const struct log *log, struct fb_error *e)
{
    static const struct log nowhere;
    *out = NULL;
    if (!log)
        log = &nowhere;
    depth = depth < 1 ? 1 : depth > IO_DEPTH_MAX ? IO_DEPTH_MAX : depth;
    if (spec && *spec && strcmp(spec, "auto") != 0)
        return open_named(out, spec, depth, log, e);
    const char *chosen = getenv("FULLBORE_IO");
    if (chosen && *chosen && strcmp(chosen, "auto") != 0)
        return open_from_environment(out, chosen, depth, log, e);
    return open_auto(out, depth, log, e);
}
