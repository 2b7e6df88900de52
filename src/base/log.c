#include "base/log.h"

#include <stdarg.h>

#include "base/text/text.h"

void log_line(const struct log *l, enum log_level level, const char *format, ...)
{
    if (!l->write)
        return;
    char line[2048];
    va_list ap;
    va_start(ap, format);
    text_vwords(line, sizeof(line), format, ap);
    va_end(ap);
    l->write(l->ctx, (int)level, line);
}
