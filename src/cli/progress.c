#include "cli/progress.h"

#include <stdio.h>
#include <unistd.h>

struct progress progress_start(void)
{
    return (struct progress){.is_terminal = isatty(STDERR_FILENO), .told_at = -1};
}

bool progress_is_due(struct progress *p, double share, bool is_over, double seconds)
{
    int tenths = (int)(10 * share);
    bool is_due = p->is_terminal ? !p->is_over && (seconds - p->told_at > 0.1 || is_over)
                                 : tenths > p->tenths && seconds > 1; /* what is over by then needs no talk */
    if (is_due)
        p->told_at = seconds;
    p->tenths = tenths;
    p->is_over = is_over;
    p->before = p->is_terminal ? "\r\x1b[K" : "";
    p->after = p->is_terminal && !is_over ? "" : "\n";
    return is_due;
}

const char *progress_rest(uint64_t done, uint64_t total, double seconds, char *out, size_t out_size)
{
    double left = done && total > done ? (double)(total - done) / (double)done * seconds : 0;
    unsigned s = (unsigned)(left + 0.5);
    if (s >= 3600)
        snprintf(out, out_size, "%u h %02u min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        snprintf(out, out_size, "%u min %02u s", s / 60, s % 60);
    else
        snprintf(out, out_size, "%u s", s);
    return out;
}
