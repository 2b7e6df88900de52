/* Files that a scan skipped, counted by extension. */
#ifndef FB_DATASET_FOLDER_LEFT_OUT_H
#define FB_DATASET_FOLDER_LEFT_OUT_H

#include <stdint.h>

#include "base/text/text.h"
#include "dataset/dataset_ops.h"

enum { LEFT_OUT_KINDS = 64 };

struct left_out_entry {
    char kind[16]; /* ".mat", or words: "hidden" */
    uint64_t count;
};

struct left_out {
    struct left_out_entry entry[LEFT_OUT_KINDS];
    int kinds;
    uint64_t total;
};

/* Kinds beyond LEFT_OUT_KINDS are counted together as "others". */
void left_out_add(struct left_out *l, const char *kind);
/* By the file's extension as written, in lower case; "no extension". */
void left_out_add_file(struct left_out *l, const char *name);
/* "104052 .mat, 3 .txt", most first. */
void left_out_note(struct left_out *l, struct text *out);
/* The same for people: ".mat 104,052, .txt 3"; at most `most` kinds. */
void left_out_say(struct left_out *l, int most, char *out, size_t out_size);
/* 104052 -> "104,052" */
char *left_out_number(uint64_t n, char *out, size_t out_size);
/* Writes the note into the catalog; warns if `not_decoded` images are among them. */
int left_out_conclude(struct left_out *l, uint64_t not_decoded, const struct dataset_job *job, struct fb_error *e);

#endif
