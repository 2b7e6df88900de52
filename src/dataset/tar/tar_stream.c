#include "dataset/tar/tar_stream.h"

#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

enum { GZIP_WINDOW = 15 + 16 }; /* zlib's word for "the largest, and gzip's header" */

struct tar_stream {
    enum tar_squeeze how;
    z_stream z;
    ZSTD_DStream *zstd;
    bool is_whole;  /* between two members or frames */
    bool has_ended; /* what follows is no member: padding, which gzip passes over as well */
};

static int damaged(struct fb_error *e, const char *how, const char *why)
{
    return error_set(e, FB_E_DATA, "dataset", "the %s stream is damaged: %s", how, why ? why : "its checksum does not fit");
}

int tar_stream_open(struct tar_stream **out, enum tar_squeeze how, struct fb_error *e)
{
    struct tar_stream *s = *out = calloc(1, sizeof(*s));
    if (!s)
        return error_set(e, FB_E_NOMEM, "dataset", "no memory to unpack an archive");
    s->how = how;
    bool is_open = how == TAR_GZIP ? inflateInit2(&s->z, GZIP_WINDOW) == Z_OK : (s->zstd = ZSTD_createDStream()) != NULL;
    if (is_open)
        return 0;
    free(s);
    *out = NULL;
    return error_set(e, FB_E_NOMEM, "dataset", "no memory to unpack an archive");
}

static int step_gzip(struct tar_stream *s, struct tar_piece *p, struct fb_error *e)
{
    if (s->is_whole && p->in_bytes && p->in[0] != 0x1F)
        s->has_ended = true;
    if (s->has_ended) {
        p->in_bytes = 0;
        return 0;
    }
    if (s->is_whole && p->in_bytes && inflateReset(&s->z) != Z_OK)
        return damaged(e, "gzip", "a member cannot begin");
    s->z.next_in = (uint8_t *)(uintptr_t)p->in;
    s->z.avail_in = (uInt)p->in_bytes;
    s->z.next_out = p->out;
    s->z.avail_out = (uInt)p->out_bytes;
    int rc = p->in_bytes ? inflate(&s->z, Z_NO_FLUSH) : Z_BUF_ERROR;
    p->made = p->out_bytes - s->z.avail_out;
    s->is_whole = rc == Z_STREAM_END || (s->is_whole && !p->in_bytes);
    p->in += p->in_bytes - s->z.avail_in;
    p->in_bytes = s->z.avail_in;
    return rc == Z_OK || rc == Z_STREAM_END || rc == Z_BUF_ERROR ? 0 : damaged(e, "gzip", s->z.msg);
}

static int step_zstd(struct tar_stream *s, struct tar_piece *p, struct fb_error *e)
{
    ZSTD_inBuffer in = {p->in, p->in_bytes, 0};
    ZSTD_outBuffer out = {p->out, p->out_bytes, 0};
    size_t rc = ZSTD_decompressStream(s->zstd, &out, &in);
    p->made = out.pos;
    p->in += in.pos;
    p->in_bytes -= in.pos;
    if (ZSTD_isError(rc))
        return damaged(e, "zstd", ZSTD_getErrorName(rc));
    s->is_whole = rc == 0 || (s->is_whole && in.size == 0);
    return 0;
}

int tar_stream_step(struct tar_stream *s, struct tar_piece *p, struct fb_error *e)
{
    p->made = 0;
    return s->how == TAR_GZIP ? step_gzip(s, p, e) : step_zstd(s, p, e);
}

bool tar_stream_is_whole(const struct tar_stream *s)
{
    return s->is_whole;
}

void tar_stream_close(struct tar_stream *s)
{
    if (!s)
        return;
    if (s->how == TAR_GZIP)
        inflateEnd(&s->z);
    ZSTD_freeDStream(s->zstd);
    free(s);
}
