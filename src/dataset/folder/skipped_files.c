#include "dataset/folder/skipped_files.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataset/image_names.h"

static struct skipped_files_entry *find(struct skipped_files *l, const char *kind)
{
    for (int i = 0; i < l->kinds; i++)
        if (strcmp(l->entry[i].kind, kind) == 0)
            return &l->entry[i];
    return NULL;
}

void skipped_files_add(struct skipped_files *l, const char *kind)
{
    struct skipped_files_entry *entry = find(l, kind);
    if (!entry && l->kinds >= LEFT_OUT_KINDS - 1) {
        kind = "others";
        entry = find(l, kind);
    }
    if (!entry) {
        entry = &l->entry[l->kinds++];
        snprintf(entry->kind, sizeof(entry->kind), "%s", kind);
    }
    entry->count++;
    l->total++;
}

void skipped_files_add_file(struct skipped_files *l, const char *name)
{
    const char *extension = image_name_extension(name);
    char kind[16] = ".";
    size_t n = strlen(extension);
    if (n == 0 || n > sizeof(kind) - 2) {
        skipped_files_add(l, "no extension");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)extension[i]) && extension[i] != '_' && extension[i] != '-') {
            skipped_files_add(l, "others");
            return;
        }
        kind[i + 1] = (char)tolower((unsigned char)extension[i]);
    }
    skipped_files_add(l, kind);
}

static int compare_counts(const void *a, const void *b)
{
    const struct skipped_files_entry *x = a, *y = b;
    return x->count == y->count ? strcmp(x->kind, y->kind) : x->count < y->count ? 1 : -1;
}

static void sort_counts(struct skipped_files *l)
{
    qsort(l->entry, (size_t)l->kinds, sizeof(l->entry[0]), compare_counts);
}

void skipped_files_note(struct skipped_files *l, struct text *out)
{
    sort_counts(l);
    for (int i = 0; i < l->kinds; i++)
        text_printf(out, "%s%llu %s", i ? ", " : "", (unsigned long long)l->entry[i].count, l->entry[i].kind);
}

char *skipped_files_number(uint64_t n, char *out, size_t out_size)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
    size_t used = 0;
    for (int i = 0; i < length && used + 2 < out_size; i++) {
        if (i && (length - i) % 3 == 0)
            out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = 0;
    return out;
}

void skipped_files_say(struct skipped_files *l, int most, char *out, size_t out_size)
{
    sort_counts(l);
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < l->kinds && i < most && used < out_size; i++) {
        char number[32];
        used += (size_t)snprintf(out + used, out_size - used, "%s%s %s", i ? ", " : "", l->entry[i].kind,
                                 skipped_files_number(l->entry[i].count, number, sizeof(number)));
    }
    if (l->kinds > most && used < out_size)
        snprintf(out + used, out_size - used, ", ...");
}

int skipped_files_conclude(struct skipped_files *l, uint64_t not_decoded, const struct dataset_job *job, struct fb_error *e)
{
    char kinds[256], number[32];
    if (not_decoded) {
        skipped_files_say(l, 6, kinds, sizeof(kinds));
        log_line(&job->request->log, LOG_WARN, "%s: %s images are in formats that are not decoded and were left out (%s)", job->root,
                 skipped_files_number(not_decoded, number, sizeof(number)), kinds);
    }
    struct text note = {.limit = 4096};
    skipped_files_note(l, &note);
    int rc = note.length ? catalog_add_note(job->w, "left out", note.data, e) : 0;
    text_free(&note);
    return rc;
}
