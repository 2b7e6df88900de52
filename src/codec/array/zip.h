/* The table of contents of a zip archive. */
#ifndef FB_CODEC_ARRAY_ZIP_H
#define FB_CODEC_ARRAY_ZIP_H

#include "codec/array/array_window.h"

enum { ZIP_STORED = 0, ZIP_DEFLATED = 8 };

struct zip_member {
    char name[ARRAY_NAME_BYTES]; /* as in the archive; cut if longer */
    bool is_cut;                 /* the name did not fit */
    uint32_t method, flags, crc;
    uint64_t at;            /* of its bytes, behind the local header */
    uint64_t stored, bytes; /* as stored, and unpacked */
};

/* The members of an archive in the order of its table, at most `capacity` of them: *count, or FB_E_DATA. Folders are left out. Members
 * lie inside the file, before the table, and do not overlap. */
int zip_read(const struct array_source *s, struct zip_member *out, int capacity, int *count, struct fb_error *e);

/* Is the member one that can be unpacked (neither encrypted nor of another method)? Else FB_E_UNSUPPORTED, saying why. */
int zip_check_method(const struct zip_member *m, struct fb_error *e);

/* The first `n` unpacked bytes of a member (n <= m->bytes). FB_E_DATA: its stream is broken or ends before. */
int zip_read_start(const struct array_source *s, const struct zip_member *m, uint8_t *out, size_t n, struct fb_error *e);

#endif
