/* Log lines: they go to the loader's log function, or nowhere. A line has no newline. */
#ifndef FB_BASE_LOG_H
#define FB_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

struct log {
    void (*write)(void *ctx, int level, const char *line); /* NULL: dropped; called from any thread */
    void *ctx;
};

void log_line(const struct log *l, enum log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
