/* Files that a scan skipped, counted by extension. */
#ifndef FB_DATASET_FOLDER_SKIPPED_FILES_H
#define FB_DATASET_FOLDER_SKIPPED_FILES_H

#include <stdint.h>

#include "base/text/text.h"
#include "dataset/dataset_ops.h"

enum { LEFT_OUT_KINDS = 64 };

struct skipped_files_entry {
    char kind[16]; /* ".mat", or words: "hidden" */
    uint64_t count;
};

struct skipped_files {
    struct skipped_files_entry entry[LEFT_OUT_KINDS];
    int kinds;
    uint64_t total;
};

/* Kinds beyond LEFT_OUT_KINDS are counted together as "others". */
void skipped_files_add(struct skipped_files *l, const char *kind);
/* By the file's extension as written, in lower case; "no extension". */
void skipped_files_add_file(struct skipped_files *l, const char *name);
/* "104052 .mat, 3 .txt", most first. */
void skipped_files_note(struct skipped_files *l, struct text *out);
/* The same for people: ".mat 104,052, .txt 3"; at most `most` kinds. */
void skipped_files_say(struct skipped_files *l, int most, char *out, size_t out_size);
/* 104052 -> "104,052" */
char *skipped_files_number(uint64_t n, char *out, size_t out_size);
/* Writes the note into the catalog; warns if `not_decoded` images are among them. */
int skipped_files_conclude(struct skipped_files *l, uint64_t not_decoded, const struct dataset_job *job, struct fb_error *e);

#endif
