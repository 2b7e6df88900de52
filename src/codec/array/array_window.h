/* What the array formats share: a file's memory, a window over its bytes, numbers in it. Inside codec/ only. */
#ifndef FB_CODEC_ARRAY_ARRAY_WINDOW_H
#define FB_CODEC_ARRAY_ARRAY_WINDOW_H

#include "model/array_ops.h"

/* A damaged file: FB_E_DATA with the offset (-1: none). */
int array_damaged(struct fb_error *e, int64_t offset, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Zeroed memory for `count` arrays and `extra` bytes behind them (*more, may be NULL). array_file_free ends it. */
int array_file_make(struct array_file *f, const char *format, uint64_t object_size, int count, size_t extra, void **more,
                    struct fb_error *e);

/* For formats where some arrays can be read and some not: the latter are ARRAY_OPAQUE, and reading them says why. */
void array_make_unreadable(struct array_layout *a, const char *why);
int array_unreadable_rows(const struct array_source *s, const struct array_layout *a, uint64_t first, uint64_t rows, void *out,
                          struct fb_error *e);

/* The file through a window: small reads near each other cost one. */
struct array_window {
    const struct array_source *source;
    uint64_t at;
    size_t n;
    uint8_t bytes[1024];
};

/* `length` bytes (at most the window's) at `offset`: *bytes, valid until the next call. FB_E_DATA: beyond the end; or the read's error. */
int array_peek(struct array_window *w, uint64_t offset, size_t length, const uint8_t **bytes, struct fb_error *e);

/* The size of the numbers of a->shape, a->stored_bytes each. False: it does not fit in 63 bits. An empty array has 0. */
bool array_shape_bytes(const struct array_layout *a, uint64_t *bytes);

static inline uint32_t array_u16(const uint8_t *p)
{
    return (uint32_t)p[1] << 8 | p[0];
}

static inline uint32_t array_u32(const uint8_t *p)
{
    return array_u16(p + 2) << 16 | array_u16(p);
}

static inline uint64_t array_u64(const uint8_t *p)
{
    return (uint64_t)array_u32(p + 4) << 32 | array_u32(p);
}

#endif
